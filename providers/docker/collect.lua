-- Collection: removes the containers whose labels say that their time is over.

local constants = require "chamvi.sandbox.constants"
local engines = require "chamvi.sandbox.docker.engine"
local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"
local transports = require "chamvi.sandbox.docker.transport"

-- All containers of workspaces, in any state.
local function list(engine)
    local filters = assert(native.json_encode({ label = constants.SANDBOX_LABEL_SELECTORS }))
    local answer, err = engine:request("GET", "/containers/json?all=1&filters=" .. engines.escape(filters))
    if not answer then
        return nil, err
    end
    if answer.status ~= 200 or type(answer.json) ~= "table" then
        return nil, engines.failure("listing the containers", answer)
    end
    return answer.json
end

local function is_expired(found, now)
    local labels = type(found) == "table" and type(found.Labels) == "table" and found.Labels or {}
    local expires_at = tonumber(labels[constants.EXPIRES_AT_KEY] or "")
    return labels[constants.WORKSPACE_LABEL] ~= nil and expires_at ~= nil and expires_at <= now
end

--- Runs as a job.
---@param engine chamvi.DockerEngine
---@param now integer epoch milliseconds
---@return integer|nil count
---@return chamvi.Error? err
return function(engine, now)
    local containers, err = list(engine)
    if not containers then
        return nil, err
    end
    local count, failures = 0, {}
    for _, found in ipairs(containers) do
        if is_expired(found, now) and type(found.Id) == "string" then
            local removed, failure = transports.remove(engine, found.Id)
            if removed then
                count = count + 1
            else
                table.insert(failures, ("%s: %s"):format(found.Id, failure.message))
            end
        end
    end
    if #failures > 0 then
        local message = ("%d of the expired containers could not be removed, the first: %s"):format(#failures, failures[1])
        return nil, errors.sandbox("gc_failed", message, { count = count, detail = table.concat(failures, "\n") })
    end
    return count
end
