local at_most = require "chamvi.sandbox.at_most"
local sandbox = require "chamvi.sandbox"

describe("a bounded wait", function()
    it("gives what the function returns", function()
        assert.same({ true, 1, nil, 3 }, { at_most(1000, function()
            return 1, nil, 3
        end) })
        assert.same({ true, "late" }, { at_most(60000, function()
            sandbox.sleep(5)
            return "late"
        end) })
    end)

    it("gives what the function raises", function()
        assert.same({ false, "at once" }, { at_most(1000, function()
            error("at once", 0)
        end) })
        assert.same({ false, "later" }, { at_most(60000, function()
            sandbox.sleep(5)
            error("later", 0)
        end) })
    end)

    it("ends, tells the function so and leaves it to itself", function()
        local signal, ended
        assert.is_nil((at_most(20, function(given)
            signal = given
            assert.is_false(given.aborted)
            while not given.aborted do
                sandbox.sleep(1)
            end
            ended = true
        end)))
        assert.is_true(signal.aborted)
        sandbox.sleep(10)
        assert.is_true(ended)
    end)
end)
