-- Secrets in the words of others.

local base64 = require "chamvi.sandbox.base64"
local redactor = require "chamvi.sandbox.redactor"

describe("a redactor", function()
    local secret = 'p"w\\n%41 +/&<\1é'

    local function escaped(pattern, format)
        return (secret:gsub(pattern, function(character)
            return format:format(character:byte())
        end))
    end

    it("takes a secret out however it is escaped", function()
        local json = secret:gsub('["\\]', "\\%0")
        for _, form in ipairs({
            secret,
            json,
            (json:gsub('["\\]', "\\%0")), -- JSON in JSON
            (json:gsub("[&<\1]", function(character) return ("\\u%04x"):format(character:byte()) end)), -- Go's
            (json:gsub("é", "\\u00e9")),
            (json:gsub("/", "\\/")),
            (json:gsub("\1", "\\x01")),
            escaped("[^%w]", "%%%02X"),
            escaped("[^%w]", "%%%02x"),
            escaped(".", "%%%02X"),
            (escaped("[^%w ]", "%%%02X"):gsub(" ", "+")),
            escaped("[%%+]", "%%%02X"), -- some of them
            (secret:gsub("&", "&amp;"):gsub("<", "&lt;"):gsub('"', "&#34;")),
            (secret:gsub("&", "&#x26;"):gsub("é", "&#233;")),
        }) do
            assert.equal("it is: ***, you see", redactor({ secret })("it is: " .. form .. ", you see"), form)
            assert.equal("******", redactor({ secret, "" })("***" .. form):gsub("^%*+$", "******"))
        end
    end)

    it("takes it out of Base64, wherever it stands in that", function()
        for before = 0, 5 do
            for after = 0, 3 do
                local text = ("x"):rep(before) .. secret .. ("y"):rep(after)
                for _, encode in pairs({ base64.encode, base64.encode_url }) do
                    local found = redactor({ secret })("<" .. encode(text) .. ">")
                    local rest = found:gsub("%*%*%*", "")
                    assert.is_true(#rest <= 2 + math.ceil(before / 3) * 4 + math.ceil((after + 2) / 3) * 4, found)
                    assert.matches("***", found, 1, true)
                end
            end
        end
    end)

    it("leaves all else as it is", function()
        local text = "a\\b%41+&amp;\\u00e9\\q%zz&x;&#999999;\\" .. base64.encode("something")
        assert.equal(text, redactor({ secret })(text))
        assert.equal(text, redactor({})(text))
        assert.equal(text, redactor({ "" })(text))
        assert.equal("", redactor({ secret })(""))
        assert.equal("\\***%41", redactor({ "b" })("\\b%41"):gsub("^\\b", "\\***"))
    end)

    it("takes out several, also where they overlap", function()
        assert.equal("***, *** and ***", redactor({ "abc", "cde", "ab" })("abcde, ab and cde"))
    end)

    it("bounds what it gives", function()
        assert.equal(("x"):rep(65536), redactor({ secret })(("x"):rep(1000000)))
    end)
end)
