-- Two runs in parallel on one repository: each has a workspace of its own, its two steps share it, and an engine's
-- event releases it.
--
--   eval "$(scripts/env)" && lua5.4 examples/parallel_runs.lua /path/to/a/repository

local sandbox = require "chamvi.sandbox"
local local_sandbox = require "chamvi.sandbox.local"

local url = "file://" .. assert(arg[1], "usage: parallel_runs.lua /path/to/a/repository")

-- What an orchestrator has: something that says when a run has settled.
local engine = { listeners = {} }

function engine:on(event, listener)
    self.listeners[event] = self.listeners[event] or {}
    self.listeners[event][listener] = true
    return function()
        self.listeners[event][listener] = nil
    end
end

function engine:emit(event, run_id)
    for listener in pairs(self.listeners[event] or {}) do
        listener({ run_id = run_id })
    end
end

local manager = sandbox.create_workspace_manager({
    provider = local_sandbox.create_local_sandbox(),
    allow_repo = function(allowed)
        return allowed == url
    end,
    allow_file_repos = true,
})
manager:attach(engine)

-- Both steps of a run ask for the repository at the same moment; one create serves both.
local function step(run_id, argv)
    return function()
        local workspace = assert(manager:acquire(run_id, { repo = url }))
        return workspace.id, assert(workspace:exec(argv)).stdout
    end
end

local function run(run_id)
    local results = sandbox.all({
        step(run_id, { "git", "rev-parse", "HEAD" }),
        step(run_id, { "sh", "-c", "echo " .. run_id .. " > mine; cat mine" }),
    })
    for _, packed in ipairs(results) do
        assert(packed[1], packed[2])
    end
    assert(results[1][1] == results[2][1], "one workspace for both")
    engine:emit("completed", run_id)
    return results[1][1], results[2][2]
end

sandbox.run(function()
    local results = sandbox.all({
        function()
            return run("run-1")
        end,
        function()
            return run("run-2")
        end,
    })
    for _, packed in ipairs(results) do
        assert(packed[1], packed[2])
        io.write(packed[2])
    end
    print("two workspaces " .. tostring(results[1][1] ~= results[2][1]))

    manager:close() -- waits for what the events have begun
    print(select(2, manager:acquire("run-3")))
end)
