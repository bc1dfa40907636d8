--- Order statistics of samples.

local stats = {}

--- The quantile `q` by linear interpolation between the two nearest samples.
---@param samples number[] not empty; not changed
---@param q number 0 to 1
---@return number
function stats.quantile(samples, q)
    local sorted = {}
    for i = 1, #samples do
        sorted[i] = samples[i]
    end
    table.sort(sorted)
    local position = 1 + (#sorted - 1) * q
    local below = math.floor(position)
    local above = math.min(below + 1, #sorted)
    return sorted[below] + (sorted[above] - sorted[below]) * (position - below)
end

--- The median.
---@param samples number[] not empty; not changed
---@return number
function stats.median(samples)
    return stats.quantile(samples, 0.5)
end

return stats
