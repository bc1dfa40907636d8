-- Holds the README's examples of errors against what the library says.

local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

describe("the README", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    it("shows the errors as they are", function()
        local provider = place.provider()
        local manager = sandbox.create_workspace_manager({
            provider = provider,
            allow_repo = function(url)
                return url == "https://github.com/lua/lua.git"
            end,
        })
        local ws = assert(manager:acquire("run-1"))
        local count = 0
        local examples = scratch.read("README.md"):match("\nWhat they look like:\n(.-)\n## ")
        for code, name, err_code, message in examples:gmatch("\n| `([^`]+)` | (%w+) `([%w_]+)`: ([^\n]+) |") do
            local chunk = assert((loadstring or load)("local sandbox, provider, manager, ws = ... return " .. code))
            local ok, value, err = pcall(chunk, sandbox, provider, manager, ws)
            if not ok then
                err = value
            end
            assert.same({ name, err_code, message }, { err.name, err.code, err.message }, code)
            count = count + 1
        end
        assert.is_true(count >= 13)
        manager:close()
    end)
end)
