local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local function sh(script)
    return { "sh", "-c", script }
end

-- Runs `fn` and gives how long it took, in milliseconds.
local function duration(fn)
    local core = require "chamvi.sandbox.core"
    local started = core.monotonic_ms()
    fn()
    return core.monotonic_ms() - started
end

describe("the end of", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    -- Waits until a command has left a file with a number, and gives the number.
    local function number_in(workspace, name)
        local number
        support.wait_until(function()
            local text = scratch.read(place.path(workspace) .. "/" .. name)
            number = text and text:match("^(%d+)\n$")
            return number
        end, "a number in " .. name)
        return tonumber(number)
    end

    local function wait_for_death(pid)
        support.wait_until(function()
            return not scratch.is_alive(pid)
        end, "the end of the command")
    end

    describe("an exec by its signal", function()
        it("comes at once, kills the command, and says why", function()
            place.with(function(workspace)
                local least_ms = math.huge -- a busy machine does not delay all of them
                for index = 1, 3 do
                    sandbox.run(function()
                        local signal, reason = sandbox.signal(), { "reason" }
                        local script = ("trap '' TERM; echo $$ > pid%d; sleep 60 & wait"):format(index)
                        local task = sandbox.spawn(workspace.exec, workspace, sh(script), { signal = signal })
                        local pid = number_in(workspace, "pid" .. index)
                        local result, err
                        least_ms = math.min(least_ms, duration(function()
                            signal:abort(reason)
                            result, err = task:join()
                        end))
                        assert.is_nil(result)
                        assert.is_true(sandbox.is_error(err, "SandboxError"))
                        assert.equal("aborted", err.code)
                        assert.equal(reason, err.cause)
                        wait_for_death(pid)
                    end)
                end
                assert.is_true(least_ms < 4000, least_ms) -- who only got SIGTERM would be killed 5 s later
                assert.equal(0, assert(workspace:exec({ "true" })).exit_code)
            end)
        end)

        it("means that nothing starts when it was aborted before", function()
            place.with(function(workspace)
                local signal = sandbox.signal()
                signal:abort("no")
                local result, err = workspace:exec(sh("touch started"), { signal = signal })
                assert.is_nil(result)
                assert.equal("aborted", err.code)
                assert.equal("SandboxError: the call was aborted: no", tostring(err))
                assert.is_nil(scratch.read(place.path(workspace) .. "/started"))
            end)
        end)

        it("works from a coroutine that no task waits in, and after it nothing listens", function()
            place.with(function(workspace)
                local signal = sandbox.signal()
                assert(workspace:exec({ "true" }, { signal = signal }))
                assert.equal(0, #signal._listeners)
                local _, err = workspace:exec(sh("echo x; sleep 60"), {
                    signal = signal,
                    on_output = function()
                        signal:abort("seen enough")
                    end,
                })
                assert.equal("aborted", err.code)
                assert.equal("seen enough", err.cause)
                assert.equal(0, #signal._listeners)
            end)
        end)
    end)

    describe("an exec by its on_output", function()
        it("comes with what it raised as cause, also when the command has ended", function()
            place.with(function(workspace)
                local raised = { "raised" }
                for _, script in ipairs({ "echo $$ > pid; yes", "echo x" }) do
                    local calls = 0
                    local result, err = workspace:exec(sh(script), {
                        on_output = function()
                            calls = calls + 1
                            error(raised)
                        end,
                    })
                    assert.is_nil(result)
                    assert.equal("aborted", err.code)
                    assert.equal(raised, err.cause)
                    assert.equal(1, calls)
                end
                wait_for_death(number_in(workspace, "pid"))
            end)
        end)

        it("comes when it yields or waits", function()
            place.with(function(workspace)
                sandbox.run(function()
                    for expected, on_output in pairs({
                        ["must not yield"] = coroutine.yield,
                        ["exec waits"] = function()
                            workspace:exec({ "true" })
                        end,
                        ["sleep waits"] = function()
                            sandbox.sleep(1)
                        end,
                        ["dispose waits"] = function()
                            workspace:dispose()
                        end,
                        ["run waits"] = function()
                            sandbox.run(print)
                        end,
                    }) do
                        local result, err = workspace:exec({ "echo" }, { on_output = on_output })
                        assert.is_nil(result)
                        assert.equal("aborted", err.code)
                        assert.matches(expected, err.message)
                    end
                end)
                assert.is_false(workspace.disposed)
            end)
        end)

        it("does not come when it spawns a task instead", function()
            place.with(function(workspace)
                local inner
                sandbox.run(function()
                    assert(workspace:exec({ "echo" }, {
                        on_output = function()
                            inner = sandbox.spawn(function()
                                return workspace:exec({ "echo", "inner" })
                            end)
                        end,
                    }))
                    assert.equal("inner\n", assert(inner:join()).stdout)
                end)
            end)
        end)
    end)

    describe("a workspace by dispose", function()
        it("leaves nothing, and every later call is `disposed`", function()
            local workspace = assert(place.provider():create({ run_id = "spec" }))
            local daemon = assert(workspace:exec(sh("setsid sleep 1000 >/dev/null 2>&1 & echo $!"))).stdout
            assert.is_true(scratch.is_alive(tonumber(daemon)))
            assert(workspace:exec(sh("mkdir -p a/b; echo x > a/b/c; chmod 000 a/b a; touch \"$HOME/x\" \"$TMPDIR/y\"")))
            assert.is_false(workspace.disposed)
            assert.is_true(workspace:dispose())
            assert.is_true(workspace.disposed)
            assert.is_false(scratch.is_alive(tonumber(daemon)))
            assert.same({}, scratch.list(place.root))
            assert.is_true(workspace:dispose())
            local result, err = workspace:exec({ "true" })
            assert.is_nil(result)
            assert.is_true(sandbox.is_error(err, "SandboxError"))
            assert.equal("disposed", err.code)
        end)

        it("ends the execs under way, and several share one", function()
            local workspace = assert(place.provider():create({ run_id = "spec" }))
            sandbox.run(function()
                local execs = {}
                for index = 1, 3 do
                    execs[index] = sandbox.spawn(function()
                        return workspace:exec(sh("echo $$ > pid" .. index .. "; sleep 60"))
                    end)
                end
                for index = 1, 3 do
                    number_in(workspace, "pid" .. index)
                end
                local function dispose()
                    return workspace:dispose()
                end
                assert.is_true(duration(function()
                    for _, packed in ipairs(sandbox.all({ dispose, dispose, dispose })) do
                        assert.same({ n = 1, true }, packed)
                    end
                end) < 30000) -- the commands would take twice as long
                for index = 1, 3 do
                    local result, err = execs[index]:join()
                    assert.is_nil(result)
                    assert.equal("disposed", err.code)
                end
            end)
        end)

        it("ends what forks and daemonizes all the time", function()
            local workspace = assert(place.provider():create({ run_id = "spec" }))
            sandbox.run(function()
                local storm = sandbox.spawn(function()
                    return workspace:exec(sh("while :; do setsid sleep 1000 & sleep 0.005; done"))
                end)
                sandbox.sleep(500)
                assert.is_true(duration(function()
                    assert.is_true(workspace:dispose())
                end) < 30000)
                assert.equal("disposed", select(2, storm:join()).code)
            end)
        end)

        it("goes on while the program blocks in something else", function()
            local first = assert(place.provider():create({ run_id = "spec" }))
            place.with(function(second)
                sandbox.spawn(function()
                    return first:dispose()
                end)
                local script = "until [ $(ls -A .. | wc -l) = 4 ]; do sleep 0.02; done"
                assert(second:exec(sh(script), { timeout_ms = 30000 }))
                local id = second.id
                assert.same({ id, id .. ".home", id .. ".json", id .. ".tmp" }, scratch.list(place.root))
            end)
            assert.is_true(first:dispose())
        end)

        it("can be tried again after a failure", function()
            local workspace = assert(place.provider():create({ run_id = "spec" }))
            assert.equal("transport_lost", select(2, workspace:exec(sh("kill -KILL $PPID; sleep 60"))).code)
            -- A new supervisor has to delete, and can't.
            scratch.shell(("mv %s %s.away && touch %s"):format(place.root, place.root, place.root))
            local disposed, err = workspace:dispose()
            scratch.shell(("rm %s && mv %s.away %s"):format(place.root, place.root, place.root))
            assert.is_nil(disposed)
            assert.is_true(sandbox.is_error(err, "SandboxError"))
            assert.is_true(workspace.disposed)
            assert.equal("disposed", select(2, workspace:exec({ "true" })).code)
            assert.is_true(workspace:dispose())
        end)
    end)

    describe("a supervisor", function()
        for what, act in pairs({ killed = "kill -KILL $PPID", stopped = "kill -STOP $PPID" }) do
            it(what .. " by a command is transport_lost with the output so far; the workspace is gone", function()
                local workspace = assert(place.provider():create({ run_id = "spec" }))
                local result, err
                assert.is_true(duration(function()
                    local script = "echo before; until [ -e seen ]; do sleep 0.02; done; " .. act .. "; sleep 60"
                    result, err = workspace:exec(sh(script), {
                        on_output = function()
                            scratch.write(place.path(workspace) .. "/seen", "")
                        end,
                    })
                end) < 19000) -- one that is only silent is lost after 20 s
                assert.is_nil(result)
                assert.is_true(sandbox.is_error(err, "SandboxError"))
                assert.equal("transport_lost", err.code)
                assert.equal("before\n", err.partial.stdout)
                assert.equal("", err.partial.stderr)
                assert.is_true(workspace.disposed)

                result, err = workspace:exec({ "true" })
                assert.is_nil(result)
                assert.equal("gone", err.code)
                assert.is_true(workspace:dispose())
                assert.same({}, scratch.list(place.root))
                assert.equal("disposed", select(2, workspace:exec({ "true" })).code)
            end)
        end

        it("and its guard killed: every exec under way ends, and dispose still deletes", function()
            local workspace = assert(place.provider():create({ run_id = "spec" }))
            sandbox.run(function()
                local other = sandbox.spawn(function()
                    return workspace:exec({ "sleep", "60" })
                end)
                local guard = "$(cut -d ' ' -f 4 /proc/$PPID/stat)"
                local _, err = workspace:exec(sh("g=" .. guard .. "; kill -KILL $g; sleep 60"))
                assert.equal("transport_lost", err.code)
                assert.equal("transport_lost", select(2, other:join()).code)
            end)
            assert.is_true(workspace:dispose())
        end)
    end)

    describe("the folder under a workspace", function()
        it("is found out by the next exec: the workspace is gone", function()
            local workspace = assert(place.provider():create({ run_id = "spec" }))
            scratch.remove(place.path(workspace))
            local result, err = workspace:exec({ "true" })
            assert.is_nil(result)
            assert.equal("gone", err.code)
            assert.is_true(workspace.disposed)
            assert.is_true(workspace:dispose())
        end)
    end)
end)
