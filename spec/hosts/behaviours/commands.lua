-- Workspaces, their commands and managers, as every host has them.

local support = require "spec.hosts.behaviours.support"

local with_workspace, wait_until = support.with_workspace, support.wait_until

local KILLED_AFTER_S = 60 -- what waits for a file gives up then

local function sh(script)
    return { "sh", "-c", script }
end

-- Shell that waits until there is a file.
local function until_there(name)
    return ("n=0; until [ -e %s ]; do n=$((n + 1)); [ $n -lt %d ] || exit 9; sleep 0.02; done"):format(
        name, KILLED_AFTER_S * 50)
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

local function check_aborted(t, result, err, reason)
    t.equal(nil, result, "the result")
    t.equal(true, t.sandbox.is_error(err, "SandboxError"), "is an error")
    t.equal("aborted", err.code, "its code")
    t.equal(reason, err.cause, "its cause")
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
        for _, timeout_ms in ipairs({ 200, 2000, 20000 }) do -- on a busy machine it had not begun, and gets more
            local begun = t.now()
            local result = assert(workspace:exec(sh("echo x; sleep 600"), { timeout_ms = timeout_ms }))
            local took = t.now() - begun
            t.equal(true, result.timed_out, "timed_out")
            t.equal(true, took >= timeout_ms - 1 and took < timeout_ms + 60000, "that the limit is kept: " .. took)
            if result.stdout ~= "" then
                t.equal("x\n", result.stdout, "stdout")
                return
            end
        end
        error("nothing was printed before the time was over")
    end)
end)

behaviour("a slow command leaves the host's timers alone", function(t)
    with_workspace(t, function(workspace)
        local last, gaps = t.now(), {}
        local stop = t.every(5, function()
            local now = t.now()
            table.insert(gaps, now - last)
            last = now
            if #gaps == 50 then
                assert(io.open(t.path(workspace) .. "/struck", "w")):close()
            end
        end)
        local result, err = workspace:exec(sh("sleep 0.5; " .. until_there("struck")))
        stop()
        assert(result, err)
        t.equal(0, result.exit_code, "the exit code of who waits for the timer, which struck: " .. #gaps)
        table.sort(gaps)
        t.figure("largest gap of a 5 ms timer", gaps[#gaps])
        -- The largest one may be due to a busy machine.
        local usual = gaps[math.floor(#gaps / 2)]
        t.equal(true, usual < 500, "that the timer was not kept from striking: " .. usual .. " ms")
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

return behaviours
