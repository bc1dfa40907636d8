-- Faults of the tools that attacks from outside have found, one spec each.

local sandbox = require "chamvi.sandbox"

local call = sandbox.tools.call

local function tool(schema, execute)
    return { { name = "spec", input_schema = schema, execute = execute } }
end

-- What a model gets for what `execute` does.
local function answer(execute)
    return call(tool({ type = "object" }, execute), "spec", "{}")
end

local function strict(schema)
    return sandbox.tools.to_openai(tool(schema, print), { strict = true })[1]["function"].parameters
end

local function complaint(schema)
    local ok, err = pcall(strict, schema)
    assert.is_false(ok)
    assert.equal("invalid_option", err.code)
    return (err.message:gsub("^to_openai: spec: ", ""))
end

describe("tools.call", function()
    it("never raises, whatever the metatable of an error does when it is compared", function()
        local function raise()
            error("compared", 0)
        end
        local err = setmetatable({ message = "told" }, { __metatable = setmetatable({}, { __eq = raise }) })
        local expected = '{"error":{"code":"tool_failed","message":"spec failed: told","name":"SandboxError"}}'
        local text, is_error = answer(function()
            error(err)
        end)
        assert.same({ expected, true }, { text, is_error })
        text, is_error = answer(function()
            return nil, err
        end)
        assert.same({ expected, true }, { text, is_error })
        assert.is_false(sandbox.is_error(err))
    end)

    it("gives a text for an error with fields of any size", function()
        local huge = ("x"):rep(70 * 1024 * 1024)
        local text, is_error = answer(function()
            return nil, { name = huge, code = huge, message = huge }
        end)
        assert.is_true(is_error)
        assert.is_string(text)
        assert.is_true(#text < 16384)
    end)

    it("gives a message also for an error that has lost its own", function()
        local text, is_error = answer(function()
            local _, err = sandbox.check_git_ref("-x")
            err.message = nil
            return nil, err
        end)
        assert.is_true(is_error)
        assert.equal('{"error":{"code":"invalid_ref","message":"spec failed: a table","name":"ValidationError"}}', text)
    end)

    it("writes whole numbers without a point", function()
        for number, expected in pairs({
            [2 ^ 53] = "9007199254740992",
            [2 ^ 60] = "1152921504606846976",
            [-2 ^ 63] = "-9223372036854775808",
            [1e20] = "100000000000000000000",
        }) do
            local text = answer(function()
                return number
            end)
            assert.equal(expected, text)
        end
    end)
end)

describe("to_openai", function()
    it("lets a field with a type and an anyOf be null", function()
        local parameters = strict({
            type = "object",
            properties = { field = { type = "string", anyOf = { { minLength = 1 } } } },
        })
        assert.same({
            anyOf = { { type = "string", anyOf = { { minLength = 1 } } }, { type = "null" } },
        }, parameters.properties.field)
    end)

    it("adds no second null to an anyOf", function()
        local choices = { { type = "string" }, { type = "null" } }
        local parameters = strict({ type = "object", properties = { field = { anyOf = choices } } })
        assert.same({ anyOf = choices }, parameters.properties.field)
    end)

    it("refuses keywords that strict mode does not have", function()
        for _, keyword in ipairs({ "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas" }) do
            local schema = { type = "object", properties = { field = { type = "object", [keyword] = {} } } }
            local expected = "the object.field of its input_schema has the keyword %s, which strict mode can't say"
            assert.equal(expected:format(keyword), complaint(schema))
        end
    end)

    it("says what is wrong with a schema, without a place in the library", function()
        assert.equal(
            "the object of its input_schema: properties must be a table, got a string",
            complaint({ type = "object", properties = "field" })
        )
        assert.equal(
            "the object of its input_schema: required must be a table, got a string",
            complaint({ type = "object", required = "field" })
        )
        assert.equal(
            "the object of its input_schema has a field whose name is a boolean",
            complaint({ type = "object", properties = { [true] = { type = "string" } } })
        )
    end)
end)
