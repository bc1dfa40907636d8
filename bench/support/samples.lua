--- Reads what a run has measured.
--
-- A file of samples holds the answers of one participant in one series, a line each: the round, the missing bytes,
-- latencies in nanoseconds.

local stats = require "stats"

local samples = {}

---@class bench.Samples
---@field count integer of all latencies
---@field p50 number of all latencies, in nanoseconds
---@field p99 number
---@field max number
---@field medians table<integer, number> the median latency of each round
---@field rounds integer
---@field lost integer missing bytes

---@param path string
---@return bench.Samples? nil where there is no such file, or nothing in it
function samples.read(path)
    local file = io.open(path)
    if not file then
        return nil
    end
    local read = { medians = {}, rounds = 0, lost = 0 }
    local all, by_round = {}, {}
    for line in file:lines() do
        local round, lost, latencies = line:match "^(%d+) (%-?%d+) (.*)$"
        round = tonumber(round)
        by_round[round] = by_round[round] or {}
        read.lost = read.lost + tonumber(lost)
        for latency in latencies:gmatch "%d+" do
            table.insert(by_round[round], tonumber(latency))
            table.insert(all, tonumber(latency))
        end
    end
    file:close()
    for round, latencies in pairs(by_round) do
        read.medians[round] = stats.median(latencies)
        read.rounds = read.rounds + 1
    end
    if #all == 0 then
        return nil
    end
    read.count = #all
    read.p50, read.p99, read.max = stats.median(all), stats.quantile(all, 0.99), stats.quantile(all, 1)
    return read
end

---@class bench.Ratio
---@field median number
---@field q1 number
---@field q3 number
---@field rounds integer

--- The ratio of two participants: one ratio of medians for each round that both took part in, so that
--- what slows the machine for a while slows both sides of it.
---@param one bench.Samples?
---@param other bench.Samples?
---@return bench.Ratio?
function samples.ratio(one, other)
    local ratios = {}
    if one and other then
        for round, median in pairs(one.medians) do
            if other.medians[round] then
                ratios[#ratios + 1] = median / other.medians[round]
            end
        end
    end
    if #ratios == 0 then
        return nil
    end
    return {
        median = stats.median(ratios),
        q1 = stats.quantile(ratios, 0.25),
        q3 = stats.quantile(ratios, 0.75),
        rounds = #ratios,
    }
end

--- The captures of each line of a file.
---@param path string
---@param pattern string
---@return string[][]
function samples.lines(path, pattern)
    local records = {}
    for line in io.lines(path) do
        records[#records + 1] = { line:match(pattern) }
    end
    return records
end

return samples
