-- Collection: deletes the pods whose annotations say that their time is over.

local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local names = require "chamvi.sandbox.k8s.names"

local SELECTOR = table.concat(constants.SANDBOX_LABEL_SELECTORS, ",")

local function metadata_of(pod)
    return type(pod) == "table" and type(pod.metadata) == "table" and pod.metadata or {}
end

local function is_expired(metadata, now)
    local labels = type(metadata.labels) == "table" and metadata.labels or {}
    local annotations = type(metadata.annotations) == "table" and metadata.annotations or {}
    local text = annotations[constants.EXPIRES_AT_KEY]
    local expires_at = type(text) == "string" and text:find("^%d+$") and tonumber(text) or nil
    return labels[constants.WORKSPACE_LABEL] ~= nil and expires_at ~= nil and expires_at <= now
end

-- Deletes one. The name is the server's: one that is none must not reach a path, where it would mean all pods.
local function remove(client, name)
    if not names.is_subdomain(name) then
        return nil, "a pod of the list has no name that a pod can have"
    end
    local removed, err = client:delete(name)
    return removed, not removed and ("%s: %s"):format(name, err.message) or nil
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
        if is_expired(metadata, now) then
            local removed, failure = remove(client, metadata.name)
            if removed then
                count = count + 1
            else
                table.insert(failures, failure)
            end
        end
    end
    if #failures > 0 then
        local message = ("%d of the expired pods could not be removed, the first: %s"):format(#failures, failures[1])
        return nil, errors.sandbox("gc_failed", message, { count = count, detail = table.concat(failures, "\n") })
    end
    return count
end
