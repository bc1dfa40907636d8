-- What holds in every host, the same in each. `spec/hosts/support/run.lua` runs these one after another, as one task
-- of the host; what they get is described there.

local KILLED_AFTER_S = 20 -- what waits for a file gives up then

local function pack(...)
    return { n = select("#", ...), ... }
end

local function sh(script)
    return { "sh", "-c", script }
end

-- Shell that waits until there is a file.
local function until_there(name)
    return ("n=0; until [ -e %s ]; do n=$((n + 1)); [ $n -lt %d ] || exit 9; sleep 0.02; done"):format(
        name, KILLED_AFTER_S * 50)
end

-- Calls `use(workspace)` with a new workspace, and disposes it.
local function with_workspace(t, use)
    local workspace = assert(t.provider:create({ run_id = "behaviour" }))
    local ok, err = pcall(use, workspace)
    local disposed, failure = workspace:dispose()
    if not ok then
        error(err, 0)
    end
    assert(disposed, failure)
    return workspace
end

-- A manager whose provider counts its creates.
local function counting_manager(t)
    local counts = { creates = 0 }
    local manager = t.sandbox.create_workspace_manager({
        provider = {
            name = "counting",
            create = function(_, request)
                counts.creates = counts.creates + 1
                return t.provider:create(request)
            end,
            collect_garbage = function()
                return 0
            end,
        },
        gc_interval_ms = 0,
    })
    return manager, counts
end

-- Waits by the host's own means, so that nobody waits for the library.
local function wait_until(t, condition, what)
    for _ = 1, 1000 do
        if condition() then
            return
        end
        t.pause(10)
    end
    error("not within 10 s: " .. what, 2)
end

local function check_aborted(t, result, err, reason)
    t.equal(nil, result, "the result")
    t.equal(true, t.sandbox.is_error(err, "SandboxError"), "is an error")
    t.equal("aborted", err.code, "its code")
    t.equal(reason, err.cause, "its cause")
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

-- ---- Commands ----------------------------------------------------------------------------------

behaviour("a workspace is made, used and disposed", function(t)
    local workspace = with_workspace(t, function(workspace)
        local result = assert(workspace:exec(sh("echo out; echo err >&2; exit 3")))
        t.equal("out\n", result.stdout, "stdout")
        t.equal("err\n", result.stderr, "stderr")
        t.equal(3, result.exit_code, "the exit code")
        t.equal(true, workspace:write_file("a/file", "text"), "write_file")
        t.equal("text", workspace:read_file("a/file"), "read_file")
    end)
    t.equal("", t.list(t.workspaces), "what is left of " .. workspace.id)
end)

behaviour("commands run at the same time", function(t)
    with_workspace(t, function(workspace)
        -- Each ends only when all have begun.
        local functions = {}
        for index = 1, 10 do
            functions[index] = function()
                local script = ("touch %d; for i in $(seq 10); do %s; done; echo %d"):format(
                    index, until_there("$i"), index)
                return assert(workspace:exec(sh(script))).stdout
            end
        end
        for index, results in ipairs(t.sandbox.all(functions)) do
            t.equal(index .. "\n", results[1], "stdout: " .. tostring(results[2]))
        end
    end)
end)

behaviour("commands of the host's own tasks run at the same time", function(t)
    with_workspace(t, function(workspace)
        local codes, ended = {}, 0
        for index = 1, 2 do
            t.start(function()
                local result, err = workspace:exec(sh(("touch %d; %s"):format(index, until_there(3 - index))))
                codes[index], ended = result and result.exit_code or tostring(err), ended + 1
            end)
        end
        wait_until(t, function()
            return ended == 2
        end, "the ends of two commands that wait for each other")
        t.equal("0 0", table.concat(codes, " "), "the exit codes")
    end)
end)

behaviour("output comes while the command runs", function(t)
    with_workspace(t, function(workspace)
        local seen = ""
        local result = assert(workspace:exec(sh("echo first; " .. until_there("seen") .. "; echo second"), {
            on_output = function(stream, chunk)
                if seen == "" then
                    assert(io.open(t.path(workspace) .. "/seen", "w")):close()
                end
                seen = seen .. stream .. ":" .. chunk
            end,
        }))
        t.equal(0, result.exit_code, "the exit code")
        t.equal("stdout:first\nstdout:second\n", seen, "the output")
    end)
end)

behaviour("a signal ends a command", function(t)
    with_workspace(t, function(workspace)
        local signal, reason = t.sandbox.signal(), { "reason" }
        local task = t.sandbox.spawn(function()
            return workspace:exec(sh("touch begun; exec sleep 60"), { signal = signal })
        end)
        wait_until(t, function()
            return t.exists(t.path(workspace) .. "/begun")
        end, "the begin of the command")
        local begun = t.now()
        signal:abort(reason)
        local result, err = task:join()
        check_aborted(t, result, err, reason)
        t.equal(true, t.now() - begun < 20000, "that it ended before its time")
    end)
end)

behaviour("a signal ends a wait for a workspace, and the workspace is made for the others", function(t)
    local manager, counts = counting_manager(t)
    local signal = t.sandbox.signal()
    local waiting = t.sandbox.spawn(function()
        return manager:acquire("run", { signal = signal })
    end)
    local other = t.sandbox.spawn(function()
        return manager:acquire("run")
    end)
    t.sandbox.sleep(0)
    signal:abort("no")
    local workspace, err = waiting:join()
    if workspace then -- it was made sooner
        t.equal(true, workspace == other:join(), "that both have the same")
    else
        check_aborted(t, workspace, err, "no")
        t.equal("true\n", assert(assert(other:join()):exec({ "echo", "true" })).stdout, "stdout")
    end
    t.equal(1, counts.creates, "creates")
    manager:close()
end)

behaviour("a command has a time limit", function(t)
    with_workspace(t, function(workspace)
        local begun = t.now()
        local result = assert(workspace:exec(sh("echo x; sleep 60"), { timeout_ms = 200 }))
        t.equal(true, result.timed_out, "timed_out")
        t.equal("x\n", result.stdout, "stdout")
        local took = t.now() - begun
        t.equal(true, took >= 199 and took < 20000, "that the limit is kept: " .. took .. " ms")
    end)
end)

behaviour("a slow command leaves the host's timers alone", function(t)
    with_workspace(t, function(workspace)
        local last, largest, ticks = t.now(), 0, 0
        local stop = t.every(5, function()
            local now = t.now()
            largest, last, ticks = math.max(largest, now - last), now, ticks + 1
        end)
        local result, err = workspace:exec({ "sleep", "1.5" })
        stop()
        assert(result, err)
        t.figure("largest gap of a 5 ms timer", largest)
        t.equal(true, largest < 700, "that the timer was not kept from striking: " .. largest .. " ms")
        t.equal(true, ticks > 10, "that it struck: " .. ticks)
    end)
end)

behaviour("two hundred tasks run commands", function(t)
    with_workspace(t, function(workspace)
        local functions, wrong = {}, {}
        for index = 1, 200 do
            functions[index] = function()
                assert(t.sandbox.sleep(index % 7))
                return assert(workspace:exec({ "echo", tostring(index) })).stdout
            end
        end
        for index, results in ipairs(t.sandbox.all(functions)) do
            if results[1] ~= index .. "\n" then
                table.insert(wrong, ("%d: %s"):format(index, tostring(results[1] or results[2])))
            end
        end
        t.equal("", table.concat(wrong, ", "), "wrong answers")
    end)
end)

-- ---- Errors ------------------------------------------------------------------------------------

behaviour("errors come through", function(t)
    local workspace = with_workspace(t, function(workspace)
        local result, err = workspace:exec({ "" })
        t.equal(nil, result, "the result of a wrong command")
        t.equal("invalid_argv", err.code, "its error")
        result, err = workspace:read_file("none")
        t.equal(nil, result, "the text of no file")
        t.equal(true, t.sandbox.is_error(err, "SandboxError"), "is an error")
        local raised = { "raised in on_output" }
        result, err = workspace:exec({ "echo", "x" }, {
            on_output = function()
                error(raised)
            end,
        })
        check_aborted(t, result, err, raised)
    end)
    local result, err = workspace:exec({ "true" })
    t.equal(nil, result, "the result after the end")
    t.equal("disposed", err.code, "its error")
end)

behaviour("commands under way end with their workspace", function(t)
    local workspace = assert(t.provider:create({ run_id = "behaviour" }))
    local task = t.sandbox.spawn(function()
        return workspace:exec(sh("touch begun; exec sleep 60"))
    end)
    wait_until(t, function()
        return t.exists(t.path(workspace) .. "/begun")
    end, "the begin of the command")
    assert(workspace:dispose())
    local result, err = task:join()
    t.equal(nil, result, "the result")
    t.equal("disposed", err.code, "the error")
    t.equal("", t.list(t.workspaces), "what is left")
end)

-- ---- Managers ----------------------------------------------------------------------------------

behaviour("acquires at the same time share one create", function(t)
    local manager, counts = counting_manager(t)
    local functions = {}
    for index = 1, 5 do
        functions[index] = function()
            return manager:acquire("run")
        end
    end
    local all = t.sandbox.all(functions)
    local first = assert(all[1][1], all[1][2])
    local reused = 0
    for _, results in ipairs(all) do
        t.equal(true, results[1] == first, "that all have the same")
        reused = reused + (results[2] and 1 or 0)
    end
    t.equal(4, reused, "how many found it")
    t.equal(1, counts.creates, "creates")
    assert(manager:release("run"))
    t.equal("", t.list(t.workspaces), "what is left")
    manager:close()
end)

behaviour("a release in the background ends though nobody waits for it", function(t)
    local manager = counting_manager(t)
    assert(manager:acquire("run"))
    manager:hooks().completed("run")
    wait_until(t, function()
        return t.list(t.workspaces) == ""
    end, "the end of the workspace")
    manager:close()
end)

behaviour("hooks and aborts work where nothing may yield", function(t)
    local manager = counting_manager(t)
    local workspace = assert(manager:acquire("run"))
    local signal = t.sandbox.signal()
    local task = t.sandbox.spawn(function()
        return workspace:exec(sh("touch begun; exec sleep 60"), { signal = signal })
    end)
    wait_until(t, function()
        return t.exists(t.path(workspace) .. "/begun")
    end, "the begin of the command")
    -- No coroutine can yield across a comparison of table.sort.
    local done = false
    table.sort({ 1, 2 }, function(left, right)
        if not done then
            done = true
            signal:abort("reason")
            manager:hooks().failed("run")
        end
        return left < right
    end)
    local result, err = task:join()
    check_aborted(t, result, err, "reason")
    wait_until(t, function()
        return t.list(t.workspaces) == ""
    end, "the end of the workspace")
    manager:close()
end)

behaviour("a provider's create may use tasks, and the others go on meanwhile", function(t)
    local uses = {
        all = function(work)
            return t.sandbox.all({ work, work })[2][1]
        end,
        run = function(work)
            return t.sandbox.run(function()
                return t.sandbox.spawn(work):join()
            end)
        end,
        join = function(work)
            local task = t.sandbox.spawn(work)
            t.sandbox.sleep(1)
            return task:join()
        end,
    }
    for _, name in ipairs({ "all", "run", "join" }) do
        local result
        local manager = t.sandbox.create_workspace_manager({
            provider = {
                name = "working",
                create = function(_, request)
                    local workspace = assert(t.provider:create(request))
                    result = uses[name](function()
                        return assert(workspace:exec(sh("touch begun; " .. until_there("go")))).exit_code
                    end)
                    return workspace
                end,
                collect_garbage = function()
                    return 0
                end,
            },
            gc_interval_ms = 0,
        })
        local task = t.sandbox.spawn(manager.acquire, manager, "run")
        local begun
        wait_until(t, function()
            begun = begun or t.list(t.workspaces):match("[%x-]+")
            return begun and t.exists(("%s/%s/begun"):format(t.workspaces, begun))
        end, "the begin of the work: " .. name)
        assert(io.open(("%s/%s/go"):format(t.workspaces, begun), "w")):close()
        assert(task:join())
        t.equal(0, result, "what came of the work: " .. name)
        manager:close()
    end
end)

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
    local function sleeper(ms)
        return function()
            t.sandbox.sleep(ms)
            table.insert(order, ms)
            return ms, nil
        end
    end
    local results = t.sandbox.all({
        sleeper(300),
        sleeper(1),
        function()
            error("broken", 0)
        end,
        sleeper(150),
    })
    t.equal("1 150 300", table.concat(order, " "), "the order of the ends")
    t.equal("300 1 150", ("%s %s %s"):format(results[1][1], results[2][1], results[4][1]), "the results")
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
    local begun = t.now()
    t.equal(true, t.sandbox.sleep(100), "sleep")
    local took = t.now() - begun
    ended = true
    task:join()
    t.equal(true, took >= 99, "that it is over: " .. took .. " ms")
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
        local ended = false
        local results = t.sandbox.all({
            function()
                t.sandbox.spawn(function()
                    t.sandbox.sleep(300)
                    ended = true
                end)
                t.sandbox.sleep(1)
                return "result"
            end,
        })
        return results[1][1], ended, function()
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
