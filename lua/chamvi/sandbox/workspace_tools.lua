-- The tools that a manager gives to a model: create_workspace and dispose_workspace.

local WORKSPACE_ROOT = require("chamvi.sandbox.constants").WORKSPACE_ROOT
local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local is_null = require "chamvi.sandbox.is_null"
local null = require "chamvi.sandbox.null"
local options = require "chamvi.sandbox.options"

local floor = math.floor

---@class chamvi.ToolContext
---@field run_id? string the run that the call belongs to; not needed by the tools of `with_run`
---@field signal? chamvi.Signal aborts the call

---@class chamvi.Tool
---@field name string letters, digits, `_` and `-`, at most 64
---@field description? string for the model
---@field input_schema table a JSON Schema of type "object"
---@field execute fun(input: table, context?: chamvi.ToolContext): any, any the result, or nil and an error

---@class chamvi.WorkspaceToolResult
---@field workspace string the id
---@field root string where the workspace is, as its commands and files are named: "/workspace"
---@field repo string|userdata the normalized URL, or `sandbox.null`
---@field ref string|userdata the ref that was asked for, or `sandbox.null`
---@field commit string|userdata what was checked out, or `sandbox.null`
---@field expiresAt string UTC, as in "2026-01-31T12:00:00.000Z"
---@field reused boolean the run had it already

---@class chamvi.DisposeWorkspaceResult
---@field workspace string the id
---@field disposed boolean true

---@class chamvi.WorkspaceTools
---@field create_workspace chamvi.Tool
---@field dispose_workspace chamvi.Tool

-- ---- What the model is told -----------------------------------------------------------------------

-- OpenAI takes at most 1,024 characters as a description.

local CREATE = [[
Gives you a workspace: a disposable directory, /workspace, with a git repository checked out (an empty one without
"repo"). Run commands and use files in it by the tools that take a workspace id; paths are relative to /workspace. For a
repository that you have already it gives the same workspace as you left it ("reused": true). HEAD is detached and the
clone one commit deep. At "expiresAt", or when the run ends, all its processes and files are gone: push or report what
must be kept.
Error codes: invalid_*: correct the argument as the message says. repo_not_allowed: you may not use it. checkout_failed:
repo or ref doesn't exist or can't be read; check both. ref_conflict: you have it at another ref; git fetch and git
checkout there, or dispose of that workspace. cap_reached: dispose of a workspace you don't need. network_none: only
without "repo". aborted, released, closed: the run ends; stop. Any other: try once more, then report it.]]

local DISPOSE = [[
Ends a workspace at once: kills all its processes and deletes all its files, which can't be undone. Use it to make room
when you have as many workspaces as you may, or to start anew from a clean checkout. It is not needed at the end: all
workspaces of the run are disposed of then.
Error codes: workspace_not_found: you have no workspace of this id, as when it was disposed of before or has expired;
nothing is left to do. invalid_input: correct the argument as the message says. Any other: try once more, then report
it.]]

local REPO = "The git repository: owner/name on GitHub, or an https URL without user name and password. "
    .. "Leave it out for an empty workspace."
local REF = "A branch, a tag or a full commit id of the repository; only together with repo. "
    .. "Leave it out for the default branch."
local WORKSPACE = 'The id of the workspace: "workspace" in the result of create_workspace.'

local function one_line(text)
    return (text:gsub("\n", " "))
end

-- ---- What the model gives -------------------------------------------------------------------------

local function invalid(...)
    return nil, errors.validation("invalid_input", string.format(...))
end

local function kind_of(value)
    return type(value) == "table" and "an object or a list" or "a " .. type(value)
end

-- The input's fields, which are all strings, without those that are null.
local function check_input(tool, input)
    local properties = tool.input_schema.properties
    if is_null(input) then
        input = {}
    elseif type(input) ~= "table" then
        return invalid("the input of %s must be an object, got %s", tool.name, kind_of(input))
    end
    local fields = {}
    for name, value in next, input do -- pairs would call what the table brings along
        if type(name) ~= "string" then
            return invalid("the input of %s must be an object, got a list or one with other keys", tool.name)
        elseif not properties[name] then
            return invalid('%s has no field "%s"; it has: %s', tool.name, compat.cut(name, 64), tool.names)
        elseif not is_null(value) then
            if type(value) ~= "string" then
                return invalid('the field "%s" of %s must be a string, got %s', name, tool.name, kind_of(value))
            end
            fields[name] = value
        end
    end
    return fields
end

-- ---- What the host gives --------------------------------------------------------------------------

-- The context may have more in it, for the host's own tools. A wrong one is the host's mistake and raises.
local function check_context(tool, bound, context)
    local function wrong(what, ...)
        errors.raise_definition("invalid_option", tool .. ": " .. what:format(...))
    end
    if context == nil and bound == nil then
        wrong("the context is missing: pass { run_id = ... }")
    elseif context ~= nil and type(context) ~= "table" then
        wrong("the context must be a table, got a %s", type(context))
    end
    local run_id, signal = bound, context and context.signal
    if run_id == nil then
        run_id = context.run_id
        local complaint = options.string(run_id)
        if complaint then
            wrong("run_id of the context %s", complaint)
        end
    end
    local complaint = signal ~= nil and options.signal(signal)
    if complaint then
        wrong("signal of the context %s", complaint)
    end
    return run_id, signal
end

-- ---- What the model gets --------------------------------------------------------------------------

local MS_MAX = 8.64e15 -- the last moment that JavaScript's Date knows
local MS_PER_DAY = 86400000

-- Epoch milliseconds as toISOString of JavaScript gives them. The days are counted in years that begin with March
-- and eras of 400 years: http://howardhinnant.github.io/date_algorithms.html#civil_from_days
local function iso_string(ms)
    ms = math.max(-MS_MAX, math.min(MS_MAX, floor(ms)))
    local days = floor(ms / MS_PER_DAY) + 719468
    local rest = ms % MS_PER_DAY
    local era = floor(days / 146097)
    local day_of_era = days - era * 146097
    local year_of_era = floor(
        (day_of_era - floor(day_of_era / 1460) + floor(day_of_era / 36524) - floor(day_of_era / 146096)) / 365
    )
    local day_of_year = day_of_era - (365 * year_of_era + floor(year_of_era / 4) - floor(year_of_era / 100))
    local month = floor((5 * day_of_year + 2) / 153) -- 0 is March
    local day = day_of_year - floor((153 * month + 2) / 5) + 1
    month = month < 10 and month + 3 or month - 9
    local year = year_of_era + era * 400 + (month <= 2 and 1 or 0)
    local form = year >= 0 and year <= 9999 and "%04d" or "%+07d"
    return (form .. "-%02d-%02dT%02d:%02d:%02d.%03dZ"):format(
        year,
        month,
        day,
        floor(rest / 3600000),
        floor(rest / 60000) % 60,
        floor(rest / 1000) % 60,
        rest % 1000
    )
end

local function or_null(value)
    if value == nil then
        return null
    end
    return value
end

-- ---- The tools ------------------------------------------------------------------------------------

local CREATE_TOOL = {
    name = "create_workspace",
    names = "repo, ref",
    description = one_line(CREATE),
    input_schema = {
        type = "object",
        properties = {
            repo = { type = "string", description = REPO },
            ref = { type = "string", description = REF },
        },
        additionalProperties = false,
    },
}

function CREATE_TOOL.execute(manager, run_id, signal, fields)
    local request = { repo = fields.repo, ref = fields.ref, signal = signal }
    local workspace, reused = manager:acquire(run_id, request)
    if not workspace then
        return nil, reused -- the error in its place
    end
    local info = workspace.info
    return {
        workspace = workspace.id,
        root = WORKSPACE_ROOT,
        repo = or_null(info.repo),
        ref = or_null(info.ref),
        commit = or_null(info.commit),
        expiresAt = iso_string(info.expires_at),
        reused = reused,
    }
end

local DISPOSE_TOOL = {
    name = "dispose_workspace",
    names = "workspace",
    description = one_line(DISPOSE),
    input_schema = {
        type = "object",
        properties = { workspace = { type = "string", description = WORKSPACE } },
        required = { "workspace" },
        additionalProperties = false,
    },
}

function DISPOSE_TOOL.execute(manager, run_id, _, fields)
    local id = fields.workspace
    if not id then
        return invalid('the field "workspace" is missing: give the id that create_workspace returned')
    end
    local released, err = manager:release(run_id, id)
    if not released then
        return nil, err
    end
    return { workspace = id, disposed = true }
end

--- New tools that create and dispose workspaces of a manager.
---@param manager { acquire: function, release: function }
---@param bound? string the run of every call, whatever its context says; nil: the context's `run_id`
---@return chamvi.WorkspaceTools
return function(manager, bound)
    local function tool_of(definition)
        return {
            name = definition.name,
            description = definition.description,
            input_schema = compat.deep_copy(definition.input_schema),
            execute = function(input, context)
                local run_id, signal = check_context(definition.name, bound, context)
                local fields, err = check_input(definition, input)
                if not fields then
                    return nil, err
                end
                return definition.execute(manager, run_id, signal, fields)
            end,
        }
    end
    return { create_workspace = tool_of(CREATE_TOOL), dispose_workspace = tool_of(DISPOSE_TOOL) }
end
