local errors = require "chamvi.sandbox.errors"
local sandbox = require "chamvi.sandbox"

describe("errors", function()
    it("read as name and message, alone and in a concatenation", function()
        local err = errors.sandbox("gone", "it is gone")
        assert.equal("SandboxError: it is gone", tostring(err))
        assert.equal("so SandboxError: it is gone.", "so " .. err .. ".")
        assert.equal("gone", err.code)
    end)

    it("have a message of one line", function()
        assert.equal("a b c", errors.sandbox("gone", "a\n  b\r\nc").message)
    end)

    it("keep a bounded detail and never half a character", function()
        local detail = errors.sandbox("gone", "x", { detail = ("a"):rep(4095) .. "\195\164" }).detail
        assert.equal(("a"):rep(4095), detail)
        assert.equal(4096, #errors.sandbox("gone", "x", { detail = ("a"):rep(5000) }).detail)
    end)

    it("are told apart from everything else, by name too", function()
        local err = errors.validation("invalid_ref", "no")
        assert.is_true(sandbox.is_error(err))
        assert.is_true(sandbox.is_error(err, "ValidationError"))
        assert.is_false(sandbox.is_error(err, "SandboxError"))
        assert.is_false(sandbox.is_error({ name = "ValidationError" }, "ValidationError"))
        assert.is_false(sandbox.is_error("ValidationError"))
        assert.is_false(sandbox.is_error(nil))
    end)

    it("of the configuration say where the caller is", function()
        local _, err = pcall(errors.raise_definition, "invalid_option", "no")
        assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"))
        assert.matches("errors_spec%.lua:%d+$", err.where)
    end)
end)

describe("the public constants", function()
    it("are copies: changing one changes no behaviour", function()
        local constants = require "chamvi.sandbox.constants"
        assert.equal(65536, sandbox.OUTPUT_MAX_BYTES)
        assert.same(constants.SANDBOX_ENV, sandbox.SANDBOX_ENV)
        assert.not_equal(constants.SANDBOX_ENV, sandbox.SANDBOX_ENV)
        assert.equal("app.kubernetes.io/managed-by=chamvi", sandbox.SANDBOX_LABEL_SELECTORS[1])
    end)
end)
