local sandbox = require "chamvi.sandbox"
local support = require "spec.support.local_workspace"
local unpack = require("chamvi.sandbox.compat").unpack

describe("what exec is given", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    -- Asserts that each of the calls gives a ValidationError of the code, and returns the messages.
    local function refused(code, calls)
        local messages = {}
        place.with(function(workspace)
            for index = 1, calls.n or #calls do
                local call = calls[index]
                local result, err = workspace:exec(call.argv, call.options)
                assert.is_nil(result)
                assert.is_true(sandbox.is_error(err, "ValidationError"), tostring(err))
                assert.equal(code, err.code)
                messages[index] = err.message
            end
        end)
        return messages
    end

    it("is an argv: a list of strings, the element that is wrong is named and never shown", function()
        local messages = refused("invalid_argv", {
            { argv = nil },
            { argv = "ls" },
            { argv = {} },
            { argv = { "" } },
            { argv = { "ls", 5 } },
            { argv = { "ls", false } },
            { argv = { "ls", nil, "x" } },
            { argv = { "ls", name = "x" } },
            { argv = { "ls", "secret\0" } },
            { argv = { "ls", "-l", ("secret"):rep(30000) } },
        })
        assert.matches("got a nil", messages[1])
        assert.matches("got a string", messages[2])
        assert.matches("argv is empty", messages[3])
        assert.matches("element 1 is empty", messages[4])
        assert.matches("element 2 must be a string, got a number", messages[5])
        assert.matches("element 2 must be a string, got a boolean", messages[6])
        assert.matches("element 2 is missing", messages[7])
        assert.matches("element 2 is missing", messages[8])
        assert.matches("element 2 has a NUL byte", messages[9])
        assert.matches("element 3 has 180000 bytes; at most 131071", messages[10])
        for _, message in ipairs(messages) do
            assert.not_matches("secret", message)
        end
    end)

    it("is a cwd within the workspace", function()
        local calls = {}
        local long = ("a"):rep(4097)
        local outside = { "..", "/", "/etc", "/workspaces", "a/../..", "/workspace/.." }
        for _, cwd in ipairs({ "", "a\0b", long, 5, true, {}, unpack(outside) }) do
            table.insert(calls, { argv = { "true" }, options = { cwd = cwd } })
        end
        refused("invalid_path", calls)
    end)

    it("is a timeout in whole milliseconds; more than the maximum is the maximum", function()
        local calls = {}
        for _, timeout_ms in ipairs({ 0, -1, 0.5, 10.5, 0 / 0, -math.huge, "100", true, {} }) do
            table.insert(calls, { argv = { "true" }, options = { timeout_ms = timeout_ms } })
        end
        refused("invalid_timeout", calls)
        place.with(function(workspace)
            assert.equal(0, assert(workspace:exec({ "true" }, { timeout_ms = 2 ^ 40 })).exit_code)
            assert.equal(0, assert(workspace:exec({ "true" }, { timeout_ms = math.huge })).exit_code)
        end)
    end)

    it("is a stdin that is a string", function()
        local calls = {}
        for _, stdin in ipairs({ 5, true, {}, print }) do
            table.insert(calls, { argv = { "true" }, options = { stdin = stdin } })
        end
        refused("invalid_stdin", calls)
    end)

    it("is an options table without unknown fields, a signal and a function: anything else raises", function()
        place.with(function(workspace)
            for message, options in pairs({
                ['unknown option "tiemout_ms"'] = { tiemout_ms = 5 },
                ['option "signal" must be a signal'] = { signal = { aborted = false } },
                ['option "on_output" must be a function'] = { on_output = "print" },
                ["the options must be a table"] = 5,
            }) do
                local ok, err = pcall(workspace.exec, workspace, { "true" }, options)
                assert.is_false(ok)
                assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"))
                assert.matches(message, err.message)
            end
            local callable = setmetatable({}, { __call = function() end })
            assert(workspace:exec({ "true" }, { on_output = callable }))
        end)
    end)

    it("is not touched, and may change after the call", function()
        place.with(function(workspace)
            local argv, options = { "cat" }, { stdin = "x", timeout_ms = 10 ^ 12 }
            sandbox.run(function()
                local task = sandbox.spawn(function()
                    return workspace:exec(argv, options)
                end)
                coroutine.yield()
                argv[1] = nil
                assert.equal("x", assert(task:join()).stdout)
            end)
            assert.same({ stdin = "x", timeout_ms = 10 ^ 12 }, options)
        end)
    end)
end)
