-- The one error type. Everything that the library returns as `nil, err` or raises on purpose is made here.

local compat = require "chamvi.sandbox.compat"
local native = require "chamvi.sandbox.core"

local errors = {}

-- What an engine or git answered is kept as `detail` up to this length.
local DETAIL_MAX_BYTES = 4096
-- A message is one line for a person or a model; what callbacks raise can be longer.
local MESSAGE_MAX_BYTES = 1024

---@class chamvi.Error
---@field name "ValidationError"|"SandboxError"|"InvalidAgentDefinitionError"
---@field code chamvi.ErrorCode stable, snake_case
---@field message string one line for a person or a model
---@field detail? string what the outside world said, at most 4,096 bytes
---@field cause? any the error or the abort reason behind this one
---@field partial? chamvi.PartialOutput `transport_lost`: the output that had arrived
---@field count? integer `gc_failed`: how many workspaces went
---@field where? string `InvalidAgentDefinitionError`: the caller's file and line
local Error = {}

function Error.__tostring(self)
    return self.name .. ": " .. self.message
end

function Error.__concat(left, right)
    return tostring(left) .. tostring(right)
end

local function in_one_line(blanks)
    return blanks:find("[\r\n]") and " "
end

-- One line of valid UTF-8 of a bounded length, whatever bytes a path or a callback has brought in.
local function readable(text)
    if #text <= MESSAGE_MAX_BYTES and not text:find("[^ -~]") then -- plain ASCII, as nearly always
        return text
    end
    local collector = native.create_output_collector(MESSAGE_MAX_BYTES)
    collector:write(text)
    return (collector:text():gsub("%s+", in_one_line):gsub("[%z\1-\31\127]", "?"))
end

local function new(name, code, message, fields)
    local err = { name = name, code = code, message = readable(message) }
    if fields then
        for key, value in pairs(fields) do
            err[key] = value
        end
        if err.detail then
            err.detail = compat.cut(err.detail, DETAIL_MAX_BYTES)
        end
    end
    return setmetatable(err, Error)
end

--- For what a model gave as input.
---@param code string
---@param message string
---@return chamvi.Error
function errors.validation(code, message)
    return new("ValidationError", code, message)
end

--- For what the outside world did.
---@param code string
---@param message string
---@param fields? { detail?: string, cause?: any, partial?: table }
---@return chamvi.Error
function errors.sandbox(code, message, fields)
    return new("SandboxError", code, message, fields)
end

-- What the core finds wrong with a model's input; all other codes of it are the outside world's.
local INPUT_CODES = { invalid_argv = true, invalid_path = true }

--- For what the core has answered.
---@param code string
---@param message string
---@param fields? { detail?: string, partial?: table }
---@return chamvi.Error
function errors.from_core(code, message, fields)
    return new(INPUT_CODES[code] and "ValidationError" or "SandboxError", code, message, fields)
end

-- Where this library's own files lie, as debug.getinfo names them: "@/usr/share/lua/5.4/chamvi/sandbox/".
local own_files = debug.getinfo(1, "S").source:match("^@.*[/\\]")

-- The file and line of the nearest caller outside the library.
local function caller()
    local level = 3
    while true do
        local info = debug.getinfo(level, "Sl")
        if not info then
            return nil
        end
        local own = own_files and info.source:sub(1, #own_files) == own_files
        if info.currentline > 0 and not own then
            return ("%s:%d"):format(info.short_src, info.currentline)
        end
        level = level + 1
    end
end

--- Raises an InvalidAgentDefinitionError: the host program's configuration is wrong.
---@param code string
---@param message string without the values given, which may be secrets
function errors.raise_definition(code, message)
    error(new("InvalidAgentDefinitionError", code, message, { where = caller() }), 0)
end

--- Whether a value is an error of this library, and of the given name if there is one.
---@param value any
---@param name? string
---@return boolean
function errors.is_error(value, name)
    return type(value) == "table" and rawequal(getmetatable(value), Error) and (name == nil or value.name == name)
end

return errors
