-- How remote workspaces are made, found gone and disposed, on a transport that does whatever a spec wants.

local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local fails = require("spec.support.fails")("SandboxError")
local fake_transport = require "spec.support.fake_transport"
local sandbox = require "chamvi.sandbox"
local stderr_lines = require "spec.support.stderr"

local new = fake_transport.workspace
local ID = "01234567-89ab-4cde-8f01-23456789abcd"

describe("a remote workspace", function()
    local probe_ms = constants.ALIVE_PROBE_TIMEOUT_MS

    before_each(function()
        constants.ALIVE_PROBE_TIMEOUT_MS = 60000
    end)

    after_each(function()
        constants.ALIVE_PROBE_TIMEOUT_MS = probe_ms
    end)

    local function lost()
        return nil, "cut off"
    end

    local function hold(call)
        call:write("stderr", call:report("start 5"))
        while not call.signal.aborted do
            sandbox.sleep(2)
        end
        return nil, "detached"
    end

    it("contacts nothing, and has what its provider gave", function()
        local info = { run_id = "run" }
        local transport = fake_transport.new(error)
        local workspace = sandbox.create_remote_workspace({ id = ID, info = info, transport = transport })
        assert.equal(ID, workspace.id)
        assert.equal(info, workspace.info)
        assert.is_false(workspace.disposed)
        assert.same({ 0, 0 }, { #transport.calls, transport.removals })
    end)

    it("raises for wrong options", function()
        local transport = fake_transport.new(error)
        local wrong = {
            {},
            { info = {}, transport = transport },
            { id = ID, transport = transport },
            { id = ID, info = {} },
            { id = 7, info = {}, transport = transport },
            { id = "x", info = {}, transport = transport },
            { id = ID .. "\n", info = {}, transport = transport },
            { id = ID, info = "x", transport = transport },
            { id = ID, info = {}, transport = {} },
            { id = ID, info = {}, transport = { exec = error } },
            { id = ID, info = {}, transport = { exec = error, remove = error, alive = true } },
            { id = ID, info = {}, transport = transport, clock = {} },
            { id = ID, info = {}, transport = transport, colour = "red" },
        }
        for index = 1, #wrong + 1 do
            local ok, err = pcall(sandbox.create_remote_workspace, wrong[index])
            assert.is_false(ok, index)
            assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), tostring(err))
        end
    end)

    describe("after a failed exec", function()
        it("is gone when the transport says that it is not alive", function()
            local workspace, transport = new(lost, {
                alive = function()
                    sandbox.sleep(5)
                    return false
                end,
            })
            fails("transport_lost", workspace:exec({ "x" }))
            assert.is_true(workspace.disposed)
            fails("gone", workspace:exec({ "x" }))
            fails("gone", workspace:read_file("x"))
            fails("gone", workspace:write_file("x", ""))
            assert.equal(1, #transport.calls)
            assert.is_true(workspace:dispose())
            assert.equal(1, transport.removals)
            fails("disposed", workspace:exec({ "x" }))
        end)

        it("also after a failed read or write, and without a shell", function()
            local function dead()
                return false
            end
            local workspace = new(lost, { alive = dead })
            fails("transport_lost", workspace:read_file("x"))
            assert.is_true(workspace.disposed)
            workspace = new(lost, { alive = dead })
            fails("transport_lost", workspace:write_file("x", ""))
            assert.is_true(workspace.disposed)
            workspace = new(function()
                return { exit_code = 127 }
            end, { alive = dead })
            fails("no_shell", workspace:exec({ "x" }))
            assert.is_true(workspace.disposed)
        end)

        local signal
        local answers = {
            ["that it is alive"] = function() return true end,
            ["nothing"] = function() end,
            ["that it does not know"] = function() return nil, "engine unreachable" end,
            ["nonsense"] = function() return 0 end,
            ["a word"] = function() return "false" end,
            ["an error that it raises"] = function() error("raised") end,
            ["nothing in time"] = function(_, given)
                signal = given
                while not given.aborted do
                    sandbox.sleep(2)
                end
                return false
            end,
            ["nothing, ever"] = function() coroutine.yield() end,
        }
        local never = { ["nothing in time"] = true, ["nothing, ever"] = true }
        for name, alive in pairs(answers) do
            it("is not gone when the transport says " .. name, function()
                if never[name] then
                    constants.ALIVE_PROBE_TIMEOUT_MS = 60 -- nobody waits for a real one
                end
                local workspace = new(lost, { alive = alive })
                fails("transport_lost", workspace:exec({ "x" }))
                assert.is_false(workspace.disposed)
                fails("transport_lost", workspace:exec({ "x" }))
            end)
        end

        it("has told the transport that it took too long", function()
            assert.is_true(signal.aborted)
        end)

        it("is not gone when the transport can't say", function()
            local workspace = new(lost)
            fails("transport_lost", workspace:exec({ "x" }))
            assert.is_false(workspace.disposed)
        end)
    end)

    describe("passes on what its transport says when nothing ran, which is", function()
        for _, code in ipairs({ "engine_unreachable", "forbidden", "not_ready", "gone" }) do
            it(code, function()
                local disposed = code == "gone"
                local cause = errors.sandbox(code, "words")
                local workspace = new(function()
                    return nil, cause
                end, { alive = function() return true end })
                local _, err = workspace:exec({ "x" })
                assert.equal(cause, err)
                assert.equal(disposed, workspace.disposed)
                fails(code, workspace:read_file("x"))
                if disposed then
                    fails("gone", workspace:exec({ "x" }))
                end
            end)
        end
    end)

    it("is asked nothing after a result, an abort and a wrong folder", function()
        local asked = 0
        local workspace = new(function(call)
            call:write("stdout", call:report("end"))
            call:write("stderr", call:report(asked == 0 and "cwd missing" or "exit |0|"))
            return { exit_code = 0 }
        end, {
            alive = function()
                asked = asked + 1
                return false
            end,
        })
        fails("cwd_not_found", workspace:exec({ "x" }))
        fails("aborted", workspace:exec({ "x" }, { signal = (function()
            local signal = sandbox.signal()
            signal:abort()
            return signal
        end)() }))
        assert.equal(0, asked)
    end)

    describe("that is disposed", function()
        it("is removed once", function()
            local workspace, transport = new(error)
            local results = sandbox.all({
                function() return workspace:dispose() end,
                function() return workspace:dispose() end,
            })
            assert.is_true(results[1][1])
            assert.is_true(results[2][1])
            assert.is_true(workspace:dispose())
            assert.is_true(workspace.disposed)
            assert.equal(1, transport.removals)
            fails("disposed", workspace:exec({ "x" }))
            fails("disposed", workspace:read_file("x"))
            fails("disposed", workspace:write_file("x", ""))
        end)

        it("ends what is under way, and kills it", function()
            local workspace, transport = new(hold)
            sandbox.run(function()
                local tasks = {
                    sandbox.spawn(workspace.exec, workspace, { "x" }),
                    sandbox.spawn(workspace.read_file, workspace, "x"),
                }
                sandbox.sleep(20)
                assert.is_true(workspace:dispose())
                for index, task in ipairs(tasks) do
                    fails("disposed", task:join())
                    assert.is_true(transport.calls[index].signal.aborted)
                end
            end)
            assert.same({ { "5", "5" } }, transport.kills)
            assert.equal(1, transport.removals)
        end)

        it("says why it could not be removed, and is removed by the next try", function()
            local inner = { "an engine's" }
            local ways = {
                [function() return nil, inner end] = inner,
                [function() error(inner) end] = inner,
                [function() return nil end] = false,
                [function() return nil, "busy\nbusy" end] = "busy\nbusy",
            }
            for way, cause in pairs(ways) do
                local workspace, transport = new(error, {
                    remove = function(count)
                        if count > 1 then
                            return true
                        end
                        return way()
                    end,
                })
                local err = fails("remove_failed", workspace:dispose())
                assert.equal(cause or nil, err.cause)
                assert.is_nil(err.message:find("\n"))
                assert.is_true(workspace.disposed)
                fails("disposed", workspace:exec({ "x" }))
                assert.is_true(workspace:dispose())
                assert.equal(2, transport.removals)
            end
        end)

        it("hands on an error of the library's own", function()
            local _, own = sandbox.create_remote_workspace({
                id = ID,
                info = {},
                transport = fake_transport.new(lost),
            }):exec({ "x" })
            local workspace = new(error, {
                remove = function()
                    return nil, own
                end,
            })
            assert.equal(own, select(2, workspace:dispose()))
        end)

        it("says nothing of a kill that comes too late", function()
            local workspace = new(hold, {
                kill = function()
                    sandbox.sleep(10)
                    return nil, "no such container"
                end,
            })
            local lines = stderr_lines(function()
                sandbox.run(function()
                    local task = sandbox.spawn(workspace.exec, workspace, { "x" })
                    sandbox.sleep(10)
                    assert.is_true(workspace:dispose())
                    fails("disposed", task:join())
                    sandbox.sleep(30)
                end)
            end)
            assert.same({}, lines)
        end)

        it("by the end of a block on Lua 5.4", function()
            local workspace, transport = new(error)
            getmetatable(workspace).__close(workspace, nil)
            assert.is_true(workspace.disposed)
            assert.equal(1, transport.removals)
        end)
    end)
end)
