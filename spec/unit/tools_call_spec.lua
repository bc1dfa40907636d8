-- What CONTRACT says about sandbox.tools.call, sentence by sentence.

local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"

local call = sandbox.tools.call

local MOST = '{"a":"' .. ("x"):rep(1048576 - 8) .. '"}'

local function tool(name, execute)
    return { name = name, description = "words", input_schema = { type = "object" }, execute = execute }
end

-- A tool that gives back its input.
local ECHO = tool("echo", function(input)
    return input
end)

local function assert_error(expected, text, is_error, ...)
    assert.is_true(is_error)
    assert.equal(0, select("#", ...))
    assert.same({ error = expected }, (native.json_decode(text)))
end

local function failed(message)
    return { name = "SandboxError", code = "tool_failed", message = message }
end

local function invalid(code, message)
    return { name = "ValidationError", code = code, message = message }
end

describe("tools.call", function()
    describe("gives the result as JSON text, and no error:", function()
        local results = {
            { { b = 1, a = { "x", true, sandbox.null } }, '{"a":["x",true,null],"b":1}' },
            { "text", '"text"' },
            { 3, "3" },
            { 0.5, "0.5" },
            { true, "true" },
            { false, "false" },
            { sandbox.null, "null" },
            { nil, "null" },
            { {}, "{}" },
            { "\0\255", '"\\u0000\239\191\189"' },
        }
        for _, case in ipairs(results) do
            it(case[2], function()
                local text, is_error = call({ tool("result", function()
                    return case[1]
                end) }, "result", "")
                assert.equal(case[2], text)
                assert.is_false(is_error)
            end)
        end
    end)

    it("calls the tool with the input and the context", function()
        local got
        local context = { run_id = "run" }
        call({ tool("note", function(...)
            got = { n = select("#", ...), ... }
        end) }, "note", '{"a":[1,{"b":null}]}', context)
        assert.same({ n = 2, { a = { 1, { b = sandbox.null } } }, context }, got)
        assert.equal(context, got[2])
    end)

    it("finds tools by their names, under whatever keys they are", function()
        local other = tool("other", function()
            return "other"
        end)
        for _, tools in ipairs({ { ECHO, other }, { echo = ECHO, other = other }, { other = ECHO, echo = other } }) do
            assert.equal('"other"', (call(tools, "other", "")))
            assert.equal("{}", (call(tools, "echo", "")))
        end
    end)

    it("takes a table that can be called as execute", function()
        local execute = setmetatable({}, {
            __call = function(_, input)
                return input.a
            end,
        })
        assert.equal("1", (call({ tool("t", execute) }, "t", { a = 1 })))
    end)

    it("waits for tools that wait, in a task and outside", function()
        local slow = { tool("slow", function()
            sandbox.sleep(1)
            return "done"
        end) }
        assert.equal('"done"', (call(slow, "slow", "")))
        local order = {}
        sandbox.run(function()
            sandbox.spawn(function()
                table.insert(order, (call(slow, "slow", "")))
            end)
            sandbox.spawn(function()
                table.insert(order, "meanwhile")
            end)
        end)
        assert.same({ "meanwhile", '"done"' }, order)
    end)

    describe("takes as input", function()
        local inputs = {
            ["JSON text"] = { ' {"a":1}\n', '{"a":1}' },
            ["a table"] = { { a = 1 }, '{"a":1}' },
            ["empty text: {}"] = { "", "{}" },
            ["white space: {}"] = { " \n", "{}" },
            ["nil: {}"] = { nil, "{}" },
            ["null: {}"] = { sandbox.null, "{}" },
            ["the text null: {}"] = { "null", "{}" },
            ["1 MiB of text"] = { MOST, MOST },
        }
        for what, case in pairs(inputs) do
            it(what, function()
                local text, is_error = call({ ECHO }, "echo", case[1])
                assert.is_false(is_error)
                assert.equal(case[2], text)
            end)
        end
    end)

    it("gives whole numbers as such on every Lua", function()
        local text = call({ ECHO }, "echo", '{"a":1,"b":2.0,"c":1e3,"d":9007199254740991,"e":-0.5}')
        assert.equal('{"a":1,"b":2,"c":1000,"d":9007199254740991,"e":-0.5}', text)
    end)

    describe("answers to input that it can't take", function()
        local json = "the input is not valid JSON: "
        local deep = "the text is nested too deeply"
        local large = "the input has 1048577 bytes, more than the 1048576 that are possible: use several calls"
        local object = "the input must be a JSON object, such as {}"
        local inputs = {
            { '{"a":', invalid("invalid_json", json .. "at byte 6: expected a value, but the text ends") },
            { "{} {}", invalid("invalid_json", json .. "at byte 4: something follows the value") },
            { '{"a":1,"a":2}', invalid("invalid_json", json .. 'an object has the key "a" twice') },
            { '{"a":"\255"}', invalid("invalid_json", json .. "at byte 7: this is not UTF-8") },
            { "\0", invalid("invalid_json", json .. "at byte 1: expected a value") },
            { '{"a":' .. ("["):rep(300), invalid("invalid_json", json .. "at byte 205: " .. deep) },
            { MOST .. " ", invalid("invalid_json", large) },
            { "[]", invalid("invalid_input", object) },
            { ' ["a"]', invalid("invalid_input", object) },
            { "true", invalid("invalid_input", object) },
            { "false", invalid("invalid_input", object) },
            { '"{}"', invalid("invalid_input", object) },
            { 1, invalid("invalid_input", "the input must be a JSON object, got a number") },
            { true, invalid("invalid_input", "the input must be a JSON object, got a boolean") },
            { print, invalid("invalid_input", "the input must be a JSON object, got a function") },
        }
        for index, case in ipairs(inputs) do
            it(("(%d) %s"):format(index, tostring(case[1]):sub(1, 16):gsub("[^ -~]", "?")), function()
                assert_error(case[2], call({ ECHO }, "echo", case[1]))
            end)
        end
    end)

    it("names the tools that there are where the model names another", function()
        local function unknown(message)
            return invalid("unknown_tool", message)
        end
        local tools = { z = ECHO, a = tool("another", print) }
        assert_error(unknown('there is no tool "x"; there are: another, echo'), call(tools, "x", ""))
        assert_error(unknown('there is no tool "' .. ("x"):rep(64) .. '"; there are: another, echo'),
            call(tools, ("x"):rep(1000), ""))
        assert_error(unknown('there is no tool "a?\239\191\189"; there are: another, echo'), call(tools, "a\0\255", ""))
        assert_error(unknown("there is no tool whose name is a nil; there are: another, echo"), call(tools))
        assert_error(unknown("there is no tool whose name is a table; there are: another, echo"), call(tools, {}))
        assert_error(unknown('there is no tool "x"; there are none'), call({}, "x"))
    end)

    describe("gives, as an error,", function()
        local function answer(execute)
            return call({ tool("t", execute) }, "t", "")
        end

        local function returns(...)
            local values = { ... }
            return function()
                return nil, values[1]
            end
        end

        local function raises(value)
            return function()
                error(value, 0)
            end
        end

        it("an error of this library as it is, returned or raised", function()
            local err = errors.sandbox("cap_reached", "no more", { detail = "not shown" })
            local expected = { name = "SandboxError", code = "cap_reached", message = "no more" }
            assert_error(expected, answer(returns(err)))
            assert_error(expected, answer(raises(err)))
        end)

        it("any other value that a tool returns as its error, or raises", function()
            for _, fails in ipairs({ returns, raises }) do
                assert_error(failed("t failed: no luck"), answer(fails("no luck")))
                assert_error(failed("t failed: two lines"), answer(fails("two\nlines")))
                assert_error(failed("t failed: 3"), answer(fails(3)))
                assert_error(failed("t failed: false"), answer(fails(false)))
                assert_error(failed("t failed: a message"), answer(fails({ message = "a message" })))
                assert_error({ name = "FsError", code = "ENOENT", message = "t failed: gone" },
                    answer(fails({ name = "FsError", code = "ENOENT", message = "gone" })))
                assert_error(failed("t failed: in words"), answer(fails(setmetatable({}, {
                    __tostring = function()
                        return "in words"
                    end,
                }))))
                assert_error(failed("t failed: a table"), answer(fails(setmetatable({}, {
                    __tostring = raises("never"),
                    __index = raises("never"),
                }))))
                local _, is_error = answer(fails(("x"):rep(100000) .. "\255\0"))
                assert.is_true(is_error)
            end
            assert_error(failed("t failed: nil"), answer(raises(nil)))
        end)

        it("a mistake in the tool's code, with its place", function()
            local text, is_error = answer(function()
                return ECHO.nothing.field
            end)
            assert.is_true(is_error)
            assert.matches("tool_failed", text)
            assert.matches("tools_call_spec%.lua:%d+: attempt to index", text)
        end)

        it("endless recursion in the tool", function()
            local function deeper()
                return 1 + deeper()
            end
            local text, is_error = answer(deeper)
            assert.is_true(is_error)
            assert.matches("stack overflow", text)
        end)

        it("a result without a JSON form, and where it lies", function()
            local function result(value)
                return answer(function()
                    return value
                end)
            end
            local circle = {}
            circle.again = circle
            local wide = {}
            for _ = 1, 100 do
                wide = { wide, wide }
            end
            local says = "the result of t is no JSON: "
            assert_error(failed(says .. "a function is no value of JSON"), result(print))
            assert_error(failed(says .. "at .a[2].b: a thread is no value of JSON"),
                result({ a = { 1, { b = coroutine.create(print) } } }))
            assert_error(failed(says .. "at .f: a userdata is no value of JSON"), result({ f = io.stdout }))
            assert_error(failed(says .. "at .n: a number is not finite"), result({ n = 0 / 0 }))
            assert_error(failed(says .. "at [2]: a number is not finite"), result({ 1, 1 / 0 }))
            assert_error(failed(says .. "a list has gaps"), result({ 1, nil, 3 }))
            assert_error(failed(says .. "a list has other keys too"), result({ 1, a = 2 }))
            local key = failed(says .. "a key must be a UTF-8 string without NUL")
            assert_error(key, result({ [1.5] = 1 }))
            assert_error(key, result({ ["\255"] = 1 }))
            local text = result(circle)
            assert.matches("at %.again%.again.*: the whole is nested too deeply, or a table holds itself", text)
            text = result(wide)
            assert.matches(": the whole is too large", text)
        end)
    end)

    it("answers to tools that are none, which only the host can mend", function()
        local function wrong(message)
            message = "tools.call: " .. message
            return { name = "InvalidAgentDefinitionError", code = "invalid_option", message = message }
        end
        local long = tool(("x"):rep(65), print)
        local name = "the name of a tool must be 1 to 64 letters, digits, _ and -"
        assert_error(wrong("the tools must be a table, got a nil"), call())
        assert_error(wrong("the tools must be a table, got a string"), call("tools", "echo", ""))
        assert_error(wrong("an entry is no tool but a string"), call({ "echo" }, "echo", ""))
        assert_error(wrong(name), call({ tool("", print) }, "", ""))
        assert_error(wrong(name), call({ tool("a b", print) }, "a b", ""))
        assert_error(wrong(name), call({ long }, long.name, ""))
        assert_error(wrong(name), call({ {} }, "echo", ""))
        assert_error(wrong("execute of echo must be a function, got a nil"), call({ tool("echo") }, "echo", ""))
        assert_error(wrong("the input_schema of echo must be a table, got a nil"),
            call({ { name = "echo" } }, "echo", ""))
        assert_error(wrong("the description of echo must be a string, got a number"),
            call({ { name = "echo", description = 1 } }, "echo", ""))
        assert_error(wrong("two tools have the name echo"), call({ ECHO, tool("echo", print) }, "echo", ""))
        local hostile = setmetatable({}, {
            __index = function()
                error("no", 0)
            end,
        })
        assert_error(failed("the call failed: no"), call({ hostile }, "echo", ""))
    end)
end)
