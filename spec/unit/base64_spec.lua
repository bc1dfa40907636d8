local base64 = require "chamvi.sandbox.base64"

describe("Base64", function()
    it("is that of RFC 4648", function()
        local vectors = {
            [""] = "",
            f = "Zg==",
            fo = "Zm8=",
            foo = "Zm9v",
            foob = "Zm9vYg==",
            fooba = "Zm9vYmE=",
            foobar = "Zm9vYmFy",
        }
        for text, encoded in pairs(vectors) do
            assert.equal(encoded, base64.encode(text))
            assert.equal(encoded, base64.encode_url(text))
            assert.equal(text, base64.decode(encoded))
            assert.equal(text, base64.decode((encoded:gsub("=", ""))))
        end
        assert.equal("+/+/", base64.encode("\251\255\191"))
        assert.equal("-_-_", base64.encode_url("\251\255\191"))
    end)

    it("takes every byte there and back, in both alphabets", function()
        local all = {}
        for byte = 0, 255 do
            all[byte + 1] = string.char(byte)
        end
        local text = table.concat(all)
        for length = 0, 256 do
            local part = text:sub(1, length)
            assert.equal(part, base64.decode(base64.encode(part)))
            assert.equal(part, base64.decode(base64.encode_url(part)))
        end
        assert.equal(text, base64.decode((base64.encode(text):gsub("....", "%0\n "))))
    end)

    it("is not what has other characters or another length", function()
        for _, wrong in ipairs({ "a", "abcde", "ab*d", "ab==cd", "=", "ab=c", "\0abc" }) do
            assert.is_nil(base64.decode(wrong), wrong)
        end
    end)
end)
