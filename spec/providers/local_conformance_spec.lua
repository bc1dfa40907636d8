local conformance = require "spec.support.conformance"
local local_sandbox = require "chamvi.sandbox.local"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

describe("local workspaces", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    conformance({ describe = describe, it = it, after_each = after_each }, {
        name = "local",

        provider = function(options)
            local given = { root = place.root }
            for name, value in pairs(options or {}) do
                given[name] = value
            end
            return local_sandbox.create_local_sandbox(given)
        end,

        repository = scratch.repository(place.folder .. "/repository"),

        lose = function(workspace)
            scratch.shell("rm -rf -- " .. scratch.quote(place.path(workspace)))
        end,

        left = function()
            local ids = {}
            for _, name in ipairs(scratch.list(place.root)) do
                ids[name:sub(1, 36)] = true
            end
            local list = {}
            for id in pairs(ids) do
                table.insert(list, id)
            end
            return list
        end,

        running = scratch.is_running,
    })
end)
