-- What the program beside it runs: two commands at once, in the background. Returns the loop that the program serves.
--
-- luacheck: globals finish

local sandbox = require "chamvi.sandbox"
local provider = require("chamvi.sandbox.local").create_local_sandbox()

local function work()
    local workspace = assert(provider:create({ run_id = "embedding" }))
    local function command(script)
        return function()
            return assert(workspace:exec({ "sh", "-c", script })).stdout
        end
    end
    local results = sandbox.all({ command("sleep 0.5; echo slow"), command("sleep 0.2; echo quick") })
    assert(workspace:dispose())
    for _, packed in ipairs(results) do
        local stdout = assert(packed[1], packed[2])
        io.write(stdout)
    end
    return true
end

sandbox.async(work, function(done, err)
    finish(not done and tostring(err) or nil)
end)

return sandbox.loop()
