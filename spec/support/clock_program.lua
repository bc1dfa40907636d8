-- Uses every wait of the library, and prints a line for each with what it took, measured by the kernel's own count
-- of time since its start, or "wrong". To be run with a time of day that jumps.

local sandbox = require "chamvi.sandbox"
local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = arg[1] })

local function uptime_ms()
    local file = assert(io.open("/proc/uptime"))
    local seconds = file:read("*n")
    file:close()
    return seconds * 1000
end

-- It takes at least `least` and, with room for a slow machine, at most that and a minute; a jump is of hours.
local function timed(name, least, fn)
    local started = uptime_ms()
    local outcome = fn()
    local took = uptime_ms() - started
    local right = took >= least - 10 and took <= least + 60000
    print(name, outcome, right and "in time" or "wrong: " .. took .. " ms")
end

local before, jumps = nil, 0
for _ = 1, 10 do
    local time = os.time()
    jumps = jumps + (before and math.abs(time - before) > 3600 and 1 or 0)
    before = time
end
print("jumps", jumps)

sandbox.run(function()
    local workspace
    timed("create", 0, function()
        workspace = assert(provider:create({ run_id = "spec" }))
        return workspace.info.expires_at - workspace.info.created_at
    end)
    timed("sleep", 300, function()
        sandbox.sleep(300)
    end)
    timed("exec", 200, function()
        local result = assert(workspace:exec({ "sleep", "0.2" }))
        return result.duration_ms >= 200 and result.duration_ms < 60000 and result.status
    end)
    timed("time-out", 300, function()
        local result = assert(workspace:exec({ "sleep", "1000" }, { timeout_ms = 300 }))
        return result.duration_ms >= 300 and result.duration_ms < 60000 and result.status
    end)
    timed("held output", 1900, function()
        return assert(workspace:exec({ "sh", "-c", "sleep 1000 &" })).streams_held
    end)
    timed("dispose", 0, function()
        return workspace:dispose()
    end)
end)
