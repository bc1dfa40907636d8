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

    it("reads no global that is not there, and sets none", function()
        local folder = scratch.folder()
        scratch.write(folder .. "/program.lua", ([[
            setmetatable(_G, {
                __index = function(_, name) error("reads " .. name, 2) end,
                __newindex = function(_, name) error("sets " .. name, 2) end,
            })
            local sandbox = require "chamvi.sandbox"
            require "chamvi.sandbox.docker"
            require "chamvi.sandbox.k8s"
            local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = %q })
            local manager = sandbox.create_workspace_manager({ provider = provider })
            print(sandbox.spawn(error, "failed", 0):join())
            sandbox.run(function()
                local ws = assert(manager:acquire("run"))
                print(assert(ws:exec({ "echo", "x" })).stdout)
            end)
            manager:close()
        ]]):format(folder .. "/root"))
        assert.equal("nil\tfailed\nx\n\n", scratch.shell(("%s %s/program.lua"):format(LUA, folder)))
        scratch.remove(folder)
    end)
end)
