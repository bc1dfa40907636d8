-- What providers share: the request that a create takes, and the error that it gives.

local errors = require "chamvi.sandbox.errors"
local options = require "chamvi.sandbox.options"
local rules = require "chamvi.sandbox.rules"
local task = require "chamvi.sandbox.task"

local provider = {}

-- A manager passes the same options to every provider.
local CREATE_OPTIONS = {
    run_id = options.string,
    repo = options.any, -- a model's input
    ref = options.any,
    image = options.string,
    env = options.env,
    limits = options.limits,
    signal = options.signal,
}

---@class chamvi.CreateOptions
---@field run_id string
---@field repo? string a normalized URL; none: an empty git repository
---@field ref? string a branch, tag, full ref name or full commit id
---@field image? string of containers and pods; means nothing for local workspaces
---@field env? table<string, string> wins over the provider's
---@field limits? chamvi.Limits win over the provider's; of a local workspace only `timeout_ms` means something
---@field signal? chamvi.Signal aborts the create

--- Checks the request of a create.
---@param request any a wrong or unknown option raises an InvalidAgentDefinitionError
---@return chamvi.CreateOptions|nil # a copy, its repository normalized
---@return chamvi.Error? err ValidationError `invalid_repo`, `invalid_ref`, `invalid_input`; SandboxError `aborted`
function provider.check_request(request)
    local asked = options.check("create", request, CREATE_OPTIONS, { "run_id" })
    task.check_may_wait("create")
    local err
    if asked.repo ~= nil then
        asked.repo, err = rules.normalize_repo(asked.repo, { allow_file_repos = true })
        if not asked.repo then
            return nil, err
        end
    end
    if asked.signal and asked.signal.aborted then
        return nil, task.aborted(asked.signal)
    end
    return asked
end

--- Layers of variables, later ones winning, as a sorted list of "NAME=value".
---@param ... table<string, string>|nil
---@return string[]
function provider.environment(...)
    local merged, list = {}, {}
    for index = 1, select("#", ...) do
        for name, value in pairs(select(index, ...) or {}) do
            merged[name] = value
        end
    end
    for name, value in pairs(merged) do
        table.insert(list, name .. "=" .. value)
    end
    table.sort(list)
    return list
end

-- What a create returns as it is. All else is `create_failed`.
local OWN_CODES = {
    aborted = true,
    checkout_failed = true,
    engine_unreachable = true,
    forbidden = true,
    image_unavailable = true,
    network_none = true,
    not_ready = true,
}

local function create_failed(where, err, message)
    return errors.sandbox("create_failed", ("no workspace could be made %s: %s"):format(where, message), {
        detail = err.detail,
        cause = err,
    })
end

--- The error of a create for what went wrong in it.
---@param where string "in /tmp/workspaces", "at unix:///run/docker.sock"
---@param err chamvi.Error
---@return chamvi.Error
function provider.create_error(where, err)
    if errors.is_error(err, "ValidationError") or OWN_CODES[err.code] then
        return err
    end
    return create_failed(where, err, err.message)
end

--- The same when what the create had made could not be removed. That is not what `aborted` says: nobody would look.
---@param where string
---@param err chamvi.Error as create_error gave it
---@param left chamvi.Error
---@return chamvi.Error
function provider.not_removed(where, err, left)
    local message = ("%s; and its folder could not be removed: %s"):format(err.message, left.message)
    if err.code == "aborted" then
        return create_failed(where, err, message)
    end
    err.message = message
    return err
end

return provider
