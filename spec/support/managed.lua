-- A manager over the fake provider for specs, with a clock that stands still until it is set.

local fake_provider = require "spec.support.fake_provider"
local sandbox = require "chamvi.sandbox"

local managed = {}

--- A manager whose background failures are in `errors` of the second result.
---@param options? table options of the manager; no collections in the background unless they ask for them
---@return chamvi.WorkspaceManager
---@return { fake: spec.FakeProvider, errors: any[], time: integer } place `time` is what the clock says
function managed.new(options)
    local place = { errors = {}, time = 1000 }
    local clock = {
        now = function()
            return place.time
        end,
    }
    place.fake = fake_provider.new({ clock = clock })
    local given = {
        provider = place.fake,
        clock = clock,
        gc_interval_ms = 0,
        on_error = function(err)
            table.insert(place.errors, err)
        end,
    }
    for name, value in pairs(options or {}) do
        given[name] = value
    end
    return sandbox.create_workspace_manager(given), place
end

--- A plan for the fake: everything waits for the spec.
function managed.wait()
    return { "wait" }
end

--- Lets tasks run until they all wait for something else.
function managed.settle()
    for _ = 1, 5 do
        sandbox.sleep(0)
    end
end

return managed
