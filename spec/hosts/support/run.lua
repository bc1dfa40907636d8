-- Runs the behaviours of spec/hosts/behaviours.lua inside a host, and writes what came of each.
--
-- A program of each host calls it, as one task of the host, with what only that host can:
--
--   every(ms, fn) -> stop   has `fn()` called every `ms` milliseconds, by a timer of the host's own
--   pause(ms)               waits in a task, by the host's own means where it has any
--   start(fn)               starts a task of the host's own
--   reported(fn) -> lines   runs `fn()` and gives the lines that came to the host's log; without it: to stderr
--
-- The behaviours get these, and what is added here. The working directory is the project's.

local behaviours = require "spec.hosts.behaviours"
local clock = require "chamvi.sandbox.core"
local local_sandbox = require "chamvi.sandbox.local"
local sandbox = require "chamvi.sandbox"
local written_to_stderr = require "spec.support.stderr"

local function exists(path)
    local file = io.open(path, "rb")
    if file then
        file:close()
    end
    return file ~= nil
end

-- The names in a folder, in one line. Without a pipe to `ls`: a child's status may be the host's business.
local function list(folder, scratch)
    local file = scratch .. "/listing"
    os.execute(("ls -A -- '%s' > '%s'"):format(folder, file))
    local handle = assert(io.open(file))
    local text = handle:read("*a")
    handle:close()
    return (text:gsub("\n$", ""):gsub("\n", " "))
end

local function equal(expected, got, what)
    if not rawequal(expected, got) then
        error(("%s: expected %s, got %s"):format(what, tostring(expected), tostring(got)), 2)
    end
end

--- Runs them all, and leaves a command running in a workspace, for the host to end in the midst of it.
---@param host { every: function, pause: function, start: function }
---@param folder string where workspaces and `results` go; empty
return function(host, folder)
    local results = assert(io.open(folder .. "/results", "a"))
    local function write(result)
        results:write(clock.json_encode(result), "\n")
        results:flush()
    end

    local t = {
        sandbox = sandbox,
        folder = folder,
        workspaces = folder .. "/workspaces",
        every = host.every,
        pause = host.pause,
        start = host.start,
        now = clock.monotonic_ms,
        equal = equal,
        exists = exists,
        written_to_stderr = host.reported or written_to_stderr,
        figure = function(name, value)
            write({ figure = name, value = value })
        end,
        list = function(path)
            return list(path, folder)
        end,
    }
    t.provider = local_sandbox.create_local_sandbox({ root = t.workspaces })
    t.path = function(workspace)
        return t.workspaces .. "/" .. workspace.id
    end

    for _, behaviour in ipairs(behaviours) do
        local ok, err = xpcall(behaviour.run, debug.traceback, t)
        write({ name = behaviour.name, ok = ok, error = not ok and tostring(err) or nil })
    end

    local workspace = assert(t.provider:create({ run_id = "left" }))
    local outcome
    host.start(function()
        outcome = tostring(select(2, workspace:exec({ "sh", "-c", "touch begun; exec sleep 600" })))
    end)
    repeat
        host.pause(10)
    until outcome or exists(t.path(workspace) .. "/begun")
    write({ left = workspace.id, error = outcome })
    results:close()
end
