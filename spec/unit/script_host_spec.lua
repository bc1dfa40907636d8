local leaks = require "spec.support.leaks"
local core_loop = require "chamvi.sandbox.loop"
local sandbox = require "chamvi.sandbox"
local written_to_stderr = require "spec.support.stderr"

local function pack(...)
    return { n = select("#", ...), ... }
end

local function fail(message)
    error(message, 0)
end

describe("a script's tasks", function()
    leaks.watch(before_each, after_each)

    describe("in run", function()
        it("pass results through, nils included", function()
            local packed = pack(sandbox.run(function(...)
                return select("#", ...), nil, ...
            end, "a", nil))
            assert.same({ n = 4, 2, nil, "a" }, packed)
        end)

        it("all run to the end, also those that a task spawned late", function()
            local ended = {}
            sandbox.run(function()
                sandbox.spawn(function()
                    sandbox.sleep(5)
                    sandbox.spawn(function()
                        sandbox.sleep(5)
                        table.insert(ended, "late")
                    end)
                    table.insert(ended, "early")
                end)
                table.insert(ended, "main")
            end)
            assert.same({ "main", "early", "late" }, ended)
        end)

        it("wait side by side", function()
            local order = {}
            sandbox.run(function()
                for index = 1, 3 do
                    sandbox.spawn(function()
                        repeat
                            sandbox.sleep(1)
                        until #order == 3 - index -- those behind it have ended
                        table.insert(order, index)
                    end)
                end
            end)
            assert.same({ 3, 2, 1 }, order)
        end)

        it("let the others run when they yield without waiting for anything", function()
            local order = {}
            local function worker(name)
                for step = 1, 2 do
                    table.insert(order, name .. step)
                    assert.equal(0, select("#", coroutine.yield("ignored")))
                end
            end
            sandbox.run(function()
                sandbox.spawn(worker, "a")
                sandbox.spawn(worker, "b")
            end)
            assert.same({ "a1", "b1", "a2", "b2" }, order)
        end)

        it("do not starve sleepers by yielding all the time", function()
            local woke = false
            sandbox.run(function()
                sandbox.spawn(function()
                    sandbox.sleep(1)
                    woke = true
                end)
                while not woke do
                    coroutine.yield()
                end
            end)
            assert.is_true(woke)
        end)

        it("raise again what the function raised, after all tasks have ended", function()
            local ended = false
            local raised = { "a table" }
            local ok, err = pcall(sandbox.run, function()
                sandbox.spawn(function()
                    sandbox.sleep(5)
                    ended = true
                end)
                error(raised)
            end)
            assert.is_false(ok)
            assert.equal(raised, err)
            assert.is_true(ended)
        end)

        it("raise a string with the traceback of the task, once", function()
            local function culprit()
                error("broken")
            end
            local _, err = pcall(sandbox.run, function()
                sandbox.run(function()
                    culprit()
                end)
            end)
            assert.matches("^[^\n]*script_host_spec%.lua:%d+: broken\nstack traceback:\n", err)
            assert.matches("culprit", err)
            assert.equal(1, select(2, err:gsub("stack traceback", "")))
        end)

        it("report a failed task that nobody joined, in one line", function()
            local lines = written_to_stderr(function()
                sandbox.run(function()
                    sandbox.spawn(fail, "first line\nsecond line")
                    local joined = sandbox.spawn(fail, "joined")
                    joined:join()
                end)
            end)
            assert.same({ "chamvi.sandbox: a task failed and nobody joined it: first line" }, lines)
        end)

        it("may run another run inside, while the outer ones go on", function()
            local order = {}
            local result = sandbox.run(function()
                sandbox.spawn(function()
                    sandbox.sleep(10)
                    table.insert(order, "outer")
                end)
                return sandbox.run(function()
                    sandbox.spawn(function()
                        sandbox.sleep(20)
                        table.insert(order, "inner")
                    end)
                    return "result"
                end)
            end)
            assert.equal("result", result)
            assert.same({ "outer", "inner" }, order)
        end)

        it("go a thousand deep #unsanitized", function()
            local depth = 0
            local function deeper()
                depth = depth + 1
                if depth < 1000 then
                    return sandbox.spawn(deeper):join()
                end
                return "bottom"
            end
            assert.equal("bottom", sandbox.run(deeper))
        end)
    end)

    describe("join", function()
        it("gives the results, or nil and the raised value, as often as asked", function()
            sandbox.run(function()
                local good = sandbox.spawn(function(...)
                    sandbox.sleep(1)
                    return ..., nil, "last"
                end, "first")
                local raised = {}
                local bad = sandbox.spawn(function()
                    error(raised)
                end)
                for _ = 1, 2 do
                    local first, nothing, last = good:join()
                    assert.same({ "first", "last" }, { first, last })
                    assert.is_nil(nothing)
                    local none, err = bad:join()
                    assert.is_nil(none)
                    assert.equal(raised, err)
                end
            end)
        end)

        it("of tasks that wait for each other is an error, and nothing hangs", function()
            local a, b, c
            sandbox.run(function()
                a = sandbox.spawn(function()
                    return b:join()
                end)
                b = sandbox.spawn(function()
                    return c:join()
                end)
                c = sandbox.spawn(function()
                    return a:join()
                end)
            end)
            local nothing, err = a:join()
            assert.is_nil(nothing)
            assert.matches("deadlock", err)
        end)

        it("of the own task, or of one that waits for it in all or run, is an error too", function()
            sandbox.run(function()
                local own
                own = sandbox.spawn(function()
                    return own:join()
                end)
                assert.matches("deadlock", select(2, own:join()))

                local waiting
                waiting = sandbox.spawn(function()
                    return sandbox.all({
                        function()
                            return waiting:join()
                        end,
                    })
                end)
                assert.matches("deadlock", waiting:join()[1][2])

                waiting = sandbox.spawn(function()
                    return sandbox.run(function()
                        return waiting:join()
                    end)
                end)
                assert.matches("deadlock", select(2, waiting:join()))
            end)
        end)
    end)

    describe("all", function()
        it("gives a list of packed results in the order of the functions", function()
            local raised = {}
            local results = sandbox.run(sandbox.all, {
                function()
                    sandbox.sleep(10)
                    return 1, nil
                end,
                function()
                    error(raised)
                end,
                function() end,
            })
            assert.equal(3, #results)
            assert.same({ n = 2, 1 }, results[1])
            assert.same({ n = 2, nil, raised }, results[2])
            assert.same({ n = 0 }, results[3])
            assert.same({}, sandbox.all({}))
        end)

        it("takes functions only", function()
            assert.has_error(function()
                sandbox.all(1)
            end, "bad argument #1 to 'all' (table expected, got number)")
            assert.has_error(function()
                sandbox.all({ print, 1 })
            end, "bad argument #1 to 'all' (element 2 is no function)")
        end)
    end)

    describe("and a coroutine that is no task", function()
        it("block there, and yield only their own values", function()
            local values, ticks = {}, 0
            sandbox.run(function()
                sandbox.spawn(function()
                    for _ = 1, 3 do
                        sandbox.sleep(1)
                        ticks = ticks + 1
                    end
                end)
                local generator = coroutine.wrap(function()
                    for value = 1, 3 do
                        sandbox.sleep(10)
                        coroutine.yield(value)
                    end
                end)
                coroutine.yield() -- the other task goes to sleep
                for value in generator do
                    table.insert(values, value)
                end
                assert.equal(0, ticks)
            end)
            assert.same({ 1, 2, 3 }, values)
            assert.equal(3, ticks)
        end)

        it("may run and all of their own", function()
            sandbox.run(function()
                local generator = coroutine.wrap(function()
                    coroutine.yield(sandbox.run(function()
                        local task = sandbox.spawn(function()
                            sandbox.sleep(1)
                            return "spawned"
                        end)
                        return task:join()
                    end))
                    coroutine.yield(sandbox.all({
                        function()
                            sandbox.sleep(1)
                            return "in all"
                        end,
                    })[1][1])
                end)
                assert.equal("spawned", generator())
                assert.equal("in all", generator())
            end)
        end)

        it("leave what an interrupted run and all of their own began to the others", function()
            local order, pump = {}, core_loop.pump
            local function worker(name)
                return function()
                    sandbox.sleep(20)
                    table.insert(order, name)
                end
            end
            local lines = written_to_stderr(function()
                sandbox.run(function()
                    local function interrupted(fn, ...)
                        local arguments = pack(...)
                        local ok, err = coroutine.wrap(function()
                            core_loop.pump = function()
                                core_loop.pump = pump
                                error("interrupted", 0)
                            end
                            return pcall(fn, (table.unpack or unpack)(arguments))
                        end)()
                        assert.same({ false, "interrupted" }, { ok, err })
                    end
                    interrupted(sandbox.run, function()
                        sandbox.spawn(worker("spawned"))
                        worker("main")()
                        error("main failed", 0)
                    end)
                    interrupted(sandbox.all, { worker("in all"), coroutine.yield })
                    assert.same({}, order)
                    for _ = 1, 1000 do
                        sandbox.sleep(#order < 3 and 10 or 0)
                    end
                end)
                collectgarbage()
                collectgarbage()
            end)
            table.sort(order)
            assert.same({ "in all", "main", "spawned" }, order)
            assert.same({ "chamvi.sandbox: a task failed and nobody joined it: main failed" }, lines)
        end)

        it("may spawn for the task they are in, but not join what stands still", function()
            local ran = false
            sandbox.run(function()
                local outer
                local generator = coroutine.wrap(function()
                    outer = sandbox.spawn(function()
                        ran = true
                    end)
                    coroutine.yield(pcall(outer.join, outer))
                end)
                local ok, err = generator()
                assert.is_false(ok)
                assert.matches("deadlock", err)
            end)
            assert.is_true(ran)
        end)
    end)

    describe("outside run", function()
        it("block in sleep, join and all, which run side by side", function()
            assert.is_true(sandbox.sleep(1))
            local order = {}
            local results = sandbox.all({
                function()
                    repeat
                        sandbox.sleep(1)
                    until #order > 0
                    table.insert(order, "slow")
                end,
                function()
                    sandbox.sleep(1)
                    table.insert(order, "fast")
                    return "result"
                end,
            })
            assert.same({ "fast", "slow" }, order)
            assert.equal("result", results[2][1])
        end)

        it("start at once and go on while something joins", function()
            local started = false
            local task = sandbox.spawn(function()
                started = true
                sandbox.sleep(1)
                return "result"
            end)
            assert.is_true(started)
            assert.equal("result", task:join())
        end)

        it("may be joined from inside a run", function()
            local task = sandbox.spawn(function()
                sandbox.sleep(5)
                return "result"
            end)
            assert.equal("result", sandbox.run(function()
                return task:join()
            end))
        end)

        it("are reported when they failed and nobody can join them any more", function()
            local lines = written_to_stderr(function()
                sandbox.spawn(fail, "lost")
                local kept = sandbox.spawn(fail, "joined later")
                kept:join()
                collectgarbage()
                collectgarbage()
            end)
            assert.same({ "chamvi.sandbox: a task failed and nobody joined it: lost" }, lines)
        end)
    end)

    describe("async", function()
        it("calls back with the results, or with nil and the raised value", function()
            local raised, calls = {}, {}
            local function callback(...)
                table.insert(calls, pack(...))
            end
            sandbox.run(function()
                sandbox.async(function()
                    sandbox.sleep(1)
                    return 1, nil
                end, callback)
                sandbox.async(function()
                    error(raised)
                end, callback)
                assert.same({}, calls)
            end)
            assert.same({ { n = 2, nil, raised }, { n = 2, 1 } }, calls)
        end)

        it("reports a callback that raises", function()
            local lines = written_to_stderr(function()
                sandbox.async(function() end, function()
                    error("broken", 0)
                end)
            end)
            assert.same({ "chamvi.sandbox: the callback of async failed: broken" }, lines)
        end)
    end)

    describe("under a foreign loop", function()
        it("go on with each step", function()
            local result
            sandbox.async(function()
                sandbox.sleep(1)
                sandbox.sleep(1)
                return "done"
            end, function(value)
                result = value
            end)
            local loop = sandbox.loop()
            assert.equal("number", type(loop:pollfd()))
            assert.equal("r", loop:events())
            local steps = 0
            while not result do
                assert(loop:step(1000))
                steps = steps + 1
            end
            assert.equal("done", result)
            assert.is_true(steps >= 2)
            assert.is_nil(loop:timeout())
        end)

        it("say by timeout that they can go on at once", function()
            local loop, task = sandbox.loop(), nil
            sandbox.spawn(function()
                coroutine.yield()
                task = "ended"
            end)
            assert.equal(0, loop:timeout())
            loop:step()
            assert.equal("ended", task)
        end)

        it("do not step from inside", function()
            sandbox.run(function()
                assert.is_false((pcall(sandbox.loop().step)))
            end)
        end)
    end)

    it("want functions and numbers as such", function()
        assert.has_error(function()
            sandbox.run(1)
        end, "bad argument #1 to 'run' (function expected, got number)")
        assert.has_error(function()
            sandbox.spawn()
        end, "bad argument #1 to 'spawn' (function expected, got nil)")
        assert.has_error(function()
            sandbox.async(print)
        end, "bad argument #2 to 'async' (function expected, got nil)")
        for _, wrong in ipairs({ -1, 0.5, 0 / 0, math.huge, "1" }) do
            assert.is_false((pcall(sandbox.sleep, wrong)))
        end
    end)
end)
