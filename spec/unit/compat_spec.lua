local scratch = require "spec.support.scratch"

local LUA = jit and "luajit" or "lua5.4"

describe("the library", function()
    it("refuses a Lua that it does not work with", function()
        for _, name in ipairs({ "chamvi.sandbox", "chamvi.sandbox.local" }) do
            local output = scratch.shell(([[%s -e 'jit = nil
                _VERSION = "Lua 5.1"
                local ok, message = pcall(require, "%s")
                print(ok, message:match("[^\n]*$"))']]):format(LUA, name))
            assert.matches("^false\t", output)
            assert.is_truthy(output:find("chamvi.sandbox needs Lua 5.4 or LuaJIT; this is Lua 5.1\n", 1, true), output)
        end
    end)
end)
