local filters = require "chamvi.sandbox.remote.filter"

local RS = "\30"

describe("the filter of reports", function()
    -- Feeds the chunks, and gives all that came out in its order: bytes as they are, reports in brackets.
    local function filtered(chunks)
        local out = {}
        local filter = filters.new("mabc", function(bytes)
            assert.is_true(#bytes > 0)
            table.insert(out, bytes)
        end, function(text)
            table.insert(out, "[" .. text .. "]")
        end)
        for _, chunk in ipairs(chunks) do
            filter:write(chunk)
        end
        filter:finish()
        return table.concat(out)
    end

    local function split(text, bytes)
        local chunks = {}
        for from = 1, #text, bytes do
            table.insert(chunks, text:sub(from, from + bytes - 1))
        end
        return chunks
    end

    local cases = {
        { "", "" },
        { "text", "text" },
        { RS .. "mabc end" .. RS, "[end]" },
        { "a" .. RS .. "mabc one" .. RS .. "b" .. RS .. "mabc two\nlines" .. RS .. "c", "a[one]b[two\nlines]c" },
        { RS .. RS .. "mabc x" .. RS .. RS, RS .. "[x]" .. RS },
        { RS .. "mabd x" .. RS, RS .. "mabd x" .. RS },
        { RS .. "mab" .. RS .. "mabc x" .. RS .. RS .. "mabc", RS .. "mab[x]" .. RS .. "mabc" },
        { "a" .. RS .. "mabc half", "a" },
        { "\0\255" .. RS .. "mabc \0" .. RS, "\0\255[\0]" },
        { RS .. "mabc " .. RS, "[]" },
    }

    it("takes reports out, however the stream is cut", function()
        for index, case in ipairs(cases) do
            for bytes = 1, #case[1] + 1 do
                assert.equal(case[2], filtered(split(case[1], bytes)), index .. " by " .. bytes)
            end
        end
    end)

    it("hands on at once what can't begin a report", function()
        local out = {}
        local filter = filters.new("mabc", function(bytes)
            table.insert(out, bytes)
        end, function() end)
        for _, chunk in ipairs({ "a", "b" .. RS, "ma", "x", RS .. "mabc" }) do
            filter:write(chunk)
        end
        assert.same({ "a", "b", RS .. "max" }, out)
    end)

    it("does not keep what never ends", function()
        local count = 0
        local filter = filters.new("mabc", function(bytes)
            count = count + #bytes
        end, function()
            error("no report")
        end)
        filter:write(RS .. "mabc ")
        for _ = 1, 100 do
            filter:write(("x"):rep(1000))
        end
        assert.is_true(count > 90000)
        assert.is_true(#filter.held < 5000)
    end)
end)
