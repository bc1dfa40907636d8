-- Local workspaces for specs, in a folder of their own that is watched for leaks.

local leaks = require "spec.support.leaks"
local local_sandbox = require "chamvi.sandbox.local"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local with_workspace = require "spec.support.with_workspace"

local support = {}

--- Waits for at most 20 s until `condition()` is true, which `what` names in the error.
---@param condition fun(): any
---@param what string
function support.wait_until(condition, what)
    for _ = 1, 4000 do
        if condition() then
            return
        end
        sandbox.sleep(5)
    end
    error("not within 20 s: " .. what)
end

--- To be called in a `describe`, with busted's own functions, since a required file does not see them.
---@param busted { setup: function, teardown: function, before_each: function, after_each: function }
---@return table place `root`: the folder of the workspaces; `folder`: another one, for what a spec needs
function support.place(busted)
    local place = { folder = scratch.folder() }
    place.root = place.folder .. "/workspaces"
    scratch.shell("mkdir -m 700 " .. place.root)
    busted.teardown(function()
        scratch.remove(place.folder)
    end)
    leaks.watch(busted.before_each, busted.after_each, place.root)

    --- A provider on the root.
    function place.provider(options)
        local given = { root = place.root }
        for key, value in pairs(options or {}) do
            given[key] = value
        end
        return local_sandbox.create_local_sandbox(given)
    end

    --- Calls `use(workspace)` with a new workspace, and disposes it however that ends.
    function place.with(use, create_options)
        with_workspace(place.provider(), use, create_options)
    end

    --- The folder of a workspace.
    function place.path(workspace)
        return place.root .. "/" .. workspace.id
    end

    return place
end

return support
