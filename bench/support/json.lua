--- Writes plain tables as JSON: enough for benchmark reports.

local json = {}

local function quote(text)
    return '"' .. text:gsub('[%c"\\]', function(c)
        return string.format("\\u%04x", c:byte())
    end) .. '"'
end

--- A table with an element 1 becomes an array; any other becomes an object with sorted keys.
---@param value table|string|number|boolean
---@return string
function json.encode(value)
    if type(value) == "string" then
        return quote(value)
    elseif type(value) ~= "table" then
        return tostring(value)
    end
    local parts = {}
    if value[1] ~= nil then
        for i, element in ipairs(value) do
            parts[i] = json.encode(element)
        end
        return "[" .. table.concat(parts, ",") .. "]"
    end
    for key, element in pairs(value) do
        parts[#parts + 1] = quote(key) .. ":" .. json.encode(element)
    end
    table.sort(parts)
    return "{" .. table.concat(parts, ",") .. "}"
end

return json
