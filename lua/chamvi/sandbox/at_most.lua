-- Waits that have a bound.

local signals = require "chamvi.sandbox.signal"
local task = require "chamvi.sandbox.task"
local timer = require "chamvi.sandbox.timer"

--- Calls `fn(signal, ...)` as a job and waits for it at most that long, then fires the signal and leaves it to itself.
---@param timeout_ms integer
---@param fn fun(signal: chamvi.Signal, ...: any): any
---@param ... any
---@return boolean|nil ok as of pcall; nil: the time is over
---@return any ... the results, or the raised value
return function(timeout_ms, fn, ...)
    local signal = signals.new()
    local job = task.start(pcall, fn, signal, ...)
    if not job.done then
        local either, wake = task.wakeable()
        job:subscribe(wake)
        local cancel = timer(timeout_ms, wake)
        if not cancel then
            signal:abort()
            return nil
        end
        task.wait(either)
        cancel()
        if not job.done then
            signal:abort("it took too long")
            return nil
        end
    end
    return task.wait(job)
end
