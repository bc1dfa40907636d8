local conformance = require "spec.support.conformance"
local namespaces = require "spec.support.namespaces"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

describe("remote workspaces", function()
    local missing = namespaces.missing()
    if missing then
        it("pass the conformance suite", function()
            pending(missing)
        end)
        return
    end

    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })
    local world = namespaces.new(place.root)

    -- The user of the commands is another one.
    local repository = scratch.repository(place.folder .. "/repository")
    scratch.shell(("chmod 755 %s; chown -R 1000:1000 %s/repository"):format(place.folder, place.folder))

    conformance({ describe = describe, it = it, after_each = after_each }, {
        name = "namespaces",
        provider = world.provider,
        repository = repository,
        lose = world.lose,
        left = world.left,
        running = scratch.is_running,
    })
end)
