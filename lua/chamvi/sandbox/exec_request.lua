-- What `exec` of every workspace is given: checked, with defaults, as one table.

local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"
local options = require "chamvi.sandbox.options"

local exec_request = {}

local ARGUMENT_MAX_BYTES = 131071 -- one string of execve(2) on Linux, without its NUL

-- What a model gives is of any type here: a wrong one is its error and is returned, not raised.
local EXEC_OPTIONS = {
    cwd = options.any,
    timeout_ms = options.any,
    stdin = options.any,
    signal = options.signal,
    on_output = options.callable,
}

--- A command as a copy.
---@param argv any
---@return string[]|nil
---@return chamvi.Error? err ValidationError `invalid_argv`
function exec_request.argv(argv)
    local function wrong(...)
        return nil, errors.validation("invalid_argv", string.format(...))
    end

    if type(argv) ~= "table" then
        return wrong("argv must be a list of strings, got a %s", type(argv))
    end
    local keys = 0
    for _ in next, argv do -- pairs would call what the table brings along
        keys = keys + 1
    end
    local copy = {}
    for index = 1, keys do
        local value = rawget(argv, index)
        if value == nil then
            return wrong("argv must be a list without gaps or other keys: element %d is missing", index)
        end
        if type(value) ~= "string" then
            return wrong("argv element %d must be a string, got a %s", index, type(value))
        end
        if value:find("\0", 1, true) then
            return wrong("argv element %d has a NUL byte", index)
        end
        if #value > ARGUMENT_MAX_BYTES then
            return wrong("argv element %d has %d bytes; at most %d are possible: pass it on stdin or in a file",
                index, #value, ARGUMENT_MAX_BYTES)
        end
        copy[index] = value
    end
    if keys == 0 then
        return wrong("argv is empty: its first element must name the program")
    end
    if copy[1] == "" then
        return wrong("argv element 1 is empty: it must name the program")
    end
    return copy
end

--- A path as one relative to the root, "" for the root itself.
---@param path any
---@return string|nil relative
---@return chamvi.Error? err ValidationError `invalid_path`
function exec_request.relative_path(path)
    local absolute, relative, message = native.workspace_path(path)
    if not absolute then
        return nil, errors.validation(relative, message) -- the code in its place
    end
    return relative
end

local function check_timeout(timeout_ms)
    if timeout_ms == nil then
        return constants.EXEC_TIMEOUT_MS
    end
    -- A NaN fails each comparison.
    if type(timeout_ms) ~= "number" or not (timeout_ms >= 1 and timeout_ms % 1 == 0 or timeout_ms == math.huge) then
        return nil, errors.validation("invalid_timeout", "timeout_ms must be a whole number of at least 1")
    end
    return math.min(timeout_ms, constants.EXEC_TIMEOUT_MAX_MS)
end

--- Checks a standard input.
---@param stdin any
---@return true|nil
---@return chamvi.Error? err ValidationError `invalid_stdin`
function exec_request.check_stdin(stdin)
    if stdin ~= nil and type(stdin) ~= "string" then
        return nil, errors.validation("invalid_stdin", ("stdin must be a string, got a %s"):format(type(stdin)))
    end
    return true
end

---@class chamvi.ExecRequest
---@field argv string[] a copy
---@field cwd string relative to the root, "" for the root
---@field timeout_ms integer at most EXEC_TIMEOUT_MAX_MS
---@field stdin? string
---@field signal? chamvi.Signal
---@field on_output? function

--- Checks what `exec` was given. Wrong options raise; a model's wrong input is returned as ValidationError.
---@param argv any
---@param given any
---@return chamvi.ExecRequest|nil
---@return chamvi.Error? err
function exec_request.check(argv, given)
    local request = options.check("exec", given, EXEC_OPTIONS)
    local ok, err
    request.argv, err = exec_request.argv(argv)
    if not request.argv then
        return nil, err
    end
    request.cwd, err = exec_request.relative_path(request.cwd == nil and "." or request.cwd)
    if not request.cwd then
        return nil, err
    end
    request.timeout_ms, err = check_timeout(request.timeout_ms)
    if not request.timeout_ms then
        return nil, err
    end
    ok, err = exec_request.check_stdin(request.stdin)
    if not ok then
        return nil, err
    end
    return request
end

return exec_request
