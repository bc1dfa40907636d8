-- What the creates of containers and pods share: how they are waited for, what is left when they fail, and who is told
-- how they go on.

local at_most = require "chamvi.sandbox.at_most"
local callback = require "chamvi.sandbox.callback"
local errors = require "chamvi.sandbox.errors"
local printed = require "chamvi.sandbox.printed"
local task = require "chamvi.sandbox.task"
local timer = require "chamvi.sandbox.timer"

local creation = {}

-- How often and how long apart something is looked for that has to go.
local CLEAN_UP_TRIES = 5
local CLEAN_UP_PAUSE_MS = 1000

-- Has the container or pod of a create that failed go, if there is one. When the answer to the request for it was lost,
-- it may still come, and is looked for a while. Keeps in `last.err` why it may be left.
local function try_to_remove(signal, transport, last)
    for try = 1, CLEAN_UP_TRIES do
        local removed, err, found = transport:remove(signal)
        if signal.aborted then
            return
        end
        last.err = err
        if removed and (found or transport.created) then
            return
        elseif removed then
            last.err = errors.sandbox("transport_lost", "nobody knows whether it was made, and it has not come so far")
        end
        if try < CLEAN_UP_TRIES then
            task.pause(CLEAN_UP_PAUSE_MS)
        end
    end
end

--- Calls `fn(...)`, a part of a create; what it raises becomes an error, so that what there is by then is removed.
---@param fn function
---@param ... any
---@return any # what `fn` returns first, or nil
---@return chamvi.Error? err what it returns second, or `engine_failed`
function creation.call(fn, ...)
    local called, value, err = pcall(fn, ...)
    if called then
        return value, err
    end
    return nil, errors.sandbox("engine_failed", "the create raised: " .. printed(value), { cause = value })
end

--- Removes what a create that failed has made, and tells `on_error` when that may be left. Waits.
---@param transport chamvi.Transport its `remove(signal)` gives whether there was something, third; its `created` is
---   true, false when there certainly is nothing, or nil
---@param what string "the container x"
---@param limit_ms integer for all tries together
---@param on_error fun(err: any)
function creation.clean_up(transport, what, limit_ms, on_error)
    if transport.created == false then
        return
    end
    local last = { err = errors.sandbox("timed_out", "the server does not answer") }
    local called, cause = at_most(limit_ms, try_to_remove, transport, last)
    if called == false then
        last.err = errors.sandbox("remove_failed", "its removal raised: " .. printed(cause), { cause = cause })
    end
    if last.err then
        local message = ("%s of a create that failed may be left: %s"):format(what, last.err.message)
        on_error(errors.sandbox("remove_failed", message, { cause = last.err }))
    end
end

-- Has the workspace go of a create that nobody waits for any more.
local function abandon(job, on_error)
    task.start(function()
        local workspace = task.wait(job)
        local disposed, err = not workspace, nil
        if workspace then
            disposed, err = workspace:dispose()
        end
        if not disposed then
            on_error(err)
        end
    end)
end

-- What is done with the job, or that long after an abort; and what ends the watch. Apart from the wait, as in task.lua.
local function watch_create(job, signal, limit_ms)
    local either, wake = task.wakeable()
    local cancel
    job:subscribe(wake)
    local forget = signal:on_abort(function()
        cancel = timer(limit_ms, wake)
    end)
    return either, function()
        forget()
        if cancel then
            cancel()
        end
    end
end

--- Waits for a create. After an abort not for ever: a server that hangs may have made something all the same, which is
--- then removed in the background.
---@param job chamvi.Future of a workspace, or nil and an error
---@param signal chamvi.Signal|nil
---@param limit_ms integer from the abort
---@param on_error fun(err: any)
---@return chamvi.Workspace|nil
---@return chamvi.Error? err
function creation.await(job, signal, limit_ms, on_error)
    if signal and not job.done then
        local either, over = watch_create(job, signal, limit_ms)
        task.wait(either)
        over()
        if not job.done then
            abandon(job, on_error)
            return nil, task.aborted(signal)
        end
    end
    return task.wait(job)
end

--- A function that tells `on_event` of an event; what that raises goes to `on_error`.
---@param on_event function|nil
---@param on_error fun(err: any)
---@return fun(event: table)
function creation.event_teller(on_event, on_error)
    return function(event)
        if on_event then
            local ok, err = callback.call("on_event", on_event, event)
            if not ok then
                on_error(err)
            end
        end
    end
end

return creation
