local assert = require "luassert"
local sandbox = require "chamvi.sandbox"

--- For errors of that name, a function that asserts that a call has returned nil and such an error, of that code and in
--- one line, and returns the error: `fails("gone", workspace:exec({ "true" }))`.
---@param name string "SandboxError"
---@return fun(code: string, value: any, err: any): chamvi.Error
return function(name)
    return function(code, value, err)
        assert.is_nil(value)
        assert.is_true(sandbox.is_error(err, name), tostring(err))
        assert.equal(code, err.code, err.message)
        assert.is_nil(err.message:find("[\r\n]"))
        return err
    end
end
