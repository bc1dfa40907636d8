-- Tasks, and coroutines of the program's own, as every host has them.

local support = require "spec.hosts.behaviours.support"

local with_workspace, wait_until = support.with_workspace, support.wait_until

local function pack(...)
    return { n = select("#", ...), ... }
end

-- What a call gave in a coroutine that is no task: its answer, or a clear error, returned or raised.
local function answer_or_error(t, expected, ok, result, err)
    if ok and result ~= nil then
        t.equal(expected, result, "the answer")
        return
    end
    if not ok then
        err = result
    end
    local message = t.sandbox.is_error(err) and err.message or err
    t.equal("string", type(message), "the type of the message")
    t.equal(true, message:find("task", 1, true) ~= nil, "that the message speaks of tasks: " .. message)
end

local behaviours = {}

local function behaviour(name, run)
    table.insert(behaviours, { name = name, run = run })
end

-- ---- Tasks -------------------------------------------------------------------------------------

behaviour("join gives what a task returned or raised", function(t)
    local raised = { "raised" }
    local returning = t.sandbox.spawn(function(...)
        t.sandbox.sleep(1)
        return select("#", ...), nil, ...
    end, "a", nil)
    local raising = t.sandbox.spawn(function()
        t.sandbox.sleep(1)
        error(raised)
    end)
    for _ = 1, 2 do -- also a second time
        local results = pack(returning:join())
        t.equal(4, results.n, "how many results")
        t.equal("2 nil a nil", ("%s %s %s %s"):format(tostring(results[1]), tostring(results[2]),
            tostring(results[3]), tostring(results[4])), "the results")
        results = pack(raising:join())
        t.equal(nil, results[1], "the result of what raised")
        t.equal(raised, results[2], "what it raised")
    end
    t.equal(true, returning.done and raising.done, "done")
end)

behaviour("all waits for all and keeps their order", function(t)
    local order = {}
    local function ending_as(place)
        return function()
            repeat
                t.sandbox.sleep(1)
            until #order == place - 1
            table.insert(order, place)
            return place, nil
        end
    end
    local results = t.sandbox.all({
        ending_as(3),
        ending_as(1),
        function()
            error("broken", 0)
        end,
        ending_as(2),
    })
    t.equal("1 2 3", table.concat(order, " "), "the order of the ends")
    t.equal("3 1 2", ("%s %s %s"):format(results[1][1], results[2][1], results[4][1]), "the results")
    t.equal(2, results[1].n, "how many")
    t.equal(nil, results[3][1], "the result of what raised")
    t.equal("broken", results[3][2], "what it raised")
    t.equal(0, #t.sandbox.all({}), "of nothing")
end)

behaviour("a run waits for every task that began in it", function(t)
    local order = {}
    local results = pack(t.sandbox.run(function(...)
        t.sandbox.spawn(function()
            t.sandbox.sleep(1)
            t.sandbox.spawn(function()
                t.sandbox.sleep(20)
                table.insert(order, "late")
            end)
            table.insert(order, "early")
        end)
        table.insert(order, "main")
        return ..., nil
    end, "result"))
    t.equal("main early late", table.concat(order, " "), "the order of the ends")
    t.equal(2, results.n, "how many results")
    t.equal("result", results[1], "the result")
end)

behaviour("a run waits for what the callbacks of its commands spawn", function(t)
    with_workspace(t, function(workspace)
        local ended = false
        t.sandbox.run(function()
            t.sandbox.spawn(function()
                assert(workspace:exec({ "echo", "x" }, {
                    on_output = function()
                        t.sandbox.spawn(function()
                            t.sandbox.sleep(100)
                            ended = true
                        end)
                    end,
                }))
            end)
        end)
        t.equal(true, ended, "that it waited")
    end)
end)

behaviour("a run raises what its function raised, when all has ended", function(t)
    local ended, raised = false, { "raised" }
    local ok, err = pcall(t.sandbox.run, function()
        t.sandbox.spawn(function()
            t.sandbox.sleep(20)
            ended = true
        end)
        error(raised)
    end)
    t.equal(false, ok, "that it returned")
    t.equal(raised, err, "what it raised")
    t.equal(true, ended, "that its task has ended")
end)

behaviour("a failed task that nobody joined is reported in one line", function(t)
    local lines = t.written_to_stderr(function()
        t.sandbox.run(function()
            t.sandbox.spawn(error, "first line\nsecond line", 0)
        end)
    end)
    t.equal("chamvi.sandbox: a task failed and nobody joined it: first line", table.concat(lines, "|"), "stderr")
end)

behaviour("sleep takes its time, and lets others go on", function(t)
    local turns, ended = 0, false
    local task = t.sandbox.spawn(function()
        repeat
            t.sandbox.sleep(0)
            turns = turns + 1
        until ended
    end)
    for _ = 1, 20 do -- a busy machine may pass over the turns of one sleep
        local begun = t.now()
        t.equal(true, t.sandbox.sleep(100), "sleep")
        local took = t.now() - begun
        t.equal(true, took >= 99, "that it is over: " .. took .. " ms")
        if turns > 2 then
            break
        end
    end
    ended = true
    task:join()
    t.equal(true, turns > 2, "that others had their turns: " .. turns)
end)

behaviour("async calls back", function(t)
    local calls, raised = {}, { "raised" }
    local function called(...)
        table.insert(calls, pack(...))
    end
    t.sandbox.async(function()
        t.sandbox.sleep(1)
        return "result", nil
    end, called)
    t.sandbox.async(function()
        t.sandbox.sleep(100)
        error(raised)
    end, called)
    wait_until(t, function()
        return #calls == 2
    end, "two calls")
    t.equal("result", calls[1][1], "the result")
    t.equal(2, calls[1].n, "how many")
    t.equal(nil, calls[2][1], "the result of what raised")
    t.equal(raised, calls[2][2], "what it raised")
end)

behaviour("a wait that could never end is refused", function(t)
    local own
    own = t.sandbox.spawn(function()
        t.sandbox.sleep(1)
        return pcall(own.join, own)
    end)
    local ok, err = own:join()
    t.equal(false, ok, "that a task can join itself")
    t.equal(true, err:find("deadlock", 1, true) ~= nil, "that the error says why: " .. tostring(err))

    local first, second
    local failures = {}
    local function join(other)
        return function()
            t.sandbox.sleep(1)
            local joined, failure = pcall(function()
                return other():join()
            end)
            if not joined then
                table.insert(failures, failure)
            end
        end
    end
    local function the_second()
        return second
    end
    first = t.sandbox.spawn(join(the_second))
    second = t.sandbox.spawn(join(function()
        return first
    end))
    first:join()
    second:join()
    t.equal(1, #failures, "how many of two that join each other are refused")
    t.equal(true, failures[1]:find("deadlock", 1, true) ~= nil, "that the error says why: " .. failures[1])
end)

behaviour("wrong arguments raise at once", function(t)
    for name, arguments in pairs({
        spawn = { 1 },
        run = {},
        async = { print },
        all = { { print, 1 } },
        sleep = { -1 },
    }) do
        local ok, err = pcall(t.sandbox[name], (table.unpack or unpack)(arguments))
        t.equal(false, ok, name)
        t.equal(true, err:find("bad argument #%d to '" .. name .. "'") ~= nil, "the message: " .. tostring(err))
    end
    for _, ms in ipairs({ 2 ^ 52 + 1, 2 ^ 63, 1e300, 1 / 0, 0 / 0 }) do
        local ok, err = pcall(t.sandbox.sleep, ms)
        t.equal(false, ok, "a sleep of " .. ms)
        t.equal(true, err:find("bad argument #1 to 'sleep'", 1, true) ~= nil, "the message: " .. err)
    end
end)

-- ---- Coroutines of the program's own -----------------------------------------------------------

behaviour("a coroutine that is no task is never yielded", function(t)
    with_workspace(t, function(workspace)
        local ok, result, err
        local generator = coroutine.create(function()
            coroutine.yield("one")
            ok, result, err = pcall(function()
                local answer, failure = workspace:exec({ "echo", "x" })
                return answer and answer.stdout, failure
            end)
            coroutine.yield("two")
        end)
        local values = {}
        while coroutine.status(generator) ~= "dead" do
            local resumed, value = coroutine.resume(generator)
            assert(resumed, value)
            table.insert(values, tostring(value))
        end
        t.equal("one two nil", table.concat(values, " "), "what it yielded")
        answer_or_error(t, "x\n", ok, result, err)
        t.equal("y\n", assert(workspace:exec({ "echo", "y" })).stdout, "stdout after it")
    end)
end)

behaviour("tasks of a coroutine that is no task", function(t)
    local values = {}
    local generator = coroutine.wrap(function()
        for _, what in ipairs({ "run", "all", "join" }) do
            local function work()
                t.sandbox.sleep(1)
                return what
            end
            answer_or_error(t, what, pcall(function()
                if what == "run" then
                    return t.sandbox.run(work)
                elseif what == "all" then
                    return t.sandbox.all({ work })[1][1]
                end
                return t.sandbox.spawn(work):join()
            end))
            coroutine.yield(what)
        end
    end)
    for _ = 1, 3 do
        table.insert(values, generator())
    end
    t.equal("run all join", table.concat(values, " "), "what it yielded")
end)

behaviour("all waits for its functions only, also in a coroutine that is no task", function(t)
    local function all()
        local released, ended = false, false
        local results = t.sandbox.all({
            function()
                t.sandbox.spawn(function()
                    for _ = 1, 20000 do
                        if released then
                            break
                        end
                        t.sandbox.sleep(1)
                    end
                    ended = true
                end)
                t.sandbox.sleep(1)
                return "result"
            end,
        })
        local early = ended
        released = true
        return results[1][1], early, function()
            return ended
        end
    end
    for _, call in ipairs({ all, coroutine.wrap(all) }) do
        local ok, result, early, ended = pcall(call)
        answer_or_error(t, "result", ok, result, early)
        if ok then
            t.equal(false, early, "that it waited for what they spawned")
            wait_until(t, ended, "the end of what they spawned")
        end
    end
end)

return behaviours
