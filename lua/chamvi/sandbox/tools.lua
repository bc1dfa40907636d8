-- Tools for models: calls by name with JSON text, and the forms in which the model APIs want to be told of them. Any
-- tool of the shape of chamvi.Tool will do, also the host's own.

local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"
local is_null = require "chamvi.sandbox.is_null"
local null = require "chamvi.sandbox.null"
local options = require "chamvi.sandbox.options"
local printed = require "chamvi.sandbox.printed"
local schema = require "chamvi.sandbox.schema"

local tools = {}

-- Of JSON text from a model. More than one answer of a model holds; as a table it may take some 100 MiB.
local INPUT_MAX_BYTES = 1048576
-- What OpenAI and Anthropic take as the name of a tool.
local NAME_MAX_BYTES = 64
local NAME_FORM = "^[%w_-]+$"

---@class chamvi.OpenAIOptions
---@field api? "chat"|"responses" default "chat": chat completions
---@field strict? boolean ask for input that keeps to the schema exactly; default false

local OPENAI_OPTIONS = { api = options.choice({ "chat", "responses" }), strict = options.boolean }

local function wrong_tool(tool)
    if type(tool) ~= "table" then
        return "an entry is no tool but a " .. type(tool)
    end
    local name = tool.name
    if type(name) ~= "string" or #name > NAME_MAX_BYTES or not name:find(NAME_FORM) then
        return "the name of a tool must be 1 to 64 letters, digits, _ and -"
    end
    local description = tool.description
    if description ~= nil and type(description) ~= "string" then
        return ("the description of %s must be a string, got a %s"):format(name, type(description))
    end
    if type(tool.input_schema) ~= "table" then
        return ("the input_schema of %s must be a table, got a %s"):format(name, type(tool.input_schema))
    end
    local complaint = options.callable(tool.execute)
    if complaint then
        return ("execute of %s %s"):format(name, complaint)
    end
end

-- All tools, ordered by name; `what` is the function that was given them.
local function sorted(what, given)
    local function wrong(complaint)
        errors.raise_definition("invalid_option", ("%s: %s"):format(what, complaint))
    end
    if type(given) ~= "table" then
        wrong("the tools must be a table, got a " .. type(given))
    end
    local list, names = {}, {}
    for _, tool in next, given do
        local complaint = wrong_tool(tool)
        if complaint then
            wrong(complaint)
        elseif names[tool.name] then
            wrong("two tools have the name " .. tool.name)
        end
        names[tool.name] = true
        table.insert(list, tool)
    end
    table.sort(list, function(left, right)
        return left.name < right.name
    end)
    return list
end

-- ---- Calls ----------------------------------------------------------------------------------------

-- Of each field of an error, for a model. An error of a tool can hold anything, and has to have a JSON form.
local FIELD_MAX_BYTES = 4096

-- Every error has these three, also one that is not of this library.
local function error_text(tool, err)
    local fields = { name = "SandboxError", code = "tool_failed" }
    local own = errors.is_error(err)
    if type(err) == "table" then
        for _, name in ipairs({ "name", "code", "message" }) do
            local value = rawget(err, name)
            fields[name] = type(value) == "string" and compat.cut(value, FIELD_MAX_BYTES) or fields[name]
        end
    end
    if not own or not fields.message then
        local message = ("%s failed: %s"):format(tool or "the call", fields.message or printed(err))
        fields.message = errors.sandbox("tool_failed", message).message
    end
    return (native.json_encode({ error = fields }))
end

local function find(list, name)
    local names = {}
    for _, tool in ipairs(list) do
        if tool.name == name then
            return tool
        end
        table.insert(names, tool.name)
    end
    local wanted = type(name) == "string" and ('"%s"'):format(compat.cut(name, 64)) or "whose name is a " .. type(name)
    local has = #names == 0 and "there are none" or "there are: " .. table.concat(names, ", ")
    return nil, errors.validation("unknown_tool", ("there is no tool %s; %s"):format(wanted, has))
end

local function input_of(given)
    if is_null(given) then
        return {}
    elseif type(given) == "table" then
        return given
    elseif type(given) ~= "string" then
        return nil, errors.validation("invalid_input", "the input must be a JSON object, got a " .. type(given))
    elseif #given > INPUT_MAX_BYTES then
        local message = "the input has %d bytes, more than the %d that are possible: use several calls"
        return nil, errors.validation("invalid_json", message:format(#given, INPUT_MAX_BYTES))
    elseif not given:find("%S") then
        return {}
    end
    local input, _, message = native.json_decode(given, null)
    if message then
        return nil, errors.validation("invalid_json", "the input is not valid JSON: " .. message)
    elseif is_null(input) then
        return {}
    elseif not given:find("^%s*{") then
        return nil, errors.validation("invalid_input", "the input must be a JSON object, such as {}")
    end
    return input
end

local function call(state, given, name, given_input, context)
    local tool, err = find(sorted("tools.call", given), name)
    if not tool then
        return nil, err
    end
    local input
    input, err = input_of(given_input)
    if not input then
        return nil, err
    end
    state.tool = tool.name
    local result
    result, err = tool.execute(input, context)
    if result == nil and err ~= nil then
        return nil, err
    end
    if result == nil then
        result = null
    end
    local text, _, message = native.json_encode(result, null)
    if not text then
        return nil, errors.sandbox("tool_failed", ("the result of %s is no JSON: %s"):format(tool.name, message))
    end
    return text
end

--- Calls a tool as a model asks for it, and gives what to answer the model. Waits as long as the tool does. Never
--- raises: what the tool raises is an answer too, and so is a wrong argument.
---@param given table<any, chamvi.Tool> tools under any keys; they are found by their `name`
---@param name any
---@param input any JSON text of at most 1 MiB, or a table; empty text, nil and null count as `{}`. A null in the text
---   becomes `sandbox.null`
---@param context? chamvi.ToolContext is passed on to the tool
---@return string text JSON: the tool's result, or `{"error":{"code":...,"message":...,"name":...}}`. Keys are in
---   the order of their bytes, an empty table is an object, bytes that are no UTF-8 become U+FFFD
---@return boolean is_error
function tools.call(given, name, input, context)
    local state = {}
    local ok, text, err = pcall(call, state, given, name, input, context)
    if ok and text then
        return text, false
    end
    if ok then
        return error_text(state.tool, err), true
    end
    return error_text(state.tool, text), true -- what was raised, in its place
end

-- ---- The forms of the APIs ------------------------------------------------------------------------

--- The tools as OpenAI's APIs take them (`tools` of a request), ordered by name.
--- Chat completions: `{ type = "function", ["function"] = { name, description, parameters [, strict] } }`; responses:
--- `{ type = "function", name, description, parameters, strict }`. With `strict` every field of a schema is required,
--- one that was optional may be null, and no others are allowed; a tool then has to take a null for absence.
---@param given table<any, chamvi.Tool> a wrong tool, and one that can't be strict, raises an
---   InvalidAgentDefinitionError
---@param choice? chamvi.OpenAIOptions a wrong one raises an InvalidAgentDefinitionError
---@return table[] # copies
function tools.to_openai(given, choice)
    local chosen = options.check("to_openai", choice, OPENAI_OPTIONS)
    local list = {}
    for _, tool in ipairs(sorted("to_openai", given)) do
        local parameters, complaint = schema.copy(tool.input_schema, chosen.strict)
        if not parameters then
            errors.raise_definition("invalid_option", ("to_openai: %s: %s"):format(tool.name, complaint))
        end
        local definition = { name = tool.name, description = tool.description, parameters = parameters }
        if chosen.api == "responses" then
            definition.type = "function"
            definition.strict = chosen.strict == true -- else that API takes it as true
        else
            definition.strict = chosen.strict or nil
            definition = { type = "function", ["function"] = definition }
        end
        table.insert(list, definition)
    end
    return list
end

--- The tools as Anthropic's messages API takes them (`tools` of a request), ordered by name:
--- `{ name, description, input_schema }`.
---@param given table<any, chamvi.Tool> a wrong tool raises an InvalidAgentDefinitionError
---@return table[] # copies
function tools.to_anthropic(given)
    local list = {}
    for _, tool in ipairs(sorted("to_anthropic", given)) do
        local input_schema, complaint = schema.copy(tool.input_schema, false)
        if not input_schema then
            errors.raise_definition("invalid_option", ("to_anthropic: %s: %s"):format(tool.name, complaint))
        end
        table.insert(list, { name = tool.name, description = tool.description, input_schema = input_schema })
    end
    return list
end

return tools
