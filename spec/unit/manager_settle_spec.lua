-- What CONTRACT and reference say about attach, hooks and with_run of a manager, sentence by sentence, over the fake
-- provider.

local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local managed = require "spec.support.managed"
local sandbox = require "chamvi.sandbox"

local ONE = "https://example.com/one"
local FAILURE = errors.sandbox("remove_failed", "busy")
local EVENTS = { "completed", "failed", "cancelled" }

local function fails()
    return { "fail", FAILURE }
end

-- An engine as the contract describes it.
local function new_engine()
    local engine = { listeners = {} }
    function engine:on(event, listener)
        self.listeners[event] = self.listeners[event] or {}
        self.listeners[event][listener] = true
        return function()
            self.listeners[event][listener] = nil
        end
    end
    function engine:emit(event, ...)
        for listener in pairs(self.listeners[event] or {}) do
            listener(...)
        end
    end
    return engine
end

describe("attach", function()
    it("releases a run at completed, failed and cancelled, and at nothing else", function()
        local manager, place = managed.new()
        local engine = new_engine()
        manager:attach(engine)
        for index, event in ipairs(EVENTS) do
            assert(manager:acquire("run"))
            engine:emit("started", "run")
            assert.same({ index }, place.fake:alive())
            engine:emit(event, "run")
            assert.same({}, place.fake:alive())
        end
    end)

    it("takes the run id, or a table that carries it as run_id", function()
        local manager, place = managed.new()
        local engine = new_engine()
        manager:attach(engine)
        assert(manager:acquire("run"))
        engine:emit("completed", { run_id = "run", more = 1 })
        place.fake:assert_nothing_left()
    end)

    it("does not wait: the engine goes on while the disposal does", function()
        local manager, place = managed.new()
        local engine = new_engine()
        manager:attach(engine)
        place.fake.plan_dispose = managed.wait
        assert(manager:acquire("run"))
        engine:emit("completed", "run")
        assert.is_true(place.fake.accounts[1].disposal.waiting)
        place.fake.accounts[1].disposal:finish()
        place.fake:assert_nothing_left()
    end)

    it("never raises into the engine: failures and events without a run go to on_error", function()
        local manager, place = managed.new()
        local engine = new_engine()
        manager:attach(engine)
        place.fake.plan_dispose = fails
        assert(manager:acquire("run"))
        engine:emit("failed", "run")
        assert.same({ FAILURE }, place.errors)
        for _, event in ipairs({ {}, 7, false }) do
            engine:emit("failed", event)
            assert.equal("invalid_input", table.remove(place.errors).code)
        end
        engine:emit("failed")
        assert.equal("invalid_input", table.remove(place.errors).code)
    end)

    it("returns what unsubscribes, more than once", function()
        local manager, place = managed.new()
        local engine = new_engine()
        local unsubscribe = manager:attach(engine)
        unsubscribe()
        unsubscribe()
        assert.same({ completed = {}, failed = {}, cancelled = {} }, engine.listeners)
        assert(manager:acquire("run"))
        engine:emit("completed", "run")
        assert.same({ 1 }, place.fake:alive())
    end)

    it("of several engines is ended by close, and after close it subscribes nothing", function()
        local manager = managed.new()
        local one, two = new_engine(), new_engine()
        manager:attach(one)
        local unsubscribe = manager:attach(two)
        manager:close()
        unsubscribe()
        assert.same({ completed = {}, failed = {}, cancelled = {} }, one.listeners)
        assert.same({ completed = {}, failed = {}, cancelled = {} }, two.listeners)
        local late = new_engine()
        manager:attach(late)()
        assert.same({}, late.listeners)
    end)

    it("refuses what is no engine, and leaves nothing subscribed", function()
        local manager, place = managed.new()
        local hostile = setmetatable({}, { __index = error })
        for _, wrong in ipairs({ 7, "engine", {}, { on = 5 }, io.stdout, sandbox.null, hostile }) do
            assert.error_matches(function()
                manager:attach(wrong)
            end, "bad argument #1 to 'attach'")
        end
        local removed = 0
        local half = {
            on = function(_, event)
                if event == "cancelled" then
                    return nil
                end
                return function()
                    removed = removed + 1
                end
            end,
        }
        local _, err = pcall(manager.attach, manager, half)
        assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"))
        assert.equal(2, removed)
        local _, raised = pcall(manager.attach, manager, {
            on = function()
                error("closed", 0)
            end,
        })
        assert.equal("closed", raised)
        assert.same({}, place.errors)
    end)

    it("reports an engine whose unsubscribe raises, and goes on", function()
        local manager, place = managed.new()
        manager:attach({
            on = function()
                return function()
                    error("broken", 0)
                end
            end,
        })
        assert.is_true(manager:close())
        assert.same({ "broken", "broken", "broken" }, place.errors)
    end)
end)

describe("hooks", function()
    it("are completed, failed and cancelled, each releases a run in the background", function()
        local manager, place = managed.new()
        local hooks = manager:hooks()
        local names = {}
        for name in pairs(hooks) do
            table.insert(names, name)
        end
        table.sort(names)
        assert.same({ "cancelled", "completed", "failed" }, names)
        for _, event in ipairs(EVENTS) do
            assert(manager:acquire("run"))
            hooks[event]("run")
            place.fake:assert_nothing_left()
        end
        assert(manager:acquire("run"))
        hooks.failed({ run_id = "run" })
        place.fake:assert_nothing_left()
    end)

    it("never wait, also where nothing may", function()
        local manager, place = managed.new()
        local hooks = manager:hooks()
        place.fake.plan_dispose = managed.wait
        assert(manager:acquire("run"))
        local signal = sandbox.signal()
        signal:on_abort(function()
            hooks.completed("run")
        end)
        signal:abort()
        place.fake.accounts[1].disposal:finish()
        place.fake:assert_nothing_left()
        assert.same({}, place.errors)
    end)
end)

describe("with_run", function()
    it("calls the function with the run bound to its id", function()
        local manager, place = managed.new()
        manager:with_run("run", function(run)
            assert.equal("run", run.id)
            local one = assert(run:acquire({ repo = ONE }))
            assert.equal("run", place.fake.creates[1].request.run_id)
            assert.equal(one, (run:get()))
            assert.equal(one, (run:get(one.id)))
            local two = assert(run:acquire())
            assert(run:release(one.id))
            assert.equal(two, (run:get()))
        end)
        place.fake:assert_nothing_left()
    end)

    it("passes results through, nils too", function()
        local manager, place = managed.new()
        local results = compat.pack(manager:with_run("run", function(run)
            assert(run:acquire())
            return 1, nil, 3, nil
        end))
        assert.same({ n = 4, 1, nil, 3, nil }, results)
        place.fake:assert_nothing_left()
    end)

    it("raises again what was raised, after the release", function()
        local manager, place = managed.new()
        for _, raised in ipairs({ "words", { "table" }, FAILURE }) do
            local _, err = pcall(manager.with_run, manager, "run", function(run)
                assert(run:acquire())
                error(raised, 0)
            end)
            assert.equal(raised, err)
            place.fake:assert_nothing_left()
        end
    end)

    it("works inside tasks, where its function may wait", function()
        local manager, place = managed.new()
        place.fake.plan_create = function()
            return { "turns", 2 }
        end
        local results = sandbox.run(function()
            local functions = {}
            for index = 1, 3 do
                functions[index] = function()
                    return manager:with_run("run-" .. index, function(run)
                        local workspace = assert(run:acquire())
                        return assert(workspace:exec({ "echo", run.id })).stdout
                    end)
                end
            end
            return sandbox.all(functions)
        end)
        for index = 1, 3 do
            assert.equal(("echo run-%d\n"):format(index), results[index][1])
        end
        place.fake:assert_nothing_left()
    end)

    it("reports a release that fails to on_error", function()
        local manager, place = managed.new()
        place.fake.plan_dispose = fails
        assert.equal("result", manager:with_run("run", function(run)
            assert(run:acquire())
            return "result"
        end))
        assert.same({ FAILURE }, place.errors)
    end)

    it("checks its arguments", function()
        local manager = managed.new()
        assert.error_matches(function()
            manager:with_run("run")
        end, "bad argument #2 to 'with_run' %(function expected, got nil%)")
    end)
end)
