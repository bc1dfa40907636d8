-- Reads LuaLS annotations, of sources and of the files under types/ alike, and compares values with them. Knows as
-- much of the notation as the project uses.

local definitions = {}

local scratch = require "spec.support.scratch"

---@class spec.Member
---@field doc string all its words and tags, white space collapsed
---@field kind "function"|"field"
---@field type? string of a field
---@field value? string of a field in the file: a literal
---@field parameters? string of a function: the names

---@class spec.Definitions
---@field classes table<string, { doc: string, members: table<string, spec.Member> }> also by the name of a local table
---   that is no class
---@field aliases table<string, string> the type
---@field functions table<string, spec.Member> local ones, and `return` for a file that returns one

-- Where the type at the start of the text ends: spaces inside brackets and beside `:`, `|` and `,` belong to it.
local function type_end(text)
    local depth, index = 0, 1
    while index <= #text do
        local char = text:sub(index, index)
        if char == '"' then
            index = text:find('"', index + 1, true) or #text
        elseif char:find("[%(<{%[]") then
            depth = depth + 1
        elseif char:find("[%)>}%]]") then
            depth = depth - 1
        elseif char == " " and depth == 0 then
            local before, after = text:sub(1, index):match("(%S)%s*$"), text:match("^%s*(%S)", index)
            if not (before and before:find("[:|,]")) and after ~= "|" then
                return index - 1
            end
        end
        index = index + 1
    end
    return #text
end

local function collapse(text)
    return (text:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", ""))
end

-- A block of annotations as a list of { tag = "", text = }, continuation lines joined.
local function entries_of(block)
    local entries = {}
    for _, line in ipairs(block) do
        local tag, text = line:match("^%-%-%-@(%S+)%s*(.*)$")
        local choice = line:match("^%-%-%-(|.*)$")
        if tag then
            table.insert(entries, { tag = tag, text = text })
        elseif choice then
            local last = entries[#entries]
            last.text = last.text .. " " .. choice:gsub("#.*$", "")
        elseif #entries > 0 then
            local last = entries[#entries]
            last.text = last.text .. " " .. line:gsub("^%-%-%-", "")
        else
            table.insert(entries, { tag = "", text = (line:gsub("^%-%-%-", "")) })
        end
    end
    return entries
end

local function doc_of(block)
    local lines = {}
    for _, line in ipairs(block) do
        table.insert(lines, (line:gsub("^%-%-%-", "")))
    end
    return collapse(table.concat(lines, " "))
end

local function parameters_of(list)
    local names = {}
    for name in list:gmatch("[%w_.]+") do
        if name ~= "_" and name ~= "self" then
            table.insert(names, name)
        end
    end
    return table.concat(names, ", ")
end

-- The class of a block's @class, with its fields; nil when it has none.
local function read_class(found, entries)
    local class, name
    for _, entry in ipairs(entries) do
        if entry.tag == "class" then
            name = entry.text:match("^%S+")
            class = { doc = entries[1].tag == "" and collapse(entries[1].text) or "", members = {} }
            found.classes[name] = class
        elseif entry.tag == "field" then
            local field, optional, rest = entry.text:match("^([%w_]+)(%??)%s+(.*)$")
            local kind = rest:sub(1, type_end(rest))
            class.members[field] = {
                doc = collapse(entry.text),
                kind = "field",
                type = optional == "?" and "nil|" .. kind or kind,
            }
        elseif entry.tag == "alias" then
            local alias, kind = entry.text:match("^(%S+)%s+(.*)$")
            found.aliases[alias] = collapse(kind):gsub("^| ?", "")
        end
    end
    return name
end

-- The type that a block's @type names.
local function read_type(entries)
    for _, entry in ipairs(entries) do
        if entry.tag == "type" then
            return entry.text:sub(1, type_end(entry.text))
        end
    end
end

local function literal_type(value)
    return value:find('^"') and "string" or tonumber(value) and "number" or nil
end

---@param text string
---@return spec.Definitions
function definitions.parse(text)
    local found = { classes = {}, aliases = {}, functions = {} }
    local names = {} -- of classes, by the local table that follows them
    local block = {}

    local function class(owner)
        local name = names[owner] or owner
        found.classes[name] = found.classes[name] or { doc = "", members = {} }
        return found.classes[name]
    end

    local function statement(line)
        local entries = entries_of(block)
        local name = read_class(found, entries)
        local owner, separator, method, list = line:match("^function ([%w_]+)([.:])([%w_]+)(%b())")
        local local_table = line:match("^local ([%w_]+) = ")
        local local_function, local_list = line:match("^local function ([%w_]+)(%b())")
        local returned_list = line:match("^return function(%b())")
        local target, field, value = line:match("^([%w_]+)%.([%w_]+) = (.*)$")
        if name and local_table then
            names[local_table] = name
        elseif separator then
            class(owner).members[method] = { doc = doc_of(block), kind = "function", parameters = parameters_of(list) }
        elseif local_function or returned_list then
            found.functions[local_function or "return"] = {
                doc = doc_of(block),
                kind = "function",
                parameters = parameters_of(local_list or returned_list),
            }
        elseif target and (#block > 0 or literal_type(value)) then
            class(target).members[field] = {
                doc = doc_of(block),
                kind = "field",
                type = read_type(entries) or literal_type(value),
                value = literal_type(value) and value,
            }
        end
        block = {}
    end

    for line in (text .. "\n"):gmatch("(.-)\n") do
        line = line:gsub("^%s+", "")
        if line:find("^%-%-%-") then
            table.insert(block, line)
        else
            statement(line)
        end
    end
    return found
end

--- The definitions of several files together.
---@param paths string[]
---@return spec.Definitions
function definitions.read(paths)
    local texts = {}
    for _, path in ipairs(paths) do
        table.insert(texts, (assert(scratch.read(path), path)))
    end
    return definitions.parse(table.concat(texts, "\n\n"))
end

-- ---- Values ---------------------------------------------------------------------------------------

-- Splits at a separator outside of brackets and quotes.
local function split(text, separator)
    local parts, depth, from, quoted = {}, 0, 1, false
    for index = 1, #text do
        local char = text:sub(index, index)
        if char == '"' then
            quoted = not quoted
        elseif quoted then -- luacheck: ignore 542
        elseif char:find("[%(<{%[]") then
            depth = depth + 1
        elseif char:find("[%)>}%]]") then
            depth = depth - 1
        elseif char == separator and depth == 0 then
            table.insert(parts, collapse(text:sub(from, index - 1)))
            from = index + 1
        end
    end
    table.insert(parts, collapse(text:sub(from)))
    return parts
end

local compare -- (found, values, class, path, differences); a class may hold another

local PLAIN = {
    ["any"] = function()
        return true
    end,
    ["integer"] = function(value)
        return type(value) == "number" and value % 1 == 0
    end,
    ["lightuserdata"] = function(value)
        return type(value) == "userdata"
    end,
}
for _, name in ipairs({ "nil", "boolean", "number", "string", "table", "function", "userdata" }) do
    PLAIN[name] = function(value)
        return type(value) == name
    end
end

-- Whether the value is of the type; differences inside of a class are added to the list instead.
local function matches(found, value, kind, path, differences)
    local choices = kind:find("^fun%(") and { kind } or split(kind, "|")
    if #choices > 1 then
        for _, choice in ipairs(choices) do
            if matches(found, value, choice, path, differences) then
                return true
            end
        end
        return false
    end
    local element, fields = kind:match("^(.*)%[%]$"), kind:match("^{(.*)}$")
    local of = kind:match("^table<string, (.*)>$")
    if kind:find("%?$") then
        return value == nil or matches(found, value, kind:sub(1, -2), path, differences)
    elseif PLAIN[kind] then
        return PLAIN[kind](value)
    elseif kind:find("^fun%(") then
        return type(value) == "function"
    elseif kind:find('^"') then
        return value == kind:sub(2, -2)
    elseif found.aliases[kind] then
        return matches(found, value, found.aliases[kind], path, differences)
    elseif found.classes[kind] then
        if type(value) ~= "table" and type(value) ~= "userdata" then
            return false
        end
        compare(found, { value }, kind, path, differences)
        return true
    elseif type(value) ~= "table" then
        return false
    elseif element or of then
        for key, item in pairs(value) do
            local right_key = type(key) == (of and "string" or "number")
            if not right_key or not matches(found, item, of or element, path, differences) then
                return false
            end
        end
        return true
    elseif fields then
        for _, field in ipairs(split(fields, ",")) do
            local name, optional, inner = field:match("^([%w_]+)(%??): (.*)$")
            local left_out = optional == "?" and value[name] == nil
            if not left_out and not matches(found, value[name], inner, path, differences) then
                return false
            end
        end
        return true
    end
    error("unknown type: " .. kind)
end

-- The public names of a value: its own and those of its methods. What begins with an underscore is private.
local function public_names(value)
    local names = {}
    local meta = getmetatable(value)
    for _, fields in ipairs({ type(value) == "table" and value or {}, type(meta) == "table" and meta.__index or {} }) do
        if type(fields) == "table" then
            for name in pairs(fields) do
                if type(name) == "string" and name:sub(1, 1) ~= "_" then
                    names[name] = true
                end
            end
        end
    end
    return names
end

function compare(found, values, class, path, differences)
    local members = assert(found.classes[class], class).members
    local function differs(name, what, ...)
        table.insert(differences, ("%s.%s: %s"):format(path, name, what:format(...)))
    end
    for _, value in ipairs(values) do
        for name in pairs(public_names(value)) do
            if not members[name] then
                differs(name, "not declared, a %s", type(value[name]))
            end
        end
        for name, member in pairs(members) do
            local is = value[name]
            local kind = member.kind == "function" and "function" or member.type
            if not matches(found, is, kind, path .. "." .. name, differences) then
                differs(name, "declared as %s, is %s", kind, is == nil and "missing" or "a " .. type(is))
            elseif member.value and member.value:gsub('"', "") ~= tostring(is) then
                differs(name, "declared as %s, is %s", member.value, tostring(is))
            end
        end
    end
end

--- How values of a class differ from its declaration: in what is there and not declared, in what is declared and not
--- there, and in types. Empty when they don't. What is optional has to be there in one of the values at least.
---@param found spec.Definitions
---@param class string
---@param values any[]
---@return string[] differences sorted
function definitions.differences(found, class, values)
    local differences = {}
    compare(found, values, class, class, differences)
    for name in pairs(assert(found.classes[class], class).members) do
        local seen = false
        for _, value in ipairs(values) do
            seen = seen or value[name] ~= nil
        end
        if not seen then
            table.insert(differences, ("%s.%s: never there"):format(class, name))
        end
    end
    table.sort(differences)
    return differences
end

-- ---- Files with each other ------------------------------------------------------------------------

local function member_differences(name, declared, source, differences)
    local function differs(what, here, there)
        table.insert(differences, ("%s: %s here\n  %s\nin the sources\n  %s"):format(name, what, here, there))
    end
    if not source then
        table.insert(differences, name .. ": not in the sources")
    elseif declared.doc ~= source.doc then
        differs("described", declared.doc, source.doc)
    elseif declared.parameters ~= source.parameters then
        differs("takes", tostring(declared.parameters), tostring(source.parameters))
    end
end

--- How a class is described differently in the sources: members that they lack, other words, other types. A class
--- has to have the same fields in both.
---@param declared spec.Definitions
---@param sources spec.Definitions
---@param class string
---@return string[] differences sorted
function definitions.disagreements(declared, sources, class)
    local differences = {}
    local here, there = declared.classes[class].members, sources.classes[class].members
    for name, member in pairs(here) do
        member_differences(class .. "." .. name, member, there[name], differences)
    end
    for name, member in pairs(there) do
        if member.kind == "field" and not here[name] then
            table.insert(differences, ("%s.%s: only in the sources"):format(class, name))
        end
    end
    table.sort(differences)
    return differences
end

--- The same for one function, which may have different names in both.
---@param name string for the message
---@param declared spec.Member
---@param source spec.Member|nil
---@return string[]
function definitions.function_disagreements(name, declared, source)
    local differences = {}
    member_differences(name, declared, source, differences)
    return differences
end

--- The types that are named and not declared.
---@param found spec.Definitions
---@param text string of the files
---@return string[]
function definitions.undeclared_types(found, text)
    local undeclared = {}
    for line in text:gmatch("%-%-%-@[^\n]*") do
        for name in line:gmatch("chamvi%.[A-Z]%w*") do
            if not found.classes[name] and not found.aliases[name] then
                table.insert(undeclared, name)
            end
        end
    end
    return undeclared
end

return definitions
