-- What every provider must pass: the promises of workspaces and of managers, each with at least one spec that names
-- it (conformance/promises.lua has the list).
--
-- A target says how to get at a provider and what a spec may do to it from outside:
--
--   name                 of the provider
--   provider(options)    a provider; options: `clock`, `limits`, `env`
--   repository           { url, first, main, topic }, as scratch.repository makes it, at an URL that a workspace of the
--                        provider can fetch from
--   lose(workspace)      takes the folder, container or pod away, as somebody outside might
--   left()               a list of names: the workspaces that the provider still has anything of
--   more_than_buffers    optional: so many bytes of output do not fit between a command and its reader (10,000,000)
--   running(word)        whether a process runs that was started with the word among its arguments
--   dies_later           optional: when dispose returns what ran has got its SIGKILL, but may not be dead yet
--
-- To be called in a spec file, with busted's own functions, since a required file does not see them:
--
--   conformance({ describe = describe, it = it, after_each = after_each }, target)

local assert = require "luassert"
local promises = require "spec.support.conformance.promises"
local sandbox = require "chamvi.sandbox"
local with_workspace = require "spec.support.with_workspace"

local PARTS = { "lifecycle", "exec", "output", "files", "managed" }

-- What the parts are given: the target, and the means that they share.
local function new_kit(busted, target)
    local kit = { target = target, describe = busted.describe, proven = {} }

    --- A spec that proves a promise; `case` tells several of one promise apart.
    function kit.proves(id, case, prove)
        local promise = promises[id]
        if not promise then
            error("no such promise: " .. id, 2)
        end
        kit.proven[id] = true
        busted.it(case and promise .. ": " .. case or promise, prove)
    end

    --- Calls `use(workspace)` with a new workspace, and disposes it however that ends.
    function kit.with(use, request, options)
        with_workspace(target.provider(options), use, request)
    end

    --- The argv of a shell script.
    function kit.sh(script, ...)
        return { "sh", "-c", script, "sh", ... }
    end

    --- Asserts that a call has returned nil and an error of that name and code; gives the error.
    function kit.fails(name, code, value, err)
        assert.is_nil(value)
        assert.is_true(sandbox.is_error(err, name), tostring(err))
        assert.equal(code, err.code)
        assert.is_nil(err.message:find("[\r\n]"))
        return err
    end

    --- Waits for at most 60 s until `condition()` is true.
    function kit.wait_until(condition, what)
        for _ = 1, 3000 do
            if condition() then
                return
            end
            assert(sandbox.sleep(20))
        end
        error("not within 60 s: " .. what, 2)
    end

    return kit
end

return function(busted, target)
    local kit = new_kit(busted, target)
    busted.describe("a provider as all must be, " .. target.name .. ":", function()
        busted.after_each(function()
            assert.same({}, target.left())
        end)

        for _, part in ipairs(PARTS) do
            require("spec.support.conformance." .. part)(kit)
        end

        busted.it("every promise has its spec", function()
            for id in pairs(promises) do
                assert.is_true(kit.proven[id], id)
            end
        end)
    end)
end
