local host = require "chamvi.sandbox.host"
local sandbox = require "chamvi.sandbox"
local script = require "chamvi.sandbox.host.script"

describe("host.use", function()
    after_each(function()
        host.use(nil)
    end)

    local function adapter(changes)
        local result = {}
        for name, fn in pairs(script) do
            result[name] = fn
        end
        for name, fn in pairs(changes) do
            result[name] = fn or nil
        end
        return result
    end

    local function refusal(value)
        local ok, err = pcall(host.use, value)
        assert.is_false(ok)
        assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"))
        assert.equal("invalid_option", err.code)
        return err.message
    end

    it("takes the name of a host", function()
        host.use("script")
        assert.equal(script, host.current())
        assert.equal(7, sandbox.run(function()
            return 7
        end))
    end)

    it("takes an adapter, whose functions are the library's from then on", function()
        local waits = 0
        local mine = adapter({
            wait = function(future)
                waits = waits + 1
                return script.wait(future)
            end,
            spawn = function(...)
                return "spawned", ...
            end,
        })
        host.use(mine)
        assert.equal(mine, host.current())
        assert.same({ "spawned", 1, 2 }, { sandbox.spawn(1, 2) })
        assert.is_true(sandbox.sleep(0))
        assert.equal(1, waits)
    end)

    it("detects the host again without one", function()
        local detected = host.current()
        host.use(adapter({}))
        assert.not_equal(detected, host.current())
        host.use(nil)
        assert.equal(detected, host.current())
    end)

    it("refuses a name that it does not know, and lists those that it does", function()
        for _, name in ipairs({ "", "Script", "nginx", "init" }) do
            assert.matches("^host%.use: no such host; there are: script, [%a, ]+$", refusal(name))
        end
    end)

    it("refuses an adapter that lacks a function, by its name", function()
        for _, name in ipairs({ "wait", "can_wait", "run", "spawn", "all", "sleep", "async", "loop" }) do
            local message = refusal(adapter({ [name] = false }))
            assert.equal(('host.use: the adapter has no function "%s"'):format(name), message)
        end
        refusal({})
    end)

    it("refuses what is neither, and keeps what was chosen", function()
        host.use("script")
        for _, value in ipairs({ 1, true, print }) do
            assert.matches("^host%.use: a name or an adapter is expected, got a %a+; the names are: script, [%a, ]+$",
                refusal(value))
        end
        assert.equal(script, host.current())
    end)
end)
