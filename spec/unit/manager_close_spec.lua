-- What CONTRACT and reference say about collection, close and the options of a manager, sentence by sentence, over the
-- fake provider.

local errors = require "chamvi.sandbox.errors"
local managed = require "spec.support.managed"
local sandbox = require "chamvi.sandbox"
local stderr = require "spec.support.stderr"

local ONE, TWO = "https://example.com/one", "https://example.com/two"
local FAILURE = errors.sandbox("remove_failed", "busy")

local function fails()
    return { "fail", FAILURE }
end

describe("collect_garbage", function()
    it("disposes the manager's expired ones, then runs the provider's collection, and counts both", function()
        local manager, place = managed.new({ limits = { timeout_ms = 100 } })
        assert(manager:acquire("run", { repo = ONE }))
        assert(manager:acquire("other"))
        place.time = place.time + 100
        local live = assert(manager:acquire("third"))
        place.fake.plan_collect = function()
            assert.same({ 3 }, place.fake:alive()) -- the manager's own are disposed by then
            return { "succeed", count = 5 }
        end
        assert.equal(7, manager:collect_garbage())
        assert.equal(live, (manager:get("third")))
        assert.equal("no_workspace", select(2, manager:get("run")).code)
    end)

    it("is gc_failed with the count when the provider's fails or raises", function()
        local manager, place = managed.new({ limits = { timeout_ms = 100 } })
        local outcomes = {
            { { "fail", errors.sandbox("gc_failed", "stuck", { count = 2, detail = "one: stuck" }) }, 3 },
            { { "raise", "on purpose" }, 1 },
            { { "give", nil, "words", n = 3 }, 1 },
            { { "give" }, 1 },
        }
        for _, case in ipairs(outcomes) do
            assert(manager:acquire("run"))
            place.time = place.time + 100
            place.fake.plan_collect = function()
                return case[1]
            end
            local count, err = manager:collect_garbage()
            assert.is_nil(count)
            assert.equal("gc_failed", err.code)
            assert.equal(case[2], err.count)
        end
        assert.same({}, place.errors)
    end)

    it("goes on past one that can't be disposed, and tries it again the next time", function()
        local manager, place = managed.new({ limits = { timeout_ms = 100 } })
        place.fake.plan_dispose = function(step)
            return step.account.number == 1 and step.attempt == 1 and fails() or nil
        end
        local removed_by_provider = place.fake.plan_collect
        place.fake.plan_collect = function()
            return { "give", 0 }
        end
        for number = 1, 3 do
            assert(manager:acquire("run-" .. number))
        end
        place.time = place.time + 100
        local count, err = manager:collect_garbage()
        assert.is_nil(count)
        assert.equal(2, err.count)
        assert.equal(FAILURE, err.cause)
        assert.same({ 1 }, place.fake:alive())
        assert.equal(1, manager:collect_garbage())
        place.fake.plan_collect = removed_by_provider
        assert.equal(0, manager:collect_garbage())
        place.fake:assert_nothing_left()
    end)

    it("is started by acquire in the background, at most every gc_interval_ms", function()
        local manager, place = managed.new({ gc_interval_ms = 100 })
        local function acquire_at(time)
            place.time = time
            assert(manager:acquire("run"))
            return #place.fake.collections
        end
        assert.equal(1, acquire_at(1000))
        assert.equal(1, acquire_at(1000))
        assert.equal(1, acquire_at(1099))
        assert.equal(2, acquire_at(1100))
        assert.equal(2, acquire_at(1199))
        assert.equal(3, acquire_at(1200))
        assert.equal(4, acquire_at(10)) -- a clock that was set back does not stop it
        assert.equal(4, acquire_at(109))
        assert.equal(5, acquire_at(110))
    end)

    it("by default every GC_INTERVAL_MS, never with 0", function()
        local manager, place = managed.new({ gc_interval_ms = 0 })
        assert(manager:acquire("run"))
        assert.equal(0, #place.fake.collections)
        local provider = place.fake
        local other = sandbox.create_workspace_manager({ provider = provider, clock = provider.clock })
        assert(other:acquire("run"))
        place.time = place.time + sandbox.GC_INTERVAL_MS - 1
        assert(other:acquire("run"))
        assert.equal(1, #place.fake.collections)
        place.time = place.time + 1
        assert(other:acquire("run"))
        assert.equal(2, #place.fake.collections)
    end)

    it("in the background holds nobody up, is one at a time, and its failure goes to on_error", function()
        local manager, place = managed.new({ gc_interval_ms = 100 })
        place.fake.plan_collect = managed.wait
        assert(manager:acquire("run"))
        place.time = place.time + 100
        assert(manager:acquire("run"))
        assert.equal(1, #place.fake.collections)
        place.fake.collections[1]:finish({ "fail", errors.sandbox("gc_failed", "stuck", { count = 0 }) })
        assert.equal(1, #place.errors)
        assert.equal("gc_failed", place.errors[1].code)
        assert(manager:acquire("run"))
        assert.equal(2, #place.fake.collections)
        place.fake.collections[2]:finish({ "raise", "on purpose" })
        assert.equal("gc_failed", place.errors[2].code)
    end)
end)

describe("close", function()
    it("disposes every workspace and aborts every create, whose waiters get closed", function()
        local manager, place = managed.new()
        assert(manager:acquire("run", { repo = ONE }))
        assert(manager:acquire("other"))
        place.fake.plan_create = managed.wait
        sandbox.run(function()
            local waiter = sandbox.spawn(manager.acquire, manager, "run", { repo = TWO })
            managed.settle()
            assert.is_true(manager:close())
            local _, err = waiter:join()
            assert.equal("closed", err.code)
        end)
        place.fake:assert_nothing_left()
        assert.same({}, place.errors)
    end)

    it("has acquire return closed afterwards, and the rest still answer", function()
        local manager, place = managed.new()
        assert.is_true(manager:close())
        local _, err = manager:acquire("run")
        assert.equal("closed", err.code)
        assert.equal(0, place.fake.created)
        assert.equal("no_workspace", select(2, manager:get("run")).code)
        assert.is_true(manager:release("run"))
        assert.equal(0, manager:collect_garbage())
        assert.is_true(manager:close())
    end)

    it("waits for disposals started earlier and for the creates of runs released before", function()
        local manager, place = managed.new()
        place.fake.plan_dispose = managed.wait
        place.fake.plan_create = function(step)
            return step.number == 2 and { "wait", on_abort = "ignore" } or nil
        end
        sandbox.run(function()
            assert(manager:acquire("run"))
            sandbox.spawn(manager.acquire, manager, "other")
            sandbox.spawn(manager.release, manager, "run")
            managed.settle()
            sandbox.spawn(manager.release, manager, "other")
            managed.settle()
            local closer = sandbox.spawn(manager.close, manager)
            managed.settle()
            assert.is_false(closer.done)
            place.fake.accounts[1].disposal:finish()
            managed.settle()
            assert.is_false(closer.done)
            place.fake.creates[2]:finish()
            managed.settle()
            assert.is_false(closer.done)
            place.fake.accounts[2].disposal:finish()
            assert.is_true(closer:join())
        end)
        place.fake:assert_nothing_left()
        assert.same({}, place.errors)
    end)

    it("ends after timeout_ms at the latest, and reports what is still being disposed", function()
        local manager, place = managed.new()
        place.fake.plan_dispose = managed.wait
        place.fake.plan_create = function(step)
            return step.number == 2 and { "wait", on_abort = "ignore" } or nil
        end
        local held = assert(manager:acquire("run"))
        sandbox.spawn(manager.acquire, manager, "other")
        assert.is_true(manager:close({ timeout_ms = 0 }))
        assert.equal(2, #place.errors)
        local text = place.errors[1].message .. place.errors[2].message
        assert.is_truthy(text:find(held.id, 1, true))
        assert.is_truthy(text:find("run other", 1, true))
        -- It goes on, and another close can wait for it.
        place.fake.accounts[1].disposal:finish()
        place.fake.creates[2]:finish({ "fail", FAILURE })
        assert.is_true(manager:close())
        place.fake:assert_nothing_left()
        assert.equal(3, #place.errors)
        assert.equal(FAILURE, place.errors[3])
    end)

    it("reports disposals that fail, and another close tries them again", function()
        local manager, place = managed.new()
        place.fake.plan_dispose = fails
        assert(manager:acquire("run"))
        assert.is_true(manager:close())
        assert.same({ FAILURE }, place.errors)
        place.fake.plan_dispose = function() end
        assert.is_true(manager:close())
        place.fake:assert_nothing_left()
    end)

    it("waits for a collection in the background", function()
        local manager, place = managed.new({ gc_interval_ms = 1 })
        place.fake.plan_collect = managed.wait
        sandbox.run(function()
            assert(manager:acquire("run"))
            local closer = sandbox.spawn(manager.close, manager)
            managed.settle()
            assert.is_false(closer.done)
            place.fake.collections[1]:finish()
            assert.is_true(closer:join())
        end)
    end)

    it("by several at once is one end", function()
        local manager, place = managed.new()
        place.fake.plan_dispose = managed.wait
        sandbox.run(function()
            assert(manager:acquire("run"))
            local one, two = sandbox.spawn(manager.close, manager), sandbox.spawn(manager.close, manager)
            managed.settle()
            place.fake.accounts[1].disposal:finish()
            assert.is_true(one:join())
            assert.is_true(two:join())
        end)
        assert.equal(1, place.fake.accounts[1].calls)
    end)

    it("checks its options", function()
        local manager = managed.new()
        for _, wrong in ipairs({ { timeout_ms = -1 }, { timeout_ms = 0.5 }, { timeout = 1 } }) do
            local ok, err = pcall(manager.close, manager, wrong)
            assert.is_false(ok)
            assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"))
        end
        assert(manager:acquire("run")) -- it is open still
    end)

    if _VERSION == "Lua 5.4" then
        it("is what the end of a to-be-closed variable does", function()
            local manager, place = managed.new()
            assert(load([[
                local manager <close> = ...
                assert(manager:acquire("run"))
            ]]))(manager)
            place.fake:assert_nothing_left()
            assert.equal("closed", select(2, manager:acquire("run")).code)
        end)

        it("goes on in the background where that may not wait, and never raises", function()
            local manager, place = managed.new()
            assert(manager:acquire("run"))
            place.fake.plan_dispose = fails
            local signal = sandbox.signal()
            signal:on_abort(function()
                assert(load("local manager <close> = ..."))(manager)
            end)
            signal:abort()
            assert.same({ FAILURE }, place.errors)
        end)
    end
end)

describe("create_workspace_manager", function()
    local function provider(changes)
        local given = { name = "given", create = function() end, collect_garbage = function() end }
        for name, value in pairs(changes or {}) do
            given[name] = value
        end
        return given
    end

    it("refuses wrong options by an InvalidAgentDefinitionError that says where", function()
        local without = provider()
        without.create = nil
        local wrong = {
            {},
            { provider = 7 },
            { provider = without },
            { provider = provider({ collect_garbage = true }) },
            { image = "" },
            { env = { ["A B"] = "x" } },
            { env = { A = 1 } },
            { limits = { cpu = "0" } },
            { limits = { speed = "1" } },
            { allow_repo = true },
            { allow_file_repos = 1 },
            { on_error = {} },
            { max_workspaces_per_run = 0 },
            { max_workspaces_per_run = 1.5 },
            { gc_interval_ms = -1 },
            { clock = {} },
            { colour = "red" },
        }
        for index, options in ipairs(wrong) do
            if index > 1 and options.provider == nil then
                options.provider = provider()
            end
            local ok, err = pcall(sandbox.create_workspace_manager, options)
            assert.is_false(ok, index)
            assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), index)
            assert.matches("manager_close_spec.lua:%d+", err.where)
        end
        assert.is_false((pcall(sandbox.create_workspace_manager)))
    end)

    it("contacts nothing", function()
        local called = false
        local function call()
            called = true
        end
        sandbox.create_workspace_manager({ provider = provider({ create = call, collect_garbage = call }) })
        assert.is_false(called)
    end)

    it("tells on_error, which may be a callable table, and stderr when that fails", function()
        local told = {}
        local manager, place = managed.new({
            on_error = setmetatable({}, {
                __call = function(_, err)
                    table.insert(told, err)
                    error("broken", 0)
                end,
            }),
        })
        place.fake.plan_dispose = fails
        assert(manager:acquire("run"))
        local lines = stderr(function()
            assert.is_true(manager:release("run"))
        end)
        assert.same({ FAILURE }, told)
        assert.same({ "chamvi.sandbox: on_error failed: broken; it was called for: SandboxError: busy" }, lines)
    end)

    it("writes one line to stderr without an on_error", function()
        local _, place = managed.new()
        place.fake.plan_dispose = fails
        local manager = sandbox.create_workspace_manager({ provider = place.fake, clock = place.fake.clock })
        assert(manager:acquire("run"))
        local lines = stderr(function()
            manager:release("run")
        end)
        assert.same({ "chamvi.sandbox: SandboxError: busy" }, lines)
    end)

    it("asks its clock for whole milliseconds", function()
        local manager, place = managed.new()
        assert(manager:acquire("run"))
        place.time = 0.5
        local ok, err = pcall(manager.get, manager, "run")
        assert.is_false(ok)
        assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"))
    end)
end)
