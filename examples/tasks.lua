-- Several commands at once: three tasks in one workspace, one of them given up half-way.
--
--   eval "$(scripts/env)" && lua5.4 examples/tasks.lua

local sandbox = require "chamvi.sandbox"
local provider = require("chamvi.sandbox.local").create_local_sandbox()

sandbox.run(function()
    local workspace = assert(provider:create({ run_id = "tasks" }))

    local signal = sandbox.signal()
    local slow = sandbox.spawn(function()
        return workspace:exec({ "sleep", "60" }, { signal = signal })
    end)

    local results = sandbox.all({
        function()
            return workspace:exec({ "sh", "-c", "sleep 0.2; echo one" })
        end,
        function()
            return workspace:exec({ "sh", "-c", "sleep 0.2; echo two" })
        end,
    })
    for _, packed in ipairs(results) do
        local result = assert(packed[1], packed[2])
        io.write(result.stdout)
    end

    signal:abort("no longer needed")
    print(select(2, slow:join()))

    assert(workspace:dispose())
end)
