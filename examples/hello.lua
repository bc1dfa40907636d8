-- A workspace, one command in it, and its end.
--
--   eval "$(scripts/env)" && lua5.4 examples/hello.lua

local sandbox = require "chamvi.sandbox"
local provider = require("chamvi.sandbox.local").create_local_sandbox()

local workspace = assert(provider:create({ run_id = "hello" }))
local result = assert(workspace:exec({ "sh", "-c", "echo Hello from $PWD; exit 3" }))
io.write(result.stdout)
print("exit code " .. result.exit_code .. " after " .. result.duration_ms .. " ms")

-- What a model or the outside world does wrong is an answer, not a raise.
local nothing, err = workspace:exec({ "true" }, { cwd = "../.." })
assert(nothing == nil and sandbox.is_error(err, "ValidationError"))
print(err)

assert(workspace:dispose())
