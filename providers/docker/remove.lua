-- Removal of containers and volumes.

local engines = require "chamvi.sandbox.docker.engine"
local limits = require "chamvi.sandbox.docker.limits"

local remove = {}

local function delete(engine, path, signal)
    return engine:request("DELETE", path, { timeout_ms = limits.REMOVE, signal = signal })
end

-- Waits until somebody else has removed what is at the path.
local function await_removal(engine, path, signal)
    return engines.poll(limits.REMOVE, function()
        local answer, err = engine:request("GET", path, { signal = signal })
        if not answer then
            return nil, err
        end
        return answer.status == 404 or nil
    end)
end

--- Removes a container in any state, with its anonymous volumes. Waits until it is gone.
---@param engine chamvi.DockerEngine
---@param name string or an id
---@param signal? chamvi.Signal
---@return "removed"|"missing"|nil
---@return chamvi.Error? err
function remove.container(engine, name, signal)
    local path = "/containers/" .. name
    local answer, err = delete(engine, path .. "?force=1&v=1", signal)
    if not answer then
        return nil, err
    end
    if answer.status == 204 or answer.status == 200 then
        return "removed"
    end
    if answer.status == 404 then
        return "missing"
    end
    local failure = engines.failure("removing the container", answer, "remove_failed")
    if answer.status ~= 409 then
        return nil, failure
    end
    -- Somebody else removes it, as the engine itself does when its time is over.
    local gone
    gone, err = await_removal(engine, path .. "/json", signal)
    if not gone then
        return nil, err or failure
    end
    return "removed"
end

--- Removes a volume that no container has any more.
---@param engine chamvi.DockerEngine
---@param name string
---@param signal? chamvi.Signal
---@return "removed"|"missing"|nil
---@return chamvi.Error? err
function remove.volume(engine, name, signal)
    local answer, err = delete(engine, "/volumes/" .. engines.escape(name), signal)
    if not answer then
        return nil, err
    end
    if answer.status == 404 then
        return "missing"
    end
    if answer.status == 204 or answer.status == 200 then
        return "removed"
    end
    return nil, engines.failure("removing the volume", answer, "remove_failed")
end

return remove
