local sandbox = require "chamvi.sandbox"

local REPLACEMENT = "\239\191\189" -- U+FFFD

-- The text and whether it is whole after some chunks.
local function collect(max_bytes, ...)
    local collector = sandbox.create_output_collector(max_bytes)
    for index = 1, select("#", ...) do
        assert.equal(0, select("#", collector:write((select(index, ...)))))
    end
    return collector:text(), collector.truncated
end

describe("an output collector", function()
    it("keeps what fits", function()
        assert.same({ "", false }, { collect(10) })
        assert.same({ "abcdef", false }, { collect(6, "abc", "", "def") })
        assert.same({ "abc\0d", false }, { collect(6, "abc", "\0d") })
        assert.same({ "abcdef", true }, { collect(6, "abc", "defg") })
        assert.same({ "", true }, { collect(0, "a") })
        assert.same({ "", false }, { collect(0, "") })
    end)

    it("keeps nothing behind the first character that was dropped", function()
        assert.same({ "a", true }, { collect(3, "a\226\130\172", "b") })
        assert.same({ "ab", true }, { collect(2, "ab", "c", "d") })
    end)

    it("joins a character that was split, at every place", function()
        local text = "a\195\164\226\130\172\240\159\152\128z"
        for first = 0, #text do
            for second = first, #text do
                local middle = text:sub(first + 1, second)
                local got, truncated = collect(100, text:sub(1, first), middle, text:sub(second + 1))
                assert.equal(text, got)
                assert.is_false(truncated)
            end
        end
    end)

    it("replaces invalid input, one U+FFFD for each maximal subpart", function()
        assert.equal("a" .. REPLACEMENT .. "b", (collect(100, "a\255b")))
        assert.equal(REPLACEMENT:rep(2), (collect(100, "\192\128")))
        assert.equal(REPLACEMENT .. "x", (collect(100, "\226\130", "x")))
        assert.equal(REPLACEMENT:rep(3), (collect(100, "\237\160\128")))
    end)

    it("shows an unfinished tail as one U+FFFD and goes on after that", function()
        local collector = sandbox.create_output_collector(4)
        collector:write("a\226\130")
        assert.equal("a" .. REPLACEMENT, collector:text())
        assert.equal("a" .. REPLACEMENT, collector:text())
        assert.is_false(collector.truncated)
        collector:write("\172")
        assert.equal("a\226\130\172", collector:text())
        assert.is_false(collector.truncated)
    end)

    it("is truncated as long as its text lacks something", function()
        local collector = sandbox.create_output_collector(2)
        collector:write("\195") -- U+FFFD has three bytes
        assert.equal("", collector:text())
        assert.is_true(collector.truncated)
        collector:write("\164")
        assert.equal("\195\164", collector:text())
        assert.is_false(collector.truncated)
        collector:write("x")
        assert.is_true(collector.truncated)
    end)

    it("needs no more memory than its cap", function()
        local collector = sandbox.create_output_collector(1000)
        local chunk = ("x"):rep(100000)
        for _ = 1, 1000 do
            collector:write(chunk)
        end
        assert.equal(("x"):rep(1000), collector:text())
        assert.is_true(collector.truncated)
    end)

    it("has no other field, and none can be set", function()
        local collector = sandbox.create_output_collector(1)
        assert.is_nil(collector.size)
        assert.is_nil(collector[1])
        assert.has_error(function()
            collector.truncated = false
        end)
    end)

    it("raises for arguments of a wrong type", function()
        for _, max_bytes in ipairs({ "x", true, {}, -1, 1.5, 0 / 0, math.huge }) do
            local ok, err = pcall(sandbox.create_output_collector, max_bytes)
            assert.is_false(ok)
            assert.matches("bad argument #1 to ", err)
        end
        assert.has_error(function()
            sandbox.create_output_collector()
        end)
        local collector = sandbox.create_output_collector(10)
        for _, chunk in ipairs({ true, {}, print }) do
            assert.has_error(function()
                collector:write(chunk)
            end)
        end
        assert.has_error(function()
            collector.write(io.stdout, "x")
        end)
        assert.equal("", collector:text())
    end)

    it("may be collected twice", function()
        local collector = sandbox.create_output_collector(10)
        collector:write("abc")
        local collect_garbage = debug.getmetatable(collector).__gc
        collect_garbage(collector)
        assert.equal("", collector:text())
        collect_garbage(collector)
    end)
end)
