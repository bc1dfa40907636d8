-- How much memory this process has.

local memory = {}

--- Resident memory in bytes.
---@return integer
function memory.resident()
    local file = assert(io.open("/proc/self/statm"))
    local pages = file:read("*a"):match("^%d+ (%d+)")
    file:close()
    return tonumber(pages) * 4096
end

--- The least by which resident memory grows from one round of `work` to the next. What a round leaks is added by every
--- round; what the collectors of Lua and of C happen to keep is not.
---@param work fun()
---@return integer bytes
function memory.leaked(work)
    local function after_work()
        work()
        collectgarbage()
        collectgarbage()
        return memory.resident()
    end
    local before, least = after_work(), math.huge
    for _ = 1, 6 do
        local now = after_work()
        least = math.min(least, now - before)
        before = now
    end
    return least
end

return memory
