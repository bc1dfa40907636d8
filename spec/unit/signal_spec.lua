local sandbox = require "chamvi.sandbox"
local written_to_stderr = require "spec.support.stderr"

describe("a signal", function()
    it("is aborted once, with the first reason", function()
        local signal, calls = sandbox.signal(), {}
        signal:on_abort(function(reason)
            table.insert(calls, reason)
        end)
        assert.is_false(signal.aborted)
        signal:abort("first")
        signal:abort("second")
        assert.is_true(signal.aborted)
        assert.equal("first", signal.reason)
        assert.same({ "first" }, calls)
    end)

    it("tells a listener that comes late at once", function()
        local signal, seen = sandbox.signal(), nil
        signal:abort("reason")
        signal:on_abort(function(reason)
            seen = reason
        end)
        assert.equal("reason", seen)
    end)

    it("forgets a removed listener, and only that one", function()
        local signal, count = sandbox.signal(), 0
        local function listener()
            count = count + 1
        end
        signal:on_abort(listener)
        local remove = signal:on_abort(listener)
        remove()
        remove()
        signal:abort()
        remove()
        assert.equal(1, count)
    end)

    it("calls no listener that an earlier one has removed", function()
        local signal, called, remove = sandbox.signal(), false, nil
        signal:on_abort(function()
            remove()
        end)
        remove = signal:on_abort(function()
            called = true
        end)
        signal:abort()
        assert.is_false(called)
    end)

    it("refuses what is no listener, and takes what can be called", function()
        local signal, seen = sandbox.signal(), {}
        for _ = 1, 2 do
            for index = 1, 4 do
                local wrong = ({ nil, 5, "x", {} })[index]
                assert.error_matches(function()
                    signal:on_abort(wrong)
                end, "bad argument #1 to 'on_abort' %(function expected, got " .. type(wrong))
            end
            signal:on_abort(setmetatable({}, {
                __call = function(_, reason)
                    table.insert(seen, reason)
                end,
            }))
            signal:abort("reason")
        end
        assert.same({ "reason", "reason" }, seen)
        assert.error_matches(function()
            signal.on_abort({}, print)
        end, "bad argument #1 to 'on_abort' %(signal expected, got table")
    end)

    it("calls every listener, also after one that raises or yields, and never yields itself", function()
        local signal, reached = sandbox.signal(), false
        signal:on_abort(function()
            error("broken")
        end)
        signal:on_abort(function()
            coroutine.yield()
        end)
        signal:on_abort(function()
            reached = true
        end)
        local thread = coroutine.create(function()
            signal:abort()
        end)
        local ok
        local written = written_to_stderr(function()
            ok = coroutine.resume(thread)
        end)
        assert.is_true(ok)
        assert.equal("dead", coroutine.status(thread))
        assert.is_true(reached)
        assert.equal(2, #written)
        assert.matches("broken$", written[1])
        assert.matches("must not yield$", written[2])
    end)
end)
