-- Base64, RFC 4648: both alphabets. For credentials, which are short.

local base64 = {}

local STANDARD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local URL = STANDARD:sub(1, 62) .. "-_"

local values = {} -- by character, of both alphabets
for index = 1, 64 do
    values[STANDARD:sub(index, index)] = index - 1
    values[URL:sub(index, index)] = index - 1
end

local function encode(text, alphabet)
    local out = {}
    for from = 1, #text, 3 do
        local a, b, c = text:byte(from, from + 2)
        local bits = a * 65536 + (b or 0) * 256 + (c or 0)
        local group = ""
        for shift = 3, 0, -1 do
            local index = math.floor(bits / 64 ^ shift) % 64 + 1
            group = group .. alphabet:sub(index, index)
        end
        local used = c and 4 or b and 3 or 2
        table.insert(out, group:sub(1, used) .. ("="):rep(4 - used))
    end
    return table.concat(out)
end

---@param text string
---@return string # with padding
function base64.encode(text)
    return encode(text, STANDARD)
end

--- In the alphabet for URLs and headers.
---@param text string
---@return string # with padding
function base64.encode_url(text)
    return encode(text, URL)
end

--- Takes either alphabet, with or without padding; white space counts for nothing.
---@param text string
---@return string|nil # nil when it is no Base64
function base64.decode(text)
    text = text:gsub("%s", "")
    local padding = text:match("=?=?$")
    text = text:sub(1, #text - #padding)
    if #text % 4 == 1 or #padding > 0 and (#text + #padding) % 4 ~= 0 then
        return nil
    end
    local out = {}
    for from = 1, #text, 4 do
        local group = text:sub(from, from + 3)
        local bits = 0
        for index = 1, 4 do
            local character = group:sub(index, index)
            local value = character == "" and 0 or values[character]
            if not value then
                return nil
            end
            bits = bits * 64 + value
        end
        local bytes = string.char(math.floor(bits / 65536), math.floor(bits / 256) % 256, bits % 256)
        table.insert(out, bytes:sub(1, #group - 1))
    end
    return table.concat(out)
end

return base64
