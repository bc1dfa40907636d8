-- What CONTRACT says about sandbox.tools.to_openai and to_anthropic, and what those APIs take.

local native = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"
local workspace_tools = require "chamvi.sandbox.workspace_tools"

local to_openai, to_anthropic = sandbox.tools.to_openai, sandbox.tools.to_anthropic

local function tool(name, input_schema, description)
    return { name = name, description = description, input_schema = input_schema, execute = print }
end

local SCHEMA = {
    type = "object",
    properties = { a = { type = "string", description = "words" }, b = { type = "integer" } },
    required = { "b" },
    additionalProperties = false,
}

local STRICT = {
    type = "object",
    properties = { a = { type = { "string", "null" }, description = "words" }, b = { type = "integer" } },
    required = { "a", "b" },
    additionalProperties = false,
}

local function assert_raises(message, fn, ...)
    local ok, err = pcall(fn, ...)
    assert.is_false(ok)
    assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), tostring(err))
    assert.equal("invalid_option", err.code)
    assert.equal(message, err.message)
    assert.matches("tools_api_spec%.lua:%d+$", err.where)
end

-- The strict form of a schema.
local function strict(schema)
    return to_openai({ tool("t", schema) }, { api = "responses", strict = true })[1].parameters
end

describe("to_openai", function()
    it("gives by default what chat completions take", function()
        assert.same({
            { type = "function", ["function"] = { name = "t", description = "words", parameters = SCHEMA } },
        }, to_openai({ t = tool("t", SCHEMA, "words") }))
        assert.same(to_openai({ tool("t", SCHEMA) }),
            to_openai({ tool("t", SCHEMA) }, { api = "chat", strict = false }))
    end)

    it("gives what chat completions take in strict mode", function()
        assert.same({
            { type = "function", ["function"] = { name = "t", parameters = STRICT, strict = true } },
        }, to_openai({ t = tool("t", SCHEMA) }, { strict = true }))
    end)

    -- That API takes a missing `strict` as true, and would refuse optional fields then.
    it("gives what responses take, which always says whether it is strict", function()
        assert.same({
            { type = "function", name = "t", description = "words", parameters = SCHEMA, strict = false },
        }, to_openai({ t = tool("t", SCHEMA, "words") }, { api = "responses" }))
        assert.same({
            { type = "function", name = "t", description = "words", parameters = STRICT, strict = true },
        }, to_openai({ t = tool("t", SCHEMA, "words") }, { api = "responses", strict = true }))
    end)

    it("raises for other options", function()
        assert_raises('to_openai: option "api" must be "chat" or "responses"', to_openai, {}, { api = "completions" })
        assert_raises('to_openai: option "api" must be "chat" or "responses"', to_openai, {}, { api = 1 })
        assert_raises('to_openai: option "strict" must be a boolean, got a string', to_openai, {}, { strict = "yes" })
        assert_raises("to_openai: the options must be a table, got a string", to_openai, {}, "responses")
        local _, err = pcall(to_openai, {}, { apis = "chat" })
        assert.equal("unknown_option", err.code)
    end)

    describe("in strict mode", function()
        it("requires every field and lets the optional ones be null", function()
            local integer, null = { type = "integer" }, { type = "null" }
            assert.same({
                type = "object",
                properties = {
                    list = { type = { "string", "integer", "null" } },
                    null_already = { type = { "string", "null" } },
                    enumeration = { anyOf = { { type = "string", enum = { "x" } }, null } },
                    constant = { anyOf = { { const = 1 }, null } },
                    anything = { anyOf = { { description = "any" }, null } },
                    either = { anyOf = { integer, { type = "string" }, null } },
                    needed = { type = "string", enum = { "x" } },
                },
                required = { "anything", "constant", "either", "enumeration", "list", "needed", "null_already" },
                additionalProperties = false,
            }, strict({
                type = "object",
                properties = {
                    list = { type = { "string", "integer" } },
                    null_already = { type = { "string", "null" } },
                    enumeration = { type = "string", enum = { "x" } },
                    constant = { const = 1 },
                    anything = { description = "any" },
                    either = { anyOf = { integer, { type = "string" } } },
                    needed = { type = "string", enum = { "x" } },
                },
                required = { "needed" },
            }))
        end)

        it("does so in objects inside of objects, lists, choices and definitions", function()
            local open = { type = "object", properties = { a = { type = "string" } } }
            local closed = {
                type = "object",
                properties = { a = { type = { "string", "null" } } },
                required = { "a" },
                additionalProperties = false,
            }
            local names = { "choice", "list", "object", "reference", "tuple" }
            assert.same({
                type = "object",
                properties = {
                    object = closed,
                    list = { type = "array", items = closed },
                    tuple = { type = "array", prefixItems = { closed } },
                    choice = { anyOf = { closed, { type = "string" } } },
                    reference = { ["$ref"] = "#/$defs/one" },
                },
                required = names,
                additionalProperties = false,
                ["$defs"] = { one = closed },
            }, strict({
                type = "object",
                properties = {
                    object = open,
                    list = { type = "array", items = open },
                    tuple = { type = "array", prefixItems = { open } },
                    choice = { anyOf = { open, { type = "string" } } },
                    reference = { ["$ref"] = "#/$defs/one" },
                },
                required = names,
                ["$defs"] = { one = open },
            }))
        end)

        it("closes an object without fields and requires nothing, not even an empty list", function()
            assert.same({ type = "object", additionalProperties = false }, strict({ type = "object" }))
            assert.same({ type = "object", properties = {}, additionalProperties = false },
                strict({ type = "object", properties = {}, required = {} }))
        end)

        it("raises where the schema says what it can't", function()
            local function wrong(schema, where)
                assert_raises(("to_openai: t: %s of its input_schema allows fields of any name, "
                    .. "which strict mode can't say"):format(where), strict, schema)
            end
            wrong({ type = "object", additionalProperties = true }, "the object")
            wrong({ type = "object", patternProperties = { x = {} } }, "the object")
            local map = { type = "object", additionalProperties = { type = "string" } }
            wrong({ type = "object", properties = { env = map } }, "the object.env")
            wrong({ type = "object", properties = { list = { type = "array", items = map } } }, "the object.list[]")
            assert_raises("to_openai: t: the object.any of its input_schema must be a table", strict,
                { type = "object", properties = { any = true } })
            -- Without strict it stays as it is.
            assert.same(map, to_openai({ tool("t", map) })[1]["function"].parameters)
        end)
    end)
end)

describe("to_anthropic", function()
    it("gives what the messages API takes", function()
        assert.same({ { name = "t", description = "words", input_schema = SCHEMA } },
            to_anthropic({ t = tool("t", SCHEMA, "words") }))
        assert.same({ { name = "t", input_schema = SCHEMA } }, to_anthropic({ tool("t", SCHEMA) }))
    end)
end)

describe("both", function()
    local function both(fn)
        fn("to_openai", to_openai)
        fn("to_anthropic", to_anthropic)
    end

    it("order the tools by name, the host's own among them", function()
        local tools = { zoo = tool("a", SCHEMA), tool("z", SCHEMA), tool("b-1", SCHEMA), tool("B_2", SCHEMA) }
        for name, own in pairs(workspace_tools({})) do
            tools[name] = own
        end
        local names = { "B_2", "a", "b-1", "create_workspace", "dispose_workspace", "z" }
        for index, name in ipairs(names) do
            assert.equal(name, to_openai(tools)[index]["function"].name)
            assert.equal(name, to_openai(tools, { api = "responses" })[index].name)
            assert.equal(name, to_anthropic(tools)[index].name)
        end
        assert.equal(#names, #to_anthropic(tools))
    end)

    it("give the same text every time", function()
        local first = native.json_encode(to_openai(workspace_tools({}), { strict = true }))
        assert.equal(first, (native.json_encode(to_openai(workspace_tools({}), { strict = true }))))
    end)

    it("give lists that are empty where there are no tools", function()
        assert.same({}, to_openai({}))
        assert.same({}, to_anthropic({}))
    end)

    it("give copies, and leave the tools as they are", function()
        local given = tool("t", SCHEMA)
        local before = native.json_encode(SCHEMA)
        both(function(_, convert)
            local schema = native.json_encode(convert({ given }))
            local changed = convert({ given }, convert == to_openai and { strict = true } or nil)[1]
            changed = changed.input_schema or changed["function"].parameters
            changed.properties.a.type, changed.required[1] = "x", "x"
            assert.equal(schema, (native.json_encode(convert({ given }))))
        end)
        assert.equal(before, (native.json_encode(SCHEMA)))
    end)

    -- An encoder may need it to tell an empty list from an empty object.
    it("keep the metatables in a schema", function()
        local mark = {}
        local schema = { type = "object", properties = setmetatable({}, mark) }
        assert.equal(mark, getmetatable(to_openai({ tool("t", schema) })[1]["function"].parameters.properties))
        assert.equal(mark, getmetatable(to_anthropic({ tool("t", schema) })[1].input_schema.properties))
        assert.equal(mark, getmetatable(strict(schema).properties))
    end)

    it("raise for what is no tool", function()
        both(function(name, convert)
            local function wrong(message, tools)
                assert_raises(name .. ": " .. message, convert, tools)
            end
            wrong("the tools must be a table, got a nil", nil)
            wrong("an entry is no tool but a number", { 1 })
            wrong("the name of a tool must be 1 to 64 letters, digits, _ and -", { tool("a.b", SCHEMA) })
            wrong("the input_schema of t must be a table, got a string", { tool("t", "schema") })
            wrong("the description of t must be a string, got a table", { tool("t", SCHEMA, {}) })
            wrong("execute of t must be a function, got a nil", { { name = "t", input_schema = SCHEMA } })
            wrong("two tools have the name t", { tool("t", SCHEMA), tool("t", SCHEMA) })
            local circle = { type = "object" }
            circle.properties = { a = circle }
            wrong("t: its input_schema is nested too deeply, or a table in it holds itself", { tool("t", circle) })
        end)
    end)

    it("need no description and take a name of 64 characters", function()
        both(function(_, convert)
            assert.equal(1, #convert({ tool(("x"):rep(64), SCHEMA) }))
        end)
    end)
end)
