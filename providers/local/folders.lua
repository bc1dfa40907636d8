-- The folders of one local workspace and its record: made and deleted by a supervisor, never by this
-- program, so that a large deletion stalls nobody.

local errors = require "chamvi.sandbox.errors"
local loop = require "chamvi.sandbox.loop"
local native = require "chamvi.sandbox.core"
local task = require "chamvi.sandbox.task"

local folders = {}

-- What a workspace owns under the root. Its record is the last to go, so that a removal which was cut
-- short is found again.
local function names(id)
    return { id, id .. ".home", id .. ".tmp", id .. ".json" }
end

-- Starts a supervisor, waits until it is ready, and returns the core's handle of it.
local function launch(request)
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    local handle, id, message, detail = core:launch(request)
    if not handle then
        return nil, errors.from_core(id, message, { detail = detail })
    end
    local ready
    ready, err = task.complete(nil, id)
    if not ready then
        return nil, err
    end
    return handle
end

--- Makes the record and the folders of a workspace and starts its supervisor.
---@param root string
---@param id string a UUID
---@param info chamvi.WorkspaceInfo
---@param env string[] NAME=value
---@return integer|nil handle
---@return chamvi.Error? err
function folders.create(root, id, info, env)
    local record, code, message = native.json_encode({
        run_id = info.run_id,
        created_at = info.created_at,
        expires_at = info.expires_at,
    })
    if not record then
        return nil, errors.from_core(code, message)
    end

    local handle, err = launch({ base = root, names = names(id), env = env, create = true, record = record })
    if handle then
        return handle
    end
    if err.code ~= "transport_lost" then -- else folders may be there as well, and the record leads to them
        native.record_drop(root, id)
    end
    return nil, err
end

--- Kills what runs in the workspace and deletes all that it stored.
---@param root string
---@param id string
---@param handle? integer of its supervisor, good for one call; nil, or when that one can't: a new one does it
---@param listed? boolean a collector's, which has seen the record
---@return true|nil
---@return chamvi.Error? err `record_locked` when another process is at it, or `listed` and has done it
function folders.remove(root, id, handle, listed)
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    if handle then
        local removed
        removed, err = task.complete(nil, core:remove(handle))
        -- Commands can take a supervisor's limits from it: what it can't delete a new one may.
        if removed or err.code ~= "transport_lost" and err.code ~= "remove_failed" then
            return removed, err
        end
    end
    handle, err = launch({
        base = root,
        names = names(id),
        env = {},
        remove_only = true,
        locked = true,
        listed = listed,
    })
    if not handle and err.code == "record_locked" then
        return nil, err
    elseif not handle then
        local message = "the workspace could not be removed: " .. err.message
        return nil, errors.sandbox("remove_failed", message, { cause = err })
    end
    return task.complete(nil, core:remove(handle))
end

return folders
