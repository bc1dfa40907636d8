local sandbox = require "chamvi.sandbox"
local create_local_sandbox = require("chamvi.sandbox.local").create_local_sandbox

-- What a wrong options table raises.
local function failure(given)
    local ok, err = pcall(create_local_sandbox, given)
    assert.is_false(ok)
    assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), tostring(err))
    assert.matches("options_spec%.lua:%d+$", err.where)
    return err
end

describe("an options table", function()
    it("may be left out or be empty", function()
        assert.equal("local", create_local_sandbox().name)
        assert.equal("local", create_local_sandbox({}).name)
    end)

    it("must be a table", function()
        assert.equal("create_local_sandbox: the options must be a table, got a string", failure("x").message)
    end)

    it("has no unknown fields", function()
        local err = failure({ rooot = "/tmp" })
        assert.equal("unknown_option", err.code)
        assert.equal('create_local_sandbox: unknown option "rooot"', err.message)
        assert.matches('option "limits" has the unknown field "cpu"', failure({ limits = { cpu = "1" } }).message)
        assert.matches('unknown option "1"', failure({ "/tmp" }).message)
    end)

    it("has fields of the right type and range, each named", function()
        assert.equal("invalid_option", failure({ root = 1 }).code)
        assert.matches('option "root" must be an absolute path, got a number', failure({ root = 1 }).message)
        assert.matches('option "root" must be an absolute path', failure({ root = "relative" }).message)
        assert.matches('option "root" must be an absolute path', failure({ root = "/a\0b" }).message)
        assert.matches('option "clock" must be a table with a function `now`', failure({ clock = { now = 1 } }).message)
        assert.matches('option "limits" must be a table', failure({ limits = 5 }).message)
        for _, wrong in ipairs({ 0, -1, 1.5, 0 / 0, math.huge, "1" }) do
            local err = failure({ limits = { timeout_ms = wrong } })
            assert.matches('"timeout_ms": it must be a whole number', err.message)
        end
    end)

    it("names the environment variable that is wrong, never its value", function()
        local secret = "s3cret"
        local err = failure({ env = { TOKEN = secret .. "\0" } })
        assert.matches('option "env" has a value with a NUL byte: TOKEN', err.message)
        assert.not_matches(secret, err.message)
        assert.matches("a value that is no string but a number: N", failure({ env = { N = 1 } }).message)
        assert.matches("a key that is no string but a number", failure({ env = { "A=" .. secret } }).message)
        for _, name in ipairs({ "", "1A", "A=B", "A B", "A\0" }) do
            assert.matches("a name that is not made of letters", failure({ env = { [name] = "x" } }).message)
        end
    end)

    it("of create must name a run", function()
        local provider = create_local_sandbox()
        for _, given in ipairs({ {}, { run_id = "" }, { run_id = 5 }, { run_id = "r", signal = {} } }) do
            local ok, err = pcall(provider.create, provider, given)
            assert.is_false(ok)
            assert.equal("invalid_option", err.code)
        end
    end)
end)
