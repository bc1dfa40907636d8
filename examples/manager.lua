-- A plain script: a manager, the workspace of a run, and its end.
--
--   eval "$(scripts/env)" && lua5.4 examples/manager.lua /path/to/a/repository

local sandbox = require "chamvi.sandbox"
local local_sandbox = require "chamvi.sandbox.local"

local repository = "file://" .. assert(arg[1], "usage: manager.lua /path/to/a/repository")

local manager = sandbox.create_workspace_manager({
    provider = local_sandbox.create_local_sandbox(),
    allow_file_repos = true,
    limits = { timeout_ms = 10 * 60 * 1000 },
})

local workspace, err = manager:acquire("run-1", { repo = repository })
if not workspace then
    io.stderr:write(tostring(err), "\n")
    os.exit(1)
end
print("commit " .. workspace.info.commit)

assert(workspace:write_file("notes/plan.md", "# Plan\n"))
local result = assert(workspace:exec({ "git", "status", "--porcelain", "--untracked-files=all" }))
io.write(result.stdout)

-- Whoever asks for the same repository gets the same workspace.
local same, reused = manager:acquire("run-1", { repo = repository })
print("reused " .. tostring(reused and same == workspace))

assert(manager:release("run-1"))
print(select(2, manager:get("run-1")))
manager:close()
