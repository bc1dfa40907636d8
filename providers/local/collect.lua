-- Collection: removes the workspaces under a root whose lifetime is over. Commands of a workspace can change
-- its record, so a record only says when, never what: that follows from its name.

local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local folders = require "chamvi.sandbox.local.folders"
local loop = require "chamvi.sandbox.loop"
local native = require "chamvi.sandbox.core"
local task = require "chamvi.sandbox.task"

-- How often, and after how long, it is looked whether a workspace's owner has ended, where the system can't tell.
local END_CHECKS = 100
local END_CHECK_MS = 50

-- The time of expiry that the record gives, nil when it gives none.
local function expiry(record)
    local content = native.json_decode(record.text)
    local expires_at = type(content) == "table" and content.expires_at
    return type(expires_at) == "number" and expires_at or nil
end

local function is_expired(root, record, now)
    local expires_at = expiry(record)
    if expires_at then
        return expires_at <= now
    end
    -- A damaged record. Whoever still looks after the workspace knows better; without anybody, it has had
    -- the time that a workspace has by default.
    return record.modified_ms + constants.DEFAULT_LIMITS.timeout_ms <= now and not native.record_owned(root, record.id)
end

-- Waits until nobody looks after the workspace any more.
local function wait_unowned(core, root, id)
    for _ = 1, END_CHECKS do
        if not native.record_owned(root, id) then
            return true
        end
        task.complete(nil, core:timer(END_CHECK_MS))
    end
    return nil, errors.sandbox("gc_failed", "the workspace's guard does not end")
end

-- Ends whoever looks after the workspace, and removes it. Returns false when another collector is
-- at it, or was quicker.
local function remove(core, root, id)
    local operation, code, message = core:end_owner(root, id)
    if operation ~= false then
        local ended, err
        if operation == true then
            ended, err = wait_unowned(core, root, id)
        else
            ended, err = task.complete(nil, operation, code, message)
        end
        if not ended then
            return nil, err
        end
    end
    local removed, err = folders.remove(root, id, nil, true)
    if not removed and err.code == "record_locked" then
        return false
    end
    return removed, err
end

--- Runs as a job.
---@param root string
---@param now integer epoch milliseconds
---@return integer|nil count
---@return chamvi.Error? err
return function(root, now)
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    local records, code, message = native.records(root)
    if not records then
        return nil, errors.sandbox(code, message, { count = 0 })
    end

    local count, failures = 0, {}
    for _, record in ipairs(records) do
        if is_expired(root, record, now) then
            local removed, failure = remove(core, root, record.id)
            if removed then
                count = count + 1
            elseif failure then
                table.insert(failures, ("%s: %s"):format(record.id, failure.message))
            end
        end
    end
    if #failures > 0 then
        message = ("%d of the expired workspaces could not be removed, the first: %s"):format(#failures, failures[1])
        return nil, errors.sandbox("gc_failed", message, { count = count, detail = table.concat(failures, "\n") })
    end
    return count
end
