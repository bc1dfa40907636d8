-- From nothing to a pod whose container runs.

local errors = require "chamvi.sandbox.errors"
local pods = require "chamvi.sandbox.k8s.pod"
local signals = require "chamvi.sandbox.signal"
local state = require "chamvi.sandbox.k8s.state"
local task = require "chamvi.sandbox.task"
local timer = require "chamvi.sandbox.timer"

local FIRST_PAUSE_MS = 50 -- between looks at a pod, then twice as much each time, up to `poll_ms`

---@class chamvi.StartOptions: chamvi.PodOptions
---@field poll_ms integer
---@field unschedulable_timeout_ms integer
---@field on_waiting fun(why: string) told each new reason why the pod does not run yet; must not wait
---@field signal? chamvi.Signal

-- A wait with an end: `over()` tells whether it has come, and `on_over()` is called then.
local function limit(ms, on_over)
    local passed = false
    local cancel, err = timer(ms, function()
        passed = true
        if on_over then
            on_over()
        end
    end)
    if not cancel then
        return nil, err
    end
    return {
        cancel = cancel,
        over = function()
            return passed
        end,
    }
end

-- The same for all of a start, with a signal that fires at the end, or when `outer` does.
local function bound(ms, outer)
    local signal = signals.new()
    local whole, err = limit(ms, function()
        signal:abort()
    end)
    if not whole then
        return nil, err
    end
    local forget = outer and outer:on_abort(function(reason)
        signal:abort(reason)
    end)
    return {
        signal = signal,
        over = whole.over,
        cancel = function()
            whole.cancel()
            if forget then
                forget()
            end
        end,
    }
end

-- Looks at the pod until it runs, or will not.
local function watch(client, name, given, whole)
    local pause_ms, last, unschedulable = FIRST_PAUSE_MS, nil, nil
    local function judge(pod)
        local stage, why, code = state.start(pod)
        if stage == "ready" then
            return pod
        elseif stage == "failed" then
            return nil, errors.sandbox(code, ("the pod %s does not start: %s"):format(name, why))
        end
        if stage == "unschedulable" then
            local err
            if not unschedulable then
                unschedulable, err = limit(given.unschedulable_timeout_ms)
            end
            if not unschedulable then
                return nil, err
            elseif unschedulable.over() then
                return nil, errors.sandbox("not_ready", ("no node takes the pod %s: %s"):format(name, why))
            end
        elseif unschedulable then
            unschedulable.cancel()
            unschedulable = nil
        end
        if why ~= last then
            last = why
            given.on_waiting(why)
        end
        return false
    end

    local pod, err
    repeat
        local slept
        slept, err = task.pause(pause_ms, whole.signal)
        if not slept then
            break
        end
        pause_ms = math.min(pause_ms * 2, given.poll_ms)
        local found
        found, err = client:read(name, whole.signal)
        if not found then
            if err.code == "not_found" then
                local message = ("the pod %s was deleted before it ran"):format(name)
                err = errors.sandbox("not_ready", message, { cause = err })
            end
            break
        end
        pod, err = judge(found)
    until pod ~= false
    if unschedulable then
        unschedulable.cancel()
    end
    if not pod and err.code == "aborted" and not (given.signal and given.signal.aborted) then -- by the end of its time
        local message = ("the pod %s does not run after %d ms: %s"):format(name, given.start_timeout_ms,
            last or "the API server has not told how it is")
        return nil, errors.sandbox("not_ready", message, { cause = err })
    end
    return pod or nil, err
end

--- Creates a pod and waits until it runs. The request that creates it is not aborted: it may come into being after
--- anybody has looked.
---@param client chamvi.PodClient
---@param name string
---@param given chamvi.StartOptions
---@return table|nil pod
---@return chamvi.Error? err
---@return boolean? exists whether the pod is there; nil: nobody knows
return function(client, name, given)
    local created, err, exists = client:create(pods.body(given))
    if not created then
        return nil, err, exists
    end
    local whole
    whole, err = bound(given.start_timeout_ms, given.signal)
    if not whole then
        return nil, err, true
    end
    local pod
    pod, err = watch(client, name, given, whole)
    whole.cancel()
    return pod, err, true
end
