-- Collection: removes what belongs to workspaces whose labels say that their time is over.

local constants = require "chamvi.sandbox.constants"
local engines = require "chamvi.sandbox.docker.engine"
local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"
local remove = require "chamvi.sandbox.docker.remove"

-- What the engine lists at a path.
local function list(engine, path, filters)
    filters.label = constants.SANDBOX_LABEL_SELECTORS
    local answer, err = engine:request("GET", path .. "filters=" .. engines.escape(assert(native.json_encode(filters))))
    if not answer then
        return nil, err
    end
    if answer.status ~= 200 or type(answer.json) ~= "table" then
        return nil, engine:failure("listing what has expired", answer)
    end
    return answer.json
end

local function is_expired(found, now)
    local labels = type(found) == "table" and type(found.Labels) == "table" and found.Labels or {}
    local expires_at = tostring(labels[constants.EXPIRES_AT_KEY]):match("^%d+$")
    return labels[constants.WORKSPACE_LABEL] ~= nil and expires_at ~= nil and tonumber(expires_at) <= now
end

-- Removes those that have expired. Goes on past those that can't be removed.
local function sweep(engine, found, key, delete, now, sums)
    for _, one in ipairs(type(found) == "table" and found or {}) do
        if is_expired(one, now) and type(one[key]) == "string" then
            local removed, err = delete(engine, one[key])
            if not removed then
                table.insert(sums.failures, ("%s: %s"):format(one[key], err.message))
            elseif removed ~= "missing" then
                sums.count = sums.count + 1
            end
        end
    end
end

--- Runs as a job.
---@param engine chamvi.DockerEngine
---@param now integer epoch milliseconds
---@return integer|nil count
---@return chamvi.Error? err
return function(engine, now)
    local sums = { count = 0, failures = {} }
    local containers, err = list(engine, "/containers/json?all=1&", {})
    if not containers then
        return nil, err
    end
    sweep(engine, containers, "Id", remove.container, now, sums)

    -- Volumes whose containers somebody has removed without them.
    local volumes
    volumes, err = list(engine, "/volumes?", { dangling = { "true" } })
    if volumes then
        sweep(engine, volumes.Volumes, "Name", remove.volume, now, sums)
    else
        table.insert(sums.failures, err.message)
    end

    if #sums.failures > 0 then
        local message = ("%d of the expired containers and volumes could not be removed, the first: %s"):format(
            #sums.failures, sums.failures[1])
        return nil, errors.sandbox("gc_failed", message, {
            count = sums.count,
            detail = table.concat(sums.failures, "\n"),
        })
    end
    return sums.count
end
