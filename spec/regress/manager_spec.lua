-- Faults of the manager that random interleavings have found, each as small as it gets.

local errors = require "chamvi.sandbox.errors"
local managed = require "spec.support.managed"
local sandbox = require "chamvi.sandbox"

local FAILURE = errors.sandbox("remove_failed", "planned")

describe("a disposal that fails while another one hangs", function()
    -- A run with two workspaces: the disposal that begins first waits for the spec, all others fail.
    local function two(options)
        local manager, place = managed.new(options)
        assert(manager:acquire("run"))
        assert(manager:acquire("run", { repo = "owner/name" }))
        function place.fake.plan_dispose(step)
            return step.number == 1 and { "wait" } or { "fail", FAILURE }
        end
        return manager, place
    end

    local function finish(place)
        place.fake:waiting().disposals[1]:finish()
    end

    it("is reported at once by a release", function()
        local manager, place = two()
        sandbox.run(function()
            local release = sandbox.spawn(manager.release, manager, "run")
            managed.settle()
            assert.is_false(release.done)
            assert.same({ FAILURE }, place.errors)
            finish(place)
            assert.is_true(release:join())
        end)
        assert.same({ FAILURE }, place.errors)
    end)

    it("is reported by a close that gives the other one up", function()
        local manager, place = two()
        assert.is_true(manager:close({ timeout_ms = 0 }))
        assert.equal(2, #place.errors)
        assert.equal(FAILURE, place.errors[1])
        assert.equal("closed", place.errors[2].code)
        finish(place)
        assert.equal(2, #place.errors)
    end)

    it("is told by the collection that tried it, and by nobody else", function()
        local manager, place = two({ limits = { timeout_ms = 10 } })
        place.time = place.time + 10
        sandbox.run(function()
            local collection = sandbox.spawn(manager.collect_garbage, manager)
            managed.settle()
            local release = sandbox.spawn(manager.release, manager, "run")
            managed.settle()
            finish(place)
            local count, err = collection:join()
            assert.is_nil(count)
            assert.equal("gc_failed", err.code)
            assert.is_true(release:join())
        end)
        -- The release has tried again, which is a failure of its own.
        assert.same({ FAILURE }, place.errors)
    end)
end)

describe("a create that was given up", function()
    local function give_up(place, manager)
        function place.fake.plan_create()
            return { "wait", on_abort = "ignore" }
        end
        sandbox.spawn(manager.acquire, manager, "run")
        manager:hooks().cancelled("run")
        return place.fake.creates[1]
    end

    it("is reported when it fails by anything but the abort", function()
        local manager, place = managed.new()
        give_up(place, manager):finish({ "fail", FAILURE })
        assert.same({ FAILURE }, place.errors)
        give_up(place, manager)
        place.fake.creates[2]:finish({ "fail", errors.sandbox("aborted", "the call was aborted") })
        assert.same({ FAILURE }, place.errors)
    end)

    it("and delivers, with a disposal that hangs, is reported once by a close that gives up", function()
        local manager, place = managed.new()
        place.fake.plan_dispose = managed.wait
        give_up(place, manager):finish()
        assert.is_true(manager:close({ timeout_ms = 0 }))
        assert.equal(1, #place.errors)
        assert.is_truthy(place.errors[1].message:find(place.fake.accounts[1].workspace.id, 1, true))
        place.fake.accounts[1].disposal:finish()
        assert.is_true(manager:close())
        place.fake:assert_nothing_left()
        assert.equal(1, #place.errors)
    end)
end)
