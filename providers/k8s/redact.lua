-- Takes secrets out of the words of servers and programs, which may repeat what they were given.

local native = require "chamvi.sandbox.core"

local function plainly(text, secrets)
    for _, secret in ipairs(secrets) do
        text = text:gsub((secret:gsub("%p", "%%%0")), "***")
    end
    return text
end

-- With each escape as three digits, so that the quotes that are left begin and end strings; and back.
local function marked(json)
    return (json:gsub("\\(.)", function(character)
        return ("\\%03d"):format(character:byte())
    end))
end

local function unmarked(text)
    return (text:gsub("\\(%d%d%d)", function(code)
        return "\\" .. string.char(tonumber(code))
    end))
end

-- In what may be JSON. There are many ways to write a string of it: each is read, and written anew where it changes.
local function in_strings(text, secrets)
    return unmarked(marked(text):gsub('"[^"\n]*"', function(literal)
        local decoded = native.json_decode_answer("[" .. unmarked(literal) .. "]")
        local after = decoded and plainly(decoded[1], secrets)
        if after and after ~= decoded[1] then
            return marked((native.json_encode({ after }) or '["***"]'):sub(2, -2))
        end
    end))
end

--- A text without them. Longer ones go first, since a shorter one may be a part of them.
---@param text string
---@param secrets string[] empty ones count for nothing
---@return string
return function(text, secrets)
    local sorted = {}
    for _, secret in ipairs(secrets) do
        if secret ~= "" then
            table.insert(sorted, secret)
        end
    end
    table.sort(sorted, function(left, right)
        return #left > #right
    end)
    return sorted[1] and plainly(in_strings(text, sorted), sorted) or text
end
