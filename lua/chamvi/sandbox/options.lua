-- Strict option tables: a wrong or unknown field raises an InvalidAgentDefinitionError that names it. No
-- message holds a value that was given, since it may be a secret.
--
-- A kind is a function that gets a value and returns nil when it is fine, else what to say of it, to be
-- read after `option "name"`.

local errors = require "chamvi.sandbox.errors"
local is_callable = require "chamvi.sandbox.is_callable"
local is_utf8 = require "chamvi.sandbox.is_utf8"
local native = require "chamvi.sandbox.core"
local printed = require "chamvi.sandbox.printed"
local signals = require "chamvi.sandbox.signal"

local options = {}

local MAX_INTEGER = 2 ^ 53 -- the largest that every Lua number type counts to without a gap

local UUID = "^" .. ("xxxxxxxx%-xxxx%-xxxx%-xxxx%-xxxxxxxxxxxx"):gsub("x", "%%x") .. "$"

---@alias chamvi.OptionKind fun(value: any): string?

local function must_be(what, value)
    return ("must be %s, got a %s"):format(what, type(value))
end

--- For fields that are a model's input and checked as such later.
function options.any()
    return nil
end

function options.boolean(value)
    if type(value) ~= "boolean" then
        return must_be("a boolean", value)
    end
end

function options.string(value)
    if type(value) ~= "string" then
        return must_be("a string", value)
    end
    if value == "" then
        return "must not be empty"
    end
    if value:find("%z") then
        return "must not have a NUL byte"
    end
end

function options.absolute_path(value)
    if type(value) ~= "string" then
        return must_be("an absolute path", value)
    end
    if value:sub(1, 1) ~= "/" or value:find("\0", 1, true) then
        return "must be an absolute path without NUL bytes"
    end
end

function options.uuid(value)
    if type(value) ~= "string" then
        return must_be("a UUID", value)
    end
    if not value:find(UUID) then
        return "must be a UUID, as sandbox.uuid() makes them"
    end
end

function options.table(value)
    if type(value) ~= "table" then
        return must_be("a table", value)
    end
end

function options.callable(value)
    if not is_callable(value) then
        return must_be("a function", value)
    end
end

function options.signal(value)
    if not signals.is_signal(value) then
        return must_be("a signal made by sandbox.signal()", value)
    end
end

function options.positive_integer(value)
    if type(value) ~= "number" then
        return must_be("a whole number", value)
    end
    if not (value >= 1 and value <= MAX_INTEGER and value % 1 == 0) then
        return "must be a whole number of at least 1"
    end
end

function options.natural(value)
    if type(value) ~= "number" then
        return must_be("a whole number", value)
    end
    if not (value >= 0 and value <= MAX_INTEGER and value % 1 == 0) then
        return "must be a whole number of at least 0"
    end
end

function options.provider(value)
    if type(value) ~= "table" or not is_callable(value.create) or not is_callable(value.collect_garbage) then
        return must_be("a provider, a table with the functions `create` and `collect_garbage`", value)
    end
end

function options.transport(value)
    local exec, alive, remove
    if type(value) == "table" then
        exec, alive, remove = value.exec, value.alive, value.remove
    end
    if not is_callable(exec) or not is_callable(remove) or alive ~= nil and not is_callable(alive) then
        return must_be("a transport, a table with the functions `exec`, `remove` and, if at all, `alive`", value)
    end
end

function options.clock(value)
    if type(value) ~= "table" or not is_callable(value.now) then
        return must_be("a table with a function `now` that returns epoch milliseconds", value)
    end
end

local function amount(parse)
    return function(value)
        local number, _, wrong = parse(value)
        return not number and wrong or nil
    end
end

--- One of the given strings.
---@param choices string[]
---@return chamvi.OptionKind
function options.choice(choices)
    return function(value)
        for _, choice in ipairs(choices) do
            if value == choice then
                return nil
            end
        end
        return ('must be "%s"'):format(table.concat(choices, '" or "'))
    end
end

--- Amounts in the notation of Kubernetes.
options.cpu = amount(native.parse_cpu)
options.bytes = amount(native.parse_memory)

--- Environment variables: names of letters, digits and underscores, string values without NUL.
function options.env(value)
    if type(value) ~= "table" then
        return must_be("a table of strings", value)
    end
    for name, text in pairs(value) do
        if type(name) ~= "string" then
            return ("has a key that is no string but a %s"):format(type(name))
        end
        local ok, _, wrong = native.check_env(name, type(text) == "string" and text or "")
        if not ok then
            return wrong
        end
        if type(text) ~= "string" then
            return ("has a value that is no string but a %s: %s"):format(type(text), name)
        end
    end
end

--- The same for environments that travel as JSON: a value is UTF-8 too.
function options.utf8_env(value)
    local wrong = options.env(value)
    if wrong then
        return wrong
    end
    for name, text in pairs(value) do
        if not is_utf8(text) then
            return "has a value that is no UTF-8 text: " .. name
        end
    end
end

--- A table of which only the given fields may be there.
---@param fields table<string, chamvi.OptionKind>
---@return chamvi.OptionKind
function options.record(fields)
    return function(value)
        if type(value) ~= "table" then
            return must_be("a table", value)
        end
        for name, field in pairs(value) do
            local kind = fields[name]
            if not kind then
                return ('has the unknown field "%s"'):format(printed(name))
            end
            local wrong = kind(field)
            if wrong then
                return ('has a wrong field "%s": it %s'):format(name, wrong)
            end
        end
    end
end

--- The limits of a workspace, each of them optional.
options.limits = options.record({
    cpu = options.cpu,
    memory = options.bytes,
    storage = options.bytes,
    pids = options.positive_integer,
    timeout_ms = options.positive_integer,
})

--- Checks an options table and returns a copy of it, so that later changes by its owner have no effect.
---@param what string the function that was called, for the message
---@param value any the table; nil counts as empty
---@param fields table<string, chamvi.OptionKind>
---@param required? string[]
---@return table
function options.check(what, value, fields, required)
    if value ~= nil and type(value) ~= "table" then
        local message = ("%s: the options must be a table, got a %s"):format(what, type(value))
        errors.raise_definition("invalid_option", message)
    end
    local copy = {}
    for name, field in pairs(value or {}) do
        local kind = fields[name]
        if not kind then
            errors.raise_definition("unknown_option", ('%s: unknown option "%s"'):format(what, printed(name)))
        end
        local wrong = kind(field)
        if wrong then
            errors.raise_definition("invalid_option", ('%s: option "%s" %s'):format(what, name, wrong))
        end
        copy[name] = field
    end
    for _, name in ipairs(required or {}) do
        if copy[name] == nil then
            errors.raise_definition("invalid_option", ('%s: option "%s" is missing'):format(what, name))
        end
    end
    return copy
end

--- A copy of a flat table; nil for nil.
---@param value table|nil
---@return table|nil
function options.copy(value)
    if value == nil then
        return nil
    end
    local copy = {}
    for key, element in pairs(value) do
        copy[key] = element
    end
    return copy
end

return options
