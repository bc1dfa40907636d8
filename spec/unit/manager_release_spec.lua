-- What CONTRACT and reference say about get and release, sentence by sentence, over the fake provider.

local errors = require "chamvi.sandbox.errors"
local managed = require "spec.support.managed"
local sandbox = require "chamvi.sandbox"

local ONE, TWO = "https://example.com/one", "https://example.com/two"
local FAILURE = errors.sandbox("remove_failed", "busy")

local function fails()
    return { "fail", FAILURE }
end

local function succeeds() end

local function assert_error(name, code, value, err)
    assert.is_nil(value)
    assert.is_true(sandbox.is_error(err, name), tostring(err))
    assert.equal(code, err.code)
    return err
end

describe("get", function()
    it("gives the workspace by its id", function()
        local manager = managed.new()
        local one = assert(manager:acquire("run", { repo = ONE }))
        local two = assert(manager:acquire("run", { repo = TWO }))
        assert.equal(one, (manager:get("run", one.id)))
        assert.equal(two, (manager:get("run", two.id)))
    end)

    it("gives the only live one without an id", function()
        local manager, place = managed.new({ limits = { timeout_ms = 100 } })
        local one = assert(manager:acquire("run", { repo = ONE }))
        assert.equal(one, (manager:get("run")))
        place.time = place.time + 50
        local two = assert(manager:acquire("run", { repo = TWO }))
        place.time = place.time + 50 -- the first has expired, and is disposed
        assert.equal(two, (manager:get("run")))
        assert.same({ 2 }, place.fake:alive())
        assert(manager:acquire("run"))
        place.fake:lose(2)
        assert.are_not.equal(two, assert(manager:get("run")))
        assert.same({ 3 }, place.fake:alive())
    end)

    it("knows nothing of other runs, and not found is in the message", function()
        local manager = managed.new()
        local held = assert(manager:acquire("run"))
        for _, asked in ipairs({ { "other", held.id }, { "run", sandbox.uuid() }, { "run", "" } }) do
            local err = assert_error("SandboxError", "workspace_not_found", manager:get(asked[1], asked[2]))
            assert.matches("not found", err.message)
        end
        assert.matches("no workspace", assert_error("SandboxError", "no_workspace", manager:get("other")).message)
    end)

    it("is no_workspace while the only one is being made", function()
        local manager, place = managed.new()
        place.fake.plan_create = managed.wait
        local task = sandbox.spawn(manager.acquire, manager, "run")
        assert_error("SandboxError", "no_workspace", manager:get("run"))
        place.fake.creates[1]:finish()
        assert(task:join())
    end)

    it("needs an id when there are several, and names them", function()
        local manager = managed.new()
        local one = assert(manager:acquire("run", { repo = ONE }))
        local two = assert(manager:acquire("run"))
        local err = assert_error("ValidationError", "workspace_required", manager:get("run"))
        for _, word in ipairs({ one.id, two.id, ONE }) do
            assert.is_truthy(err.message:find(word, 1, true), word)
        end
    end)

    it("finds what has expired or is gone once, drops it and never waits for its disposal", function()
        local manager, place = managed.new({ limits = { timeout_ms = 100 } })
        place.fake.plan_dispose = managed.wait
        local expired = assert(manager:acquire("run", { repo = ONE }))
        place.time = place.time + 50
        local gone = assert(manager:acquire("run", { repo = TWO }))
        place.fake:lose(2)
        assert_error("SandboxError", "gone", manager:get("run", gone.id))
        place.time = place.time + 50
        assert_error("SandboxError", "workspace_expired", manager:get("run", expired.id))
        assert_error("SandboxError", "workspace_not_found", manager:get("run", gone.id))
        assert_error("SandboxError", "workspace_not_found", manager:get("run", expired.id))
        assert_error("SandboxError", "no_workspace", manager:get("run"))
        for number = 1, 2 do
            place.fake.accounts[number].disposal:finish()
        end
        place.fake:assert_nothing_left()
        assert.same({}, place.errors)
    end)

    it("works where nothing may wait", function()
        local manager, place = managed.new()
        assert(manager:acquire("run"))
        place.fake:lose(1)
        local err
        local signal = sandbox.signal()
        signal:on_abort(function()
            err = select(2, manager:get("run"))
        end)
        signal:abort()
        assert.equal("no_workspace", err.code)
        place.fake:assert_nothing_left()
    end)

    it("tells of a failing disposal on_error alone", function()
        local manager, place = managed.new()
        place.fake.plan_dispose = fails
        assert(manager:acquire("run"))
        place.fake:lose(1)
        assert_error("SandboxError", "no_workspace", manager:get("run"))
        assert.same({ FAILURE }, place.errors)
    end)

    it("takes an id of any type, as a model gives it", function()
        local manager = managed.new()
        for _, id in ipairs({ 7, {}, true, sandbox.null }) do
            assert_error("ValidationError", "invalid_input", manager:get("run", id))
            assert_error("ValidationError", "invalid_input", manager:release("run", id))
        end
        assert.error_matches(function()
            manager:get(nil)
        end, "bad argument #1 to 'get'")
        assert.error_matches(function()
            manager:release({})
        end, "bad argument #1 to 'release'")
    end)
end)

describe("release of one", function()
    it("disposes it and nothing else", function()
        local manager, place = managed.new()
        local one = assert(manager:acquire("run", { repo = ONE }))
        local two = assert(manager:acquire("run", { repo = TWO }))
        assert.is_true(manager:release("run", one.id))
        assert.is_true(one.disposed)
        assert.same({ 2 }, place.fake:alive())
        assert.equal(two, (manager:get("run")))
    end)

    it("waits for the disposal", function()
        local manager, place = managed.new()
        place.fake.plan_dispose = managed.wait
        local held = assert(manager:acquire("run"))
        local task = sandbox.spawn(manager.release, manager, "run", held.id)
        assert.is_false(task.done)
        place.fake.accounts[1].disposal:finish()
        assert.is_true(task:join())
    end)

    it("of an id that the run does not hold is workspace_not_found, like get", function()
        local manager = managed.new()
        local held = assert(manager:acquire("run"))
        assert_error("SandboxError", "workspace_not_found", manager:release("other", held.id))
        assert_error("SandboxError", "workspace_not_found", manager:release("run", "x"))
        assert(manager:release("run", held.id))
        assert_error("SandboxError", "workspace_not_found", manager:release("run", held.id))
    end)

    it("returns the error of a disposal that fails, and the next release tries again", function()
        local manager, place = managed.new()
        local held = assert(manager:acquire("run"))
        place.fake.plan_dispose = fails
        assert.equal(FAILURE, select(2, manager:release("run", held.id)))
        assert.equal(FAILURE, select(2, manager:release("run", held.id)))
        assert_error("SandboxError", "workspace_not_found", manager:get("run", held.id)) -- of no use any more
        place.fake.plan_dispose = succeeds
        assert.is_true(manager:release("run", held.id))
        place.fake:assert_nothing_left()
        assert.same({}, place.errors) -- the caller was told
    end)

    it("by several at once disposes once, and all wait", function()
        local manager, place = managed.new()
        place.fake.plan_dispose = managed.wait
        local held = assert(manager:acquire("run"))
        local one = sandbox.spawn(manager.release, manager, "run", held.id)
        local two = sandbox.spawn(manager.release, manager, "run", held.id)
        place.fake.accounts[1].disposal:finish()
        assert.is_true(one:join())
        assert.is_true(two:join())
        assert.equal(1, place.fake.accounts[1].calls)
    end)

    it("of one that has expired or is gone disposes it too", function()
        local manager, place = managed.new({ limits = { timeout_ms = 100 } })
        local one = assert(manager:acquire("run", { repo = ONE }))
        local two = assert(manager:acquire("run", { repo = TWO }))
        place.fake:lose(2)
        place.time = place.time + 100
        assert.is_true(manager:release("run", one.id))
        assert.is_true(manager:release("run", two.id))
        place.fake:assert_nothing_left()
    end)

    it("of a workspace whose dispose raises or lies is an error all the same", function()
        local manager, place = managed.new()
        for _, outcome in ipairs({ { "raise", "on purpose" }, { "give" }, { "give", nil, "words" } }) do
            place.fake.plan_dispose = function()
                return outcome
            end
            local held = assert(manager:acquire("run"))
            assert_error("SandboxError", "remove_failed", manager:release("run", held.id))
        end
    end)
end)

describe("release of a run", function()
    it("is true for a run that holds nothing", function()
        local manager = managed.new()
        assert.is_true(manager:release("run"))
    end)

    it("disposes all of the run, and nothing of others", function()
        local manager, place = managed.new()
        assert(manager:acquire("run", { repo = ONE }))
        assert(manager:acquire("run"))
        assert(manager:acquire("other"))
        assert.is_true(manager:release("run"))
        assert.same({ 3 }, place.fake:alive())
        assert_error("SandboxError", "no_workspace", manager:get("run"))
    end)

    it("aborts the run's creates, whose waiters get released, and waits for them", function()
        local manager, place = managed.new()
        place.fake.plan_create = function()
            return { "wait", on_abort = "ignore" }
        end
        sandbox.run(function()
            local waiter = sandbox.spawn(manager.acquire, manager, "run")
            managed.settle()
            local releaser = sandbox.spawn(manager.release, manager, "run")
            managed.settle()
            assert.is_true(place.fake.creates[1].request.signal.aborted)
            assert_error("SandboxError", "released", waiter:join())
            assert.is_false(releaser.done)
            place.fake.creates[1]:finish() -- delivers in spite of the abort
            assert.is_true(releaser:join())
        end)
        place.fake:assert_nothing_left()
        assert.same({}, place.errors)
    end)

    it("waits for disposals that began before", function()
        local manager, place = managed.new()
        place.fake.plan_dispose = managed.wait
        sandbox.run(function()
            assert(manager:acquire("run"))
            place.fake:lose(1)
            assert_error("SandboxError", "no_workspace", manager:get("run"))
            local task = sandbox.spawn(manager.release, manager, "run")
            managed.settle()
            assert.is_false(task.done)
            place.fake.accounts[1].disposal:finish()
            assert.is_true(task:join())
        end)
    end)

    it("is true always: failures go to on_error, and the next release tries again", function()
        local manager, place = managed.new()
        assert(manager:acquire("run", { repo = ONE }))
        assert(manager:acquire("run"))
        place.fake.plan_dispose = fails
        assert.is_true(manager:release("run"))
        assert.same({ FAILURE, FAILURE }, place.errors)
        place.fake.plan_dispose = succeeds
        assert.is_true(manager:release("run"))
        place.fake:assert_nothing_left()
    end)

    it("reports the failure of what a create delivered too late", function()
        local manager, place = managed.new()
        place.fake.plan_create = function()
            return { "wait", on_abort = "ignore" }
        end
        place.fake.plan_dispose = fails
        sandbox.run(function()
            sandbox.spawn(manager.acquire, manager, "run")
            managed.settle()
            local releaser = sandbox.spawn(manager.release, manager, "run")
            managed.settle()
            place.fake.creates[1]:finish()
            assert.is_true(releaser:join())
        end)
        assert.same({ FAILURE }, place.errors)
    end)

    it("does not touch what is acquired after it", function()
        local manager, place = managed.new()
        place.fake.plan_dispose = managed.wait
        sandbox.run(function()
            assert(manager:acquire("run"))
            local releaser = sandbox.spawn(manager.release, manager, "run")
            managed.settle()
            local fresh, reused = assert(manager:acquire("run"))
            assert.is_false(reused)
            place.fake.accounts[1].disposal:finish()
            assert.is_true(releaser:join())
            assert.equal(fresh, (manager:get("run")))
            assert.is_false(fresh.disposed)
        end)
    end)
end)
