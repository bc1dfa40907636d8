-- Waiting. Library code waits for futures; how, depends on who waits:
--
-- - A job is a coroutine of the library's own (a create, a disposal). Any pump resumes it, also that of a
--   program which blocks, so that its work goes on whoever waits for what.
-- - Everything else waits as the host says (host/init.lua): its tasks yield, other code runs the core.

local callback = require "chamvi.sandbox.callback"
local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local host = require "chamvi.sandbox.host"
local loop = require "chamvi.sandbox.loop"
local native = require "chamvi.sandbox.core"
local printed = require "chamvi.sandbox.printed"

local task = {}

local jobs = {} -- the coroutines of the jobs that have not ended

---@class chamvi.Future
---@field done boolean
local Future = {}
Future.__index = Future

--- A value that comes later.
---@return chamvi.Future
function task.future()
    return setmetatable({ done = false, _waiters = {} }, Future)
end

--- A future and a function without arguments that sets it, for what is to end a wait.
---@return chamvi.Future
---@return fun() wake
function task.wakeable()
    local future = task.future()
    return future, function()
        future:set()
    end
end

local function settle(future, failed, results)
    if future.done then
        return
    end
    future.done, future._failed, future._results = true, failed, results
    local waiters = future._waiters
    future._waiters = nil
    for _, wake in ipairs(waiters) do
        wake()
    end
end

--- Gives the future its results; only the first call counts.
function Future:set(...)
    settle(self, false, compat.pack(...))
end

--- Has everyone who waits raise `err`.
---@param err any
function Future:fail(err)
    settle(self, true, { n = 1, err })
end

--- Has `wake()` called once when the future is done, which it is not yet. `wake` must not yield.
---@param wake fun()
function Future:subscribe(wake)
    table.insert(self._waiters, wake)
end

--- Tells how to find out whether the host has ended the task that waits for this.
---@param is_abandoned fun(): boolean
function Future:abandon_when(is_abandoned)
    self._is_abandoned = is_abandoned
end

--- Whether the host has ended the task that waits, so that nobody will get the results.
---@return boolean
function Future:is_abandoned()
    return self._is_abandoned ~= nil and self._is_abandoned()
end

local function resume(thread, ...)
    local ok, err = compat.resume(thread, ...)
    if not ok then
        jobs[thread] = nil
        error(err, 0) -- only for want of memory or stack: jobs run under pcall
    end
end

local function is_job(thread)
    return thread ~= nil and jobs[thread] ~= nil
end

--- Whether the caller is a job itself, not a coroutine that one has made.
---@return boolean
function task.in_job()
    return is_job(coroutine.running())
end

-- The callback that the caller is inside of, if any, and that may not wait; a job may that began in one.
local function forbids_waiting()
    local inside = callback.current()
    return inside and (not task.in_job() or native.in_finalizer()) and inside
end

--- Raises unless the caller may wait here. To be called before anything is started.
---@param what string the function that would wait
function task.check_may_wait(what)
    local inside, alone = forbids_waiting(), false
    if not inside and not task.in_job() then
        local adapter = host.current()
        if adapter.forbids_waiting then
            inside, alone = adapter.forbids_waiting()
        end
    end
    if inside then
        local advice = alone and "" or ": use sandbox.spawn there"
        error(("%s waits, and %s must not%s"):format(what, inside, advice), 3)
    end
end

--- Whether a wait would work here: not in a callback, nor where a task or job can't yield, as when its
--- coroutine is closed or a C function has called it.
---@return boolean
function task.can_wait()
    if task.in_job() then
        return compat.is_yieldable()
    end
    return not callback.current() and host.current().can_wait()
end

--- Has `ended()`, which must not wait, called when the host has ended the task that calls, as nginx does with requests:
--- nothing in the task itself is run then. Its variables must not be those of a function that waits.
---@param ended fun()
---@return fun() forget ends that
function task.guard(ended)
    local adapter = not task.in_job() and host.current()
    return adapter and adapter.guard and adapter.guard(ended) or function() end
end

--- Waits until the future is done.
---@param future chamvi.Future
---@return any ... its results; raises when it failed
function task.wait(future)
    if not future.done then
        local thread = coroutine.running()
        if is_job(thread) and compat.is_yieldable() then
            future:subscribe(function()
                resume(thread)
            end)
            compat.yield()
        else
            host.current().wait(future)
        end
    end
    local results = future._results
    if future._failed then
        error(results[1], 0)
    end
    return compat.unpack(results, 1, results.n)
end

--- The task that calls, or whose callback does, for `call_for` of chamvi.sandbox.callback.
---@return table|nil
function task.owner()
    if callback.current() then
        return callback.owner()
    end
    local adapter = host.current()
    return adapter.owner and adapter.owner()
end

--- Starts a job: `fn(...)` in a coroutine of the library's own.
---@param fn function
---@return chamvi.Future # of its results
function task.start(fn, ...)
    local future = task.future()
    local thread
    local function ended(ok, ...)
        jobs[thread] = nil
        if ok then
            future:set(...)
        else
            future:fail((...))
        end
    end
    thread = compat.create(function(...)
        ended(pcall(fn, ...))
    end)
    jobs[thread] = true
    resume(thread, ...)
    return future
end

local function abort_error(message, cause)
    return errors.sandbox("aborted", message, { cause = cause })
end

--- The error of a call whose signal was aborted.
---@param signal chamvi.Signal
---@return chamvi.Error
function task.aborted(signal)
    local reason = signal.reason
    local message = type(reason) == "string" and "the call was aborted: " .. reason or "the call was aborted"
    return abort_error(message, reason)
end

--- The error of a call whose `on_output` failed.
---@param cause any what it raised
---@return chamvi.Error
function task.output_failed(cause)
    return abort_error("on_output failed: " .. printed(cause), cause)
end

-- Hands on what the core tells of an operation. Apart from the wait, since a host may end a task that waits and use its
-- stack again: the core must not keep closures whose variables are there. Nor is `on_output` called then.
local function watch_operation(id, signal, on_output)
    local owner = on_output and task.owner()
    local state = { future = task.future() } -- and `broken`, the error of an `on_output` that failed

    local function abort(text)
        loop.core():abort(id, "aborted", text)
    end

    loop.expect(id, function(what, ...)
        if what ~= "output" then
            state.future:set(what, ...)
        elseif not state.broken and not state.future:is_abandoned() then
            local ok, cause = callback.call_for(owner, "on_output", on_output, ...)
            if not ok then
                state.broken = task.output_failed(cause)
                abort(state.broken.message)
            end
        end
    end)

    state.forget = signal and signal:on_abort(function()
        abort(task.aborted(signal).message)
    end)
    return state
end

--- Waits for an operation of the core.
---@param watch? { signal?: chamvi.Signal, on_output?: function } what aborts it, and who gets its output
---@param id integer|nil what the core returned: an id, or nil, code, message, detail
---@return any value what the operation gave, true when nothing
---@return chamvi.Error? err when value is nil
function task.complete(watch, id, code, message, detail)
    if not id then
        return nil, errors.from_core(code, message, { detail = detail })
    end
    local signal = watch and watch.signal
    local state = watch_operation(id, signal, watch and watch.on_output)
    local what, value, text, more, partial = task.wait(state.future)
    if state.forget then
        state.forget()
    end

    if state.broken then
        return nil, state.broken
    end
    if what ~= "error" then
        return value == nil and true or value
    end
    if value == "aborted" and signal and signal.aborted then
        return nil, task.aborted(signal)
    end
    return nil, errors.from_core(value, text, { detail = more, partial = partial })
end

--- Waits for a time.
---@param ms integer
---@param signal? chamvi.Signal ends the wait
---@return true|nil
---@return chamvi.Error? err the core can't be used; `aborted`
function task.pause(ms, signal)
    if signal and signal.aborted then
        return nil, task.aborted(signal)
    end
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    return task.complete({ signal = signal }, core:timer(ms))
end

local SHARE_BYTES = 256 * 1024

--- A wait for room to send, which need not wait when the other side is quick: then the other tasks and the timers
--- still get a turn now and then.
---@param sender table keeps the count, in `_unwaited`
---@param room chamvi.Future
---@param bytes integer how many were sent without this wait
---@return any ... what the future gives
function task.wait_for_room(sender, room, bytes)
    sender._unwaited = room.done and (sender._unwaited or 0) + bytes or 0
    if sender._unwaited >= SHARE_BYTES then
        sender._unwaited = 0
        local paused, err = task.pause(0)
        if not paused then
            return nil, err
        end
    end
    return task.wait(room)
end

return task
