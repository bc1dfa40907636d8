-- What a workspace stands on whose commands a supervisor runs: the core has a stream to it.

local constants = require "chamvi.sandbox.constants"
local loop = require "chamvi.sandbox.loop"
local task = require "chamvi.sandbox.task"

local supervised = {}

---@class chamvi.SupervisedBackend: chamvi.Backend
local Supervised = {}
Supervised.__index = Supervised

--- A backend on a running supervisor.
---@param handle integer from core:launch
---@param remove fun(): true?, chamvi.Error? ends the supervisor and deletes all; called again after a failure
---@return chamvi.SupervisedBackend
function supervised.new(handle, remove)
    return setmetatable({
        handle = handle,
        remove_all = remove,
        unkilled = nil, -- the error of a removal that left processes alive
    }, Supervised)
end

function Supervised:exec(request)
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    return task.complete(
        request,
        core:exec(
            self.handle,
            request.argv,
            request.cwd,
            request.timeout_ms,
            constants.OUTPUT_MAX_BYTES,
            request.stdin,
            request.on_output ~= nil
        )
    )
end

function Supervised:read_file(path)
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    return task.complete(nil, core:read_file(self.handle, path, constants.FILE_MAX_BYTES))
end

function Supervised:write_file(path, content)
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    return task.complete(nil, core:write_file(self.handle, path, content))
end

function Supervised:is_lost(err)
    local core = loop.core()
    return err.code == "gone" or err.code == "transport_lost" and core ~= nil and core:lost(self.handle)
end

function Supervised:remove()
    local removed, err = self.remove_all()
    -- What could not be killed is nobody's child any more: no later removal can tell that it has ended.
    self.unkilled = self.unkilled or not removed and err.code == "kill_failed" and err or nil
    if self.unkilled then
        return nil, self.unkilled
    end
    return removed, err
end

return supervised
