-- How late a 1 ms timer of the host's own strikes, alone and while commands print at full speed.
--
-- A program of each host calls it, as one task of the host, with its timer; it prints a line for each load.

local sandbox = require "chamvi.sandbox"

local COMMANDS = 50
local BAR_MS = 20 -- no strike is later
local DURATION_MS = tonumber(os.getenv("CHAMVI_BENCH_MS") or 10000)

local function new_record(now_ms)
    local last, late = nil, {}
    return {
        strike = function()
            local now = now_ms()
            if last then
                late[#late + 1] = now - last - 1
            end
            last = now
        end,
        has_any = function()
            return #late > 0
        end,
        line = function()
            table.sort(late)
            local function at(share)
                return late[math.max(1, math.ceil(#late * share))] or 0 / 0
            end
            return ("%d strikes, late by p50 %.2f ms, p99 %.2f ms, max %.2f ms%s"):format(
                #late, at(0.5), at(0.99), at(1), at(1) > BAR_MS and ": MISSED" or "")
        end,
    }
end

-- As many commands at once, each of which prints until its time is over.
local function print_at_full_speed(options)
    local provider = require("chamvi.sandbox.local").create_local_sandbox()
    local workspace = assert(provider:create({ run_id = "bench" }))
    local functions = {}
    for index = 1, COMMANDS do
        functions[index] = function()
            local result = assert(workspace:exec({ "yes" }, options))
            assert(result.timed_out)
        end
    end
    return function()
        for _, results in ipairs(sandbox.all(functions)) do
            assert(results.n == 0, results[2])
        end
    end, function()
        assert(workspace:dispose())
    end
end

local function measure(name, host, what, load)
    local record = new_record(host.now_ms)
    local stop = host.every(1, record.strike)
    load()
    while not record.has_any() do
        sandbox.sleep(1) -- on a machine that has stood still
    end
    stop()
    print(("%s, %s: %s"):format(name, what, record.line()))
    io.stdout:flush()
end

--- Measures and prints.
---@param name string of the host
---@param host { now_ms: (fun(): number), every: fun(ms: integer, fn: function): fun() } `every(ms, fn)` has `fn()`
---   called by a timer of the host, each time `ms` after the last, and returns what stops it; `now_ms` is a clock
return function(name, host)
    name = ("%s, %s"):format(name, jit and "LuaJIT" or _VERSION)
    measure(name, host, "alone", function()
        sandbox.sleep(DURATION_MS)
    end)
    local bytes = 0
    for _, case in ipairs({
        { ("beside %d commands that print"):format(COMMANDS), { timeout_ms = DURATION_MS } },
        {
            "beside the same with on_output",
            {
                timeout_ms = DURATION_MS,
                on_output = function(_, chunk)
                    bytes = bytes + #chunk
                end,
            },
        },
    }) do
        local load, dispose = print_at_full_speed(case[2])
        measure(name, host, case[1], load)
        dispose()
    end
    print(("%s: on_output got %.0f MB/s"):format(name, bytes / 1e3 / DURATION_MS))
end
