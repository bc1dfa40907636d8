--- chamvi as a participant: local workspaces, inside a task of plain Lua. Unlike the peers it keeps the output
-- (to the cap), so a kept stdout is checked to be whole too.
--
-- usage: chamvi.lua WORKSPACES      among how many workspaces `together` spreads its commands
--
-- Requests besides those of every participant: `stream` (as `exec`, with an `on_output` that counts), `cycle` (a
-- workspace acquired and released; a latency each), `cycles` (COUNT of them, BYTES at once; one latency), `live` (COUNT
-- workspaces acquired, which stay), `rest` (COUNT seconds of waiting in the loop) and `release` (of those that stay).

local sandbox = require "chamvi.sandbox"
local local_sandbox = require "chamvi.sandbox.local"
local participant = require "participant"

local SPREAD = tonumber(arg[1])
local CREATES_AT_ONCE = 8

-- The same PATH for every participant: where a program stands in it decides how many lookups fail.
local manager = sandbox.create_workspace_manager {
    provider = local_sandbox.create_local_sandbox { env = { PATH = os.getenv "PATH" } },
}
local last_run = 0

-- A workspace for a run of its own.
local function acquire()
    last_run = last_run + 1
    return assert(manager:acquire("bench-" .. last_run))
end

local function release(workspace)
    return assert(manager:release(workspace.info.run_id, workspace.id))
end

local function check(result, argv)
    if result.status ~= "exited" or result.exit_code ~= 0 then
        error(string.format("%s: %s, exit code %s", argv[1], result.status, tostring(result.exit_code)), 0)
    end
end

local function exec(workspace, argv, bytes)
    local result = assert(workspace:exec(argv))
    check(result, argv)
    local missing = bytes - result.stdout_bytes
    if bytes <= sandbox.OUTPUT_MAX_BYTES then
        missing = math.max(missing, bytes - #result.stdout)
    end
    return missing
end

local function stream(workspace, argv, bytes)
    local got = 0
    local result = assert(workspace:exec(argv, {
        on_output = function(name, chunk)
            if name == "stdout" then
                got = got + #chunk
            end
        end,
    }))
    check(result, argv)
    return bytes - got
end

-- Runs the functions at once and returns a list of their first results. Raises what the first of them raised that
-- failed, and says how many did.
local function all(functions)
    local values, failed, reason = {}, 0, nil
    for i, results in ipairs(sandbox.all(functions)) do
        values[i] = results[1]
        if results[1] == nil then
            failed, reason = failed + 1, reason or results[2]
        end
    end
    if failed > 0 then
        error(string.format("%d of %d failed, the first: %s", failed, #functions, tostring(reason)), 0)
    end
    return values
end

-- Calls `fn` `count` times, `at_once` at a time.
local function repeatedly(count, at_once, fn)
    local begun = 0
    local function work()
        while begun < count do
            begun = begun + 1
            fn(begun)
        end
        return true
    end
    local workers = {}
    for i = 1, at_once do
        workers[i] = work
    end
    all(workers)
end

local function release_all(workspaces)
    local releases = {}
    for i, workspace in ipairs(workspaces) do
        releases[i] = function()
            return release(workspace)
        end
    end
    all(releases)
end

sandbox.run(function()
    local first = acquire()
    local spread, living = { first }, {}

    local function cycle()
        release(acquire())
    end

    local function together(count, bytes, argv)
        local execs, missing = {}, 0
        for i = 1, count do
            local workspace = spread[i % #spread + 1]
            execs[i] = function()
                return exec(workspace, argv, bytes)
            end
        end
        for _, lost in ipairs(all(execs)) do
            missing = missing + lost
        end
        return missing
    end

    local timed_together = participant.whole(together)
    participant.serve {
        exec = participant.each(function(argv, bytes)
            return exec(first, argv, bytes)
        end),
        stream = participant.each(function(argv, bytes)
            return stream(first, argv, bytes)
        end),
        together = function(...)
            for i = #spread + 1, SPREAD do
                spread[i] = acquire()
            end
            return timed_together(...)
        end,
        cycle = participant.each(cycle),
        cycles = participant.whole(function(count, at_once)
            repeatedly(count, at_once, cycle)
        end),
        live = participant.whole(function(count)
            repeatedly(count, CREATES_AT_ONCE, function(i)
                living[i] = acquire()
            end)
        end),
        rest = participant.whole(function(seconds)
            assert(sandbox.sleep(seconds * 1000))
        end),
        release = participant.whole(function()
            release_all(living)
            living = {}
        end),
    }
    release_all(spread)
end)
manager:close()
