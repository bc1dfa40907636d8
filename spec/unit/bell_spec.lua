-- The bell of a core, as Lua sees it. What it rings is in spec/c/bell_test.c and spec/hosts/nginx_spec.lua.

local leaks = require "spec.support.leaks"
local native = require "chamvi.sandbox.core"
local scratch = require "spec.support.scratch"

describe("the bell of a core", function()
    leaks.watch(before_each, after_each)

    local core, folder

    setup(function()
        folder = scratch.folder()
    end)

    teardown(function()
        scratch.remove(folder)
    end)

    local function with_core(test)
        return function()
            core = assert(native.open())
            test()
            core:close()
        end
    end

    it("has a path that names a descriptor, and no file", with_core(function()
        assert.matches("^/proc/self/fd/%d+$", core:bell(folder))
        assert.same({}, scratch.list(folder))
    end))

    it("is opened anew by each call", with_core(function()
        for _ = 1, 100 do
            assert(core:bell(folder))
        end
        core:bell_close()
        core:bell_close()
    end))

    it("needs a folder that can be written", with_core(function()
        local path, code, message = core:bell(folder .. "/none")
        assert.is_nil(path)
        assert.equal("create_failed", code)
        local expected = "can't wake the host's loop: a socket in the folder for temporary files: No such file"
        assert.matches(expected, message, 1, true)
        assert.has_error(function()
            core:bell()
        end)
    end))

    it("answers only a connection", with_core(function()
        local answered, code, message = core:bell_answer()
        assert.is_nil(answered)
        assert.equal("create_failed", code)
        assert.matches("nobody of this process has connected", message, 1, true)
        assert(core:bell(folder))
        assert.is_nil((core:bell_answer()))
    end))

    it("is closed with its core", with_core(function()
        assert(core:bell(folder))
        core:close()
        for _, name in ipairs({ "bell", "bell_answer", "bell_close" }) do
            assert.error_matches(function()
                core[name](core, folder)
            end, "the core is closed")
        end
    end))
end)
