-- The rules: what a repository, a ref, a path, an amount and an environment may be. The checks themselves are in
-- C (src/rules); here they become the two kinds of errors: a model's input is returned, a wrong configuration
-- raises. No message holds a value that was given.

local DEFAULT_LIMITS = require("chamvi.sandbox.constants").DEFAULT_LIMITS
local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"
local options = require "chamvi.sandbox.options"

local rules = {}

local NORMALIZE_OPTIONS = { allow_file_repos = options.boolean }

---@class chamvi.NormalizeRepoOptions
---@field allow_file_repos? boolean accept file:///absolute/path; default false

--- The one URL of a repository: `owner/name` on GitHub, or an https URL, in a form that stays the same when it is
--- normalized again. Refuses other transports, user info, queries, fragments and whatever git could take for
--- something else. At most 2,048 bytes.
---@param input any
---@param given? chamvi.NormalizeRepoOptions a wrong one raises an InvalidAgentDefinitionError
---@return string|nil url
---@return chamvi.Error? err ValidationError `invalid_repo`
function rules.normalize_repo(input, given)
    local allow_file = given ~= nil and options.check("normalize_repo", given, NORMALIZE_OPTIONS).allow_file_repos
    local url, code, message = native.normalize_repo(input, allow_file)
    if not url then
        return nil, errors.validation(code, message)
    end
    return url
end

--- Whether git would take it for the name of a branch or tag, a full ref name or a full commit id: what
--- `git check-ref-format refs/heads/<ref>` accepts, 1 to 255 bytes, not beginning with a dash.
---@param ref any
---@return string|nil ref the same
---@return chamvi.Error? err ValidationError `invalid_ref`
function rules.check_git_ref(ref)
    local same, code, message = native.check_git_ref(ref)
    if not same then
        return nil, errors.validation(code, message)
    end
    return same
end

--- The normalized absolute path, /workspace or below, of a path that is relative to the root or absolute. Only by
--- its text: links are resolved where the file is opened. At most 4,096 bytes, no NUL.
---@param path any
---@return string|nil absolute
---@return chamvi.Error? err ValidationError `invalid_path`
function rules.resolve_workspace_path(path)
    local absolute, code, message = native.workspace_path(path)
    if not absolute then
        return nil, errors.validation(code, message)
    end
    return absolute
end

local function amount(what, parse, value)
    local number, code, message = parse(value)
    if not number then
        errors.raise_definition(code, ("%s: the value %s"):format(what, message))
    end
    return number
end

--- CPU cores from a Kubernetes quantity without a sign: "2", "0.5", "500m". Finer than 10^-9 is rounded up.
---@param value string anything else than such a quantity above zero raises an InvalidAgentDefinitionError
---@return number cores
function rules.parse_cpu(value)
    return amount("parse_cpu", native.parse_cpu, value)
end

--- Bytes from a Kubernetes quantity without a sign: "2Gi", "500M", "1e9". A fraction of a byte counts as one.
---@param value string anything else than such a quantity above zero raises an InvalidAgentDefinitionError, also one
---   past 2^63 - 1 (on LuaJIT past 2^53)
---@return integer bytes
function rules.parse_memory(value)
    return amount("parse_memory", native.parse_memory, value)
end

---@class chamvi.Limits
---@field cpu? string cores, a Kubernetes quantity
---@field memory? string bytes, a Kubernetes quantity
---@field storage? string bytes of /workspace, a Kubernetes quantity
---@field pids? integer
---@field timeout_ms? integer lifetime of the workspace

--- All limits: DEFAULT_LIMITS with each layer over it, field by field, the last one winning.
---@param ... chamvi.Limits|nil nil is skipped; a wrong or unknown field raises an InvalidAgentDefinitionError
---@return chamvi.Limits limits a new table with every field
function rules.resolve_limits(...)
    -- Written out, so that the table has its size from the start: half the time of this function.
    local limits = {
        cpu = DEFAULT_LIMITS.cpu,
        memory = DEFAULT_LIMITS.memory,
        storage = DEFAULT_LIMITS.storage,
        pids = DEFAULT_LIMITS.pids,
        timeout_ms = DEFAULT_LIMITS.timeout_ms,
    }
    for index = 1, select("#", ...) do
        local layer = select(index, ...)
        if layer ~= nil then
            local wrong = options.limits(layer)
            if wrong then
                errors.raise_definition("invalid_option", ("resolve_limits: layer %d %s"):format(index, wrong))
            end
            for name, value in pairs(layer) do
                limits[name] = value
            end
        end
    end
    return limits
end

--- Raises an InvalidAgentDefinitionError unless it is nil or a table of environment variables: names of letters,
--- digits and underscores, string values without NUL, at most 131,071 bytes for each as NAME=value.
---@param env table<string, string>|nil
function rules.assert_sandbox_env(env)
    local wrong = env ~= nil and options.env(env)
    if wrong then
        errors.raise_definition("invalid_option", "assert_sandbox_env: the environment " .. wrong)
    end
end

---@class chamvi.OutputCollector
---@field truncated boolean something is missing in the text: it was dropped, or is unfinished and does not fit
---@field write fun(self: chamvi.OutputCollector, chunk: string) takes the next raw bytes
---@field text fun(self: chamvi.OutputCollector): string what is kept so far, as valid UTF-8; changes nothing

--- Keeps the first bytes of an output as valid UTF-8: invalid input becomes U+FFFD, a character that is split
--- between chunks is joined, and nothing is kept after the first character that does not fit. `max_bytes`, at least
--- 0, is for the text; anything else is a bad argument.
---@type fun(max_bytes: integer): chamvi.OutputCollector
rules.create_output_collector = native.create_output_collector

--- A random UUID, version 4.
---@return string|nil
---@return chamvi.Error? err SandboxError `create_failed`: the system gives no random bytes
function rules.uuid()
    local uuid, code, message = native.uuid()
    if not uuid then
        return nil, errors.sandbox(code, message)
    end
    return uuid
end

return rules
