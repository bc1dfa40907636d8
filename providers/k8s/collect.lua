-- Collection: deletes the pods whose annotations say that their time is over.

local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"

local SELECTOR = table.concat(constants.SANDBOX_LABEL_SELECTORS, ",")

local function metadata_of(pod)
    return type(pod) == "table" and type(pod.metadata) == "table" and pod.metadata or {}
end

local function is_expired(metadata, now)
    local labels = type(metadata.labels) == "table" and metadata.labels or {}
    local annotations = type(metadata.annotations) == "table" and metadata.annotations or {}
    local expires_at = tonumber(annotations[constants.EXPIRES_AT_KEY] or "")
    return labels[constants.WORKSPACE_LABEL] ~= nil and expires_at ~= nil and expires_at <= now
end

--- Runs as a job.
---@param client chamvi.PodClient
---@param now integer epoch milliseconds
---@return integer|nil count
---@return chamvi.Error? err
return function(client, now)
    local pods, err = client:list(SELECTOR)
    if not pods then
        return nil, err
    end
    local count, failures = 0, {}
    for _, pod in ipairs(pods) do
        local metadata = metadata_of(pod)
        if is_expired(metadata, now) and type(metadata.name) == "string" then
            local removed, failure = client:delete(metadata.name)
            if removed then
                count = count + 1
            else
                table.insert(failures, ("%s: %s"):format(metadata.name, failure.message))
            end
        end
    end
    if #failures > 0 then
        local message = ("%d of the expired pods could not be removed, the first: %s"):format(#failures, failures[1])
        return nil, errors.sandbox("gc_failed", message, { count = count, detail = table.concat(failures, "\n") })
    end
    return count
end
