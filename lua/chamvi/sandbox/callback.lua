-- User code that runs where nothing may wait: `on_output`, abort listeners, finalizers.

local compat = require "chamvi.sandbox.compat"
local native = require "chamvi.sandbox.core"

local callback = {}

-- The callbacks that are being called now, outermost first: what each is, and the task that it belongs to, if any.
local running = {}

local function finish(what, thread, resumed, ...)
    local yielded = resumed and compat.status(thread) ~= "dead"
    if yielded and coroutine.close then
        coroutine.close(thread) -- its to-be-closed variables belong to the callback too
    end
    table.remove(running)
    if yielded then
        return false, what .. " must not yield"
    end
    if not resumed then
        return false, ...
    end
    return ...
end

--- Calls `fn` like pcall, as a callback that belongs to a task. In a coroutine of its own, so that a yield in it is a
--- failure too and never reaches whoever happens to run the core.
---@param owner table|nil see `owner` of chamvi.HostAdapter
---@param what string names the callback in messages
---@param fn function
---@return boolean ok
---@return any ... the results, or the raised value
function callback.call_for(owner, what, fn, ...)
    table.insert(running, { what = what, owner = owner })
    local thread = compat.create(pcall)
    return finish(what, thread, compat.resume(thread, fn, ...))
end

--- The same for a callback of whoever calls.
---@param what string
---@param fn function
---@return boolean ok
---@return any ...
function callback.call(what, fn, ...)
    return callback.call_for(callback.owner(), what, fn, ...)
end

--- The task that the callback belongs to which is being called now, or nil.
---@return table?
function callback.owner()
    local innermost = running[#running]
    return innermost and innermost.owner
end

--- The callback that is being called now, or nil. A finalizer is one: it runs in the middle of whatever allocates, the
--- library's own code included.
---@return string?
function callback.current()
    local innermost = running[#running]
    return native.in_finalizer() and "a finalizer (__gc)" or innermost and innermost.what
end

return callback
