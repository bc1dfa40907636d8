-- Removal of containers and volumes.

local engines = require "chamvi.sandbox.docker.engine"
local limits = require "chamvi.sandbox.docker.limits"

local remove = {}

-- Asks the engine to remove what is at the path, and asks again where it refuses for a while: while somebody else
-- removes it too (409), as the engine itself does when a container's time is over, while its container is not quite
-- gone (409), while its processes take long to die or another program holds its files (5xx: a container of Docker's may
-- be "dead" then, and goes with the next request).
local function delete(engine, path, what, signal)
    local refusal
    local removed, err = engines.poll(limits.BUSY, function()
        local answer, failure = engine:request("DELETE", path, { timeout_ms = limits.REMOVE, signal = signal })
        if not answer then
            return nil, failure
        end
        if answer.status == 204 or answer.status == 200 then
            return "removed"
        elseif answer.status == 404 then
            return refusal and "gone" or "missing"
        end
        refusal = engine:failure("removing the " .. what, answer, "remove_failed")
        return nil, answer.status ~= 409 and answer.status < 500 and refusal or nil
    end)
    if removed then
        return removed
    end
    return nil, err or refusal
end

--- Removes a container in any state, with its anonymous volumes. Waits until it is gone.
---@param engine chamvi.DockerEngine
---@param name string or an id
---@param signal? chamvi.Signal
---@return "removed"|"gone"|"missing"|nil "gone": it was there, and somebody else has removed it
---@return chamvi.Error? err
function remove.container(engine, name, signal)
    return delete(engine, "/containers/" .. name .. "?force=1&v=1", "container", signal)
end

--- Removes a volume that no container has any more.
---@param engine chamvi.DockerEngine
---@param name string
---@param signal? chamvi.Signal
---@return "removed"|"gone"|"missing"|nil "gone": it was there, and somebody else has removed it
---@return chamvi.Error? err
function remove.volume(engine, name, signal)
    return delete(engine, "/volumes/" .. engines.escape(name), "volume", signal)
end

return remove
