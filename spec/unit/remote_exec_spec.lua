-- Commands of a remote workspace on a transport that does whatever a spec wants.

local constants = require "chamvi.sandbox.constants"
local fails = require("spec.support.fails")("SandboxError")
local fake_transport = require "spec.support.fake_transport"
local sandbox = require "chamvi.sandbox"
local stderr_lines = require "spec.support.stderr"

local new = fake_transport.workspace
local DONE = "[1] + Done                 \n|0|"

describe("a command of a remote workspace", function()
    local times = {}

    before_each(function()
        for _, name in ipairs({ "EXEC_GRACE_MS", "ALIVE_PROBE_TIMEOUT_MS" }) do
            times[name] = constants[name]
            constants[name] = 60 -- nobody waits for real ones
        end
    end)

    after_each(function()
        for name, value in pairs(times) do
            constants[name] = value
        end
    end)

    -- For a program that goes on until the workspace is done with it.
    local function hold(call)
        while not call.signal.aborted do
            sandbox.sleep(2)
        end
        return nil, "detached"
    end

    local function wait_until(condition)
        for _ = 1, 6000 do
            if condition() then
                return
            end
            sandbox.sleep(5)
        end
        error("not within 30 s", 2)
    end

    describe("has a result", function()
        it("from what the wrapper reports, however the output is cut", function()
            for bytes = 1, 40 do
                local workspace = new(function(call)
                    call:run("out\n", "err\30" .. call.mark .. "\n", "[1] + Done(3)   \n|3|", bytes)
                    return { exit_code = 0 }
                end)
                local result = assert(workspace:exec({ "x" }))
                result.stderr = result.stderr:gsub("m%x+", "MARK")
                assert.equal("number", type(result.duration_ms))
                result.duration_ms = nil
                assert.same({
                    status = "exited",
                    exit_code = 3,
                    stdout = "out\n",
                    stderr = "err\30MARK\n",
                    stdout_truncated = false,
                    stderr_truncated = false,
                    stdout_bytes = 4,
                    stderr_bytes = 38,
                    streams_held = false,
                    timed_out = false,
                }, result)
            end
        end)

        local notes = {
            { "[1] + Done(143)\n|143|", "exited", 143 },
            { "[1] + Terminated\n|143|", "signaled", 143, 15 },
            { "[1]+  Exit 137       timeout -v -k 5\n|137|", "exited", 137 },
            { "Killed\n[1] + Killed\n|137|", "signaled", 137, 9 },
            { "|139|", "signaled", 139, 11 },
            { "timeout: the monitored command dumped core\n[1] + Segmentation fault\n|139|", "signaled", 139, 11 },
            { "timeout: sending signal TERM to command 'sh'\n[1] + Done(124)\n|124|", "timed_out", 124 },
            { "timeout: sending\ntimeout: sending\n[1] + Killed\n|137|", "timed_out", 124, 9 },
            { "timeout: sending\n[1] + Done(137)\n|137|", "timed_out", 124, 9 },
            { "timeout: sending\n[1] + Killed\n|137|", "timed_out", 124 }, -- `timeout` itself
            { "[1] + Done(124)\n|124|", "exited", 124 },
            { "timeout: sending signal TERM\n[1] + Terminated\n|143|", "signaled", 143, 15 },
            { "[1] + Done(255)\n|255|", "exited", 255 },
        }
        for index, case in ipairs(notes) do
            it("by the shell's words: " .. index, function()
                local workspace = new(function(call)
                    call:run("", "", case[1])
                    return { exit_code = 0 }
                end)
                local result = assert(workspace:exec({ "x" }))
                assert.same({ case[2], case[3], case[4] }, { result.status, result.exit_code, result.term_signal })
                assert.equal(case[2] == "timed_out", result.timed_out)
            end)
        end

        it("also when the transport blocks, or waits", function()
            for _, wait in ipairs({ false, true }) do
                local workspace = new(function(call)
                    if wait then
                        sandbox.sleep(5)
                    end
                    call:run("x", "", DONE)
                    return { exit_code = 0 }
                end)
                assert.equal("x", assert(workspace:exec({ "x" })).stdout)
            end
        end)

        it("when the transport fails after all of it has arrived", function()
            for _, fail in ipairs({ error, function() end }) do
                local workspace = new(function(call)
                    call:run("x", "", DONE)
                    return fail("late")
                end)
                assert.equal("x", assert(workspace:exec({ "x" })).stdout)
            end
        end)

        it("about 2 s after the exit when a background job holds the output", function()
            local aborted
            local workspace, transport = new(function(call)
                call:run("mine", "", DONE)
                sandbox.sleep(100)
                call:write("stdout", " job")
                hold(call)
                aborted = true
                call:write("stdout", " late")
            end)
            local result = assert(workspace:exec({ "x" }))
            assert.is_true(result.streams_held)
            assert.equal("mine job", result.stdout)
            assert.is_true(result.duration_ms >= 1400 and result.duration_ms < 60000)
            wait_until(function()
                return aborted
            end)
            assert.equal("mine job", result.stdout)
            assert.same({}, transport.kills)
        end)

        it("and a transport that ends by itself then, as Docker does, makes no difference", function()
            local workspace = new(function(call)
                call:run("mine", "", DONE)
                os.execute("sleep 2") -- and the timer had no chance
                return { exit_code = 0 }
            end)
            local result = assert(workspace:exec({ "x" }))
            assert.is_true(result.streams_held)
            assert.equal("mine", result.stdout)
        end)

        it("only when what was written before the exit is there", function()
            local workspace = new(function(call)
                call:write("stderr", call:report("start 77") .. call:report("exit " .. DONE))
                sandbox.sleep(2300)
                call:write("stdout", "late" .. call:report("end"))
                return { exit_code = 0 }
            end)
            constants.EXEC_GRACE_MS = 15000
            local result = assert(workspace:exec({ "x" }))
            assert.equal("late", result.stdout)
            assert.is_false(result.streams_held)
        end)

        it("of which the command falsifies its own at most", function()
            local workspace = new(function(call)
                call:write("stderr", call:report("exit [1] + Done(7)\n|7|") .. "more" .. call:report("nonsense"))
                call:run("", "", DONE)
                return { exit_code = 0 }
            end)
            local result = assert(workspace:exec({ "x" }))
            assert.equal(7, result.exit_code)
            assert.equal("more", result.stderr)
        end)

        it("with another mark each time", function()
            local workspace, transport = new(function(call)
                call:run("", "\30" .. (call.previous or "m00") .. " exit |9|\30", DONE)
                return { exit_code = 0 }
            end)
            assert.equal(0, assert(workspace:exec({ "x" })).exit_code)
            assert.equal(0, assert(workspace:exec({ "x" })).exit_code)
            assert.are_not.equal(transport.calls[1].mark, transport.calls[2].mark)
            assert.equal(33, #transport.calls[1].mark)
        end)

        it("with a duration by the workspace's clock", function()
            local time = 1000
            local transport = fake_transport.new(function(call)
                time = time + 250
                call:run("", "", DONE)
                return { exit_code = 0 }
            end)
            local workspace = sandbox.create_remote_workspace({
                id = sandbox.uuid(),
                info = {},
                transport = transport,
                clock = {
                    now = function()
                        return time
                    end,
                },
            })
            assert.equal(250, assert(workspace:exec({ "x" })).duration_ms)
        end)
    end)

    it("is given to the transport with its stdin, its folder and its time limit", function()
        local workspace, transport = new(function(call)
            call:run("", "", DONE)
            return { exit_code = 0 }
        end)
        assert(workspace:exec({ "a", "b c" }, { stdin = "in\0", cwd = "x/../y", timeout_ms = 1234 }))
        local call = transport.calls[1]
        assert.equal("in\0", call.stdin)
        assert.same({ "sh", "-c", "sh", "/workspace/y", "a", "b c" },
            { call.argv[1], call.argv[2], call.argv[4], call.argv[5], call.argv[6], call.argv[7] })
        assert.is_truthy(call.argv[3]:find("timeout -v -k 5 1.234 ", 1, true))
        assert(workspace:exec({ "a" }))
        assert.equal("/workspace", transport.calls[2].argv[5])
        assert.is_nil(transport.calls[2].stdin)
    end)

    describe("is transport_lost when", function()
        local raised = { "raised" }
        local inner = { code = "engine" }
        local ways = {
            ["the transport raises"] = { function() error(raised) end, raised },
            ["the transport raises nil"] = { function() error(nil) end },
            ["the transport fails"] = { function() return nil, inner end, inner },
            ["the transport fails with a string"] = { function() return nil, "cut\noff" end, "cut\noff" },
            ["the transport fails without an error"] = { function() return nil end },
            ["the transport answers nonsense"] = { function() return "yes" end },
            ["the transport answers an empty table"] = { function() return {} end },
            ["the transport knows an exit code alone"] = { function() return { exit_code = 0 } end },
            ["the report is cut"] = {
                function(call)
                    local report = call:report("exit " .. DONE)
                    call:write("stdout", call:report("end"))
                    call:write("stderr", report:sub(1, -2))
                    return { exit_code = 0 }
                end,
            },
            ["the output is cut"] = {
                function(call)
                    call:write("stderr", call:report("exit " .. DONE))
                    return { exit_code = 0 }
                end,
            },
            ["the program could not be started after all"] = {
                function(call)
                    call:write("stderr", call:report("start 7"))
                    return { exit_code = 127 }
                end,
            },
            ["a sink is given no string"] = { function(call) call.stdout:write(7) end },
        }
        for name, way in pairs(ways) do
            it(name, function()
                local workspace = new(function(call)
                    call:write("stdout", "so far\255")
                    call:write("stderr", "words")
                    return way[1](call)
                end)
                local err = fails("transport_lost", workspace:exec({ "x" }))
                assert.same({
                    stdout = "so far\239\191\189",
                    stderr = "words",
                    stdout_truncated = false,
                    stderr_truncated = false,
                }, err.partial)
                if way[2] then
                    assert.equal(way[2], err.cause)
                end
                assert.is_false(workspace.disposed)
            end)
        end

        it("nothing is reported within the time limit and the grace", function()
            local workspace, transport = new(function(call)
                call:write("stderr", call:report("start 88") .. "words")
                return hold(call)
            end)
            local err = fails("transport_lost", workspace:exec({ "x" }, { timeout_ms = 50 }))
            assert.equal("words", err.partial.stderr)
            assert.is_true(transport.calls[1].signal.aborted)
            assert.same({ { "88" } }, transport.kills)
        end)

        it("the transport never says anything", function()
            local workspace, transport = new(function()
                coroutine.yield() -- no wait of the library's: it never goes on
            end)
            fails("transport_lost", workspace:exec({ "x" }, { timeout_ms = 50 }))
            assert.same({ { transport.calls[1].mark } }, transport.kills)
        end)
    end)

    it("is lost when it has stopped the shell that would have reported its end", function()
        local function stopped(call)
            call:write("stderr", call:report("start 77") .. "words")
            call:write("stdout", "so far" .. call:report("end"))
            call:write("stderr", call:report("exit "))
            return { exit_code = 0 }
        end
        local workspace = new(stopped)
        local err = fails("transport_lost", workspace:exec({ "x" }))
        assert.equal("so far", err.partial.stdout)
        assert.equal("words", err.partial.stderr)
        fails("transport_lost", workspace:read_file("x"))
    end)

    it("has a result when the time was over before it began", function()
        local workspace = new(function(call)
            call:write("stdout", call:report("end"))
            call:write("stderr", call:report("exit timeout: sending signal TERM\n|124|"))
            return { exit_code = 0 }
        end)
        assert.equal("timed_out", assert(workspace:exec({ "x" }, { timeout_ms = 1 })).status)
    end)

    it("is cwd_not_found or outside_workspace by the wrapper's word", function()
        for word, code in pairs({ missing = "cwd_not_found", outside = "outside_workspace" }) do
            local workspace = new(function(call)
                call:write("stdout", call:report("end"))
                call:write("stderr", call:report("cwd " .. word))
                return { exit_code = 0 }
            end)
            local at_root = fails(code, workspace:exec({ "x" }))
            local below = fails(code, workspace:exec({ "x" }, { cwd = "below" }))
            -- Without the root, it is the place that lacks something.
            assert.equal(word == "missing", at_root.message:find("/workspace", 1, true) ~= nil)
            assert.is_nil(below.message:find("/workspace", 1, true))
        end
    end)

    describe("is aborted", function()
        local function aborts(report, target)
            local workspace, transport = new(function(call)
                call:write("stderr", report and call:report(report) or "")
                return hold(call)
            end)
            sandbox.run(function()
                local signal = sandbox.signal()
                local task = sandbox.spawn(workspace.exec, workspace, { "x" }, { signal = signal })
                sandbox.sleep(20)
                signal:abort("enough")
                assert.is_true(transport.calls[1].signal.aborted)
                assert.equal("enough", fails("aborted", task:join()).cause)
            end)
            assert.same({ { target or transport.calls[1].mark } }, transport.kills)
            assert.is_false(workspace.disposed)
        end

        it("and its process group killed by a second exec", function()
            aborts("start 4711", "4711")
        end)

        it("and looked for by its mark while its group is not known", function()
            aborts(nil)
            aborts("start 1") -- everybody's
            aborts("start 0") -- the killer's own
        end)

        it("before anything is started", function()
            local workspace, transport = new(hold)
            local signal = sandbox.signal()
            signal:abort()
            fails("aborted", workspace:exec({ "x" }, { signal = signal }))
            assert.equal(0, #transport.calls)
        end)

        it("by on_output that raises, also on a transport that blocks", function()
            local raised = { "on purpose" }
            for _, waits in ipairs({ true, false }) do
                local workspace, transport = new(function(call)
                    if waits then
                        sandbox.sleep(5)
                    end
                    call:write("stderr", call:report("start 5"))
                    call:write("stdout", "x")
                    call:write("stdout", "y")
                    call:run("", "", DONE)
                    return { exit_code = 0 }
                end)
                local count = 0
                local err = fails("aborted", workspace:exec({ "x" }, {
                    on_output = function()
                        count = count + 1
                        error(raised)
                    end,
                }))
                assert.equal(raised, err.cause)
                assert.equal(1, count)
                assert.same({ { "5" } }, transport.kills)
            end
        end)

        it("by on_output that yields", function()
            local workspace = new(function(call)
                call:run("x", "", DONE)
                return { exit_code = 0 }
            end)
            sandbox.run(function()
                local err = fails("aborted", workspace:exec({ "x" }, { on_output = coroutine.yield }))
                assert.matches("must not yield", err.message)
            end)
        end)

        it("and a kill that fails is told in one line", function()
            local kills = {
                function() return nil, "cut\noff" end,
                function() error("raised") end,
                function() return { exit_code = 3 } end,
            }
            for _, kill in ipairs(kills) do
                local workspace = new(function(call)
                    call:write("stdout", "x")
                    return hold(call)
                end, { kill = kill })
                local lines = stderr_lines(function()
                    fails("aborted", workspace:exec({ "x" }, { on_output = error }))
                    sandbox.sleep(20)
                end)
                assert.equal(1, #lines, table.concat(lines, "; "))
                assert.is_truthy(lines[1]:find(workspace.id, 1, true), lines[1])
            end
        end)
    end)

    it("gets every raw chunk to on_output, beyond the cap too", function()
        local bytes = sandbox.OUTPUT_MAX_BYTES + 1000
        local workspace = new(function(call)
            call:run(("x"):rep(bytes) .. "\255", "err", DONE, 4096)
            return { exit_code = 0 }
        end)
        local got = { stdout = {}, stderr = {} }
        local result = assert(workspace:exec({ "x" }, {
            on_output = function(stream, chunk)
                table.insert(got[stream], chunk)
            end,
        }))
        assert.equal(("x"):rep(bytes) .. "\255", table.concat(got.stdout))
        assert.equal("err", table.concat(got.stderr))
        assert.equal(bytes + 1, result.stdout_bytes)
        assert.is_true(result.stdout_truncated)
        assert.equal(sandbox.OUTPUT_MAX_BYTES, #result.stdout)
    end)
end)
