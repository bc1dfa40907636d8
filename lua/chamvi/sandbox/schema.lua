-- JSON Schemas of tools: copies, and the strict form of OpenAI. There every field of an object is required and no
-- other is allowed, and an optional field is one that may be null:
-- https://platform.openai.com/docs/guides/structured-outputs#supported-schemas

local schema = {}

local DEPTH_MAX = 64 -- of tables in tables; a table that holds itself must end somewhere

-- Raises a string, for `schema.copy`. Metatables stay: they may tell the host's encoder what an empty table is.
local function copy(value, depth)
    if type(value) ~= "table" then
        return value
    elseif depth > DEPTH_MAX then
        error("its input_schema is nested too deeply, or a table in it holds itself", 0)
    end
    local result = {}
    for key, element in next, value do
        result[key] = copy(element, depth + 1)
    end
    local meta = getmetatable(value)
    return type(meta) == "table" and setmetatable(result, meta) or result
end

local function contains(list, wanted)
    for _, element in ipairs(list) do
        if element == wanted then
            return true
        end
    end
    return false
end

local function nullable(property)
    local kinds, choices = property.type, property.anyOf
    if type(choices) == "table" and kinds == nil then
        for _, choice in ipairs(choices) do
            if type(choice) == "table" and choice.type == "null" then
                return property
            end
        end
        table.insert(choices, { type = "null" })
        return property
    elseif kinds == nil or choices ~= nil or property.enum ~= nil or property.const ~= nil then
        -- A type of its own, since a null is none of those values.
        return { anyOf = { property, { type = "null" } } }
    elseif type(kinds) == "string" then
        kinds = { kinds }
    end
    if not contains(kinds, "null") then
        table.insert(kinds, "null")
    end
    property.type = kinds
    return property
end

local make_strict -- (node, path); objects hold other schemas

-- The table that a keyword has for its value.
local function table_of(node, keyword, path)
    local value = node[keyword]
    if value ~= nil and type(value) ~= "table" then
        error(("%s of its input_schema: %s must be a table, got a %s"):format(path, keyword, type(value)), 0)
    end
    return value or {}
end

local function make_object_strict(node, path)
    local open = node.additionalProperties
    if type(open) == "table" or open == true or node.patternProperties ~= nil then
        error(("%s of its input_schema allows fields of any name, which strict mode can't say"):format(path), 0)
    end
    node.additionalProperties = false
    local required, names = table_of(node, "required", path), {}
    for name, property in next, table_of(node, "properties", path) do
        if type(name) ~= "string" then
            error(("%s of its input_schema has a field whose name is a %s"):format(path, type(name)), 0)
        elseif type(property) ~= "table" then
            error(("%s.%s of its input_schema must be a table"):format(path, name), 0)
        end
        make_strict(property, path .. "." .. name)
        if not contains(required, name) then
            node.properties[name] = nullable(property)
        end
        table.insert(names, name)
    end
    table.sort(names)
    node.required = #names > 0 and names or nil
end

-- Strict mode has no words for these. A copy of them would be refused, or accept nothing: of two objects in an allOf
-- that allow no other fields neither allows those of the other.
local NEVER_STRICT = { "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas" }

function make_strict(node, path)
    for _, keyword in ipairs(NEVER_STRICT) do
        if node[keyword] ~= nil then
            error(("%s of its input_schema has the keyword %s, which strict mode can't say"):format(path, keyword), 0)
        end
    end
    local kinds = node.type
    if kinds == "object" or type(kinds) == "table" and contains(kinds, "object") or node.properties then
        make_object_strict(node, path)
    end
    if type(node.items) == "table" then
        make_strict(node.items, path .. "[]")
    end
    for _, keyword in ipairs({ "anyOf", "oneOf", "prefixItems", "$defs", "definitions" }) do
        for _, element in next, type(node[keyword]) == "table" and node[keyword] or {} do
            if type(element) == "table" then
                make_strict(element, path)
            end
        end
    end
end

--- A copy that shares no table with the original.
---@param original table
---@param strict? boolean in the strict form
---@return table|nil
---@return string? complaint it can't be copied, or has no strict form
function schema.copy(original, strict)
    local ok, result = pcall(copy, original, 1)
    if ok and strict then
        local complaint
        ok, complaint = pcall(make_strict, result, "the object")
        result = ok and result or complaint
    end
    if not ok then
        return nil, result
    end
    return result
end

return schema
