--- What a manager does per second of CPU time over a provider in plain Lua that costs next to nothing, on one line
--- each: `what<TAB>times`.
--
--     manager.lua SECONDS        how long each is measured

local fake_provider = require "spec.support.fake_provider"
local sandbox = require "chamvi.sandbox"

local seconds = tonumber(arg[1])

local fake = fake_provider.new({ forgetful = true })
local manager = sandbox.create_workspace_manager({ provider = fake, clock = fake.clock, max_workspaces_per_run = 10 })
local held = assert(manager:acquire("held", { repo = "owner/name" }))
local name = { repo = "owner/name" }

local measures = {
    { "acquire and release of a run", function()
        assert(manager:acquire("run", name))
        assert(manager:release("run"))
    end },
    { "acquire and release by id", function()
        assert(manager:release("run", assert(manager:acquire("run")).id))
    end },
    { "acquire of what is held", function()
        assert(manager:acquire("held", name))
    end },
    { "get", function()
        assert(manager:get("held", held.id))
    end },
}

for _, measure in ipairs(measures) do
    local what, act = measure[1], measure[2]
    collectgarbage()
    local times, start = 0, os.clock()
    local elapsed
    repeat
        for _ = 1, 1000 do
            act()
        end
        times = times + 1000
        elapsed = os.clock() - start
    until elapsed >= seconds
    io.write(("%s\t%.0f\n"):format(what, times / elapsed))
end

assert(manager:close())
fake:assert_nothing_left()
