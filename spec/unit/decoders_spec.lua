-- The decoders of what an engine streams. What they make of every cut: spec/c and spec/fuzz.

local core = require "chamvi.sandbox.core"

describe("the decoders", function()
    it("refuse what is no multiplexed stream", function()
        local decoder = core.docker_stream()
        assert.same({}, decoder:feed("\1\0\0\0\0\0\0"))
        assert.is_false(decoder:whole())
        assert.same({ "stdout", "a" }, decoder:feed("\1a"))
        local value, code = decoder:feed("HTTP/1.1 500")
        assert.is_nil(value)
        assert.equal("transport_lost", code)
    end)

    it("refuse a line that is too long", function()
        local splitter = core.ndjson(4)
        assert.same({ "abcd" }, splitter:feed("abcd\nabc"))
        assert.equal("abc", splitter:finish())
        local value, code = core.ndjson(4):feed("abcde\n")
        assert.is_nil(value)
        assert.equal("transport_lost", code)
    end)
end)
