-- What a pod's object says: how far its start has come, and how it ended. Objects come from a server, and may lack
-- anything.
-- https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/

local names = require "chamvi.sandbox.k8s.names"

local state = {}

--- Reasons of a waiting container that waiting does not cure.
state.FATAL_WAITING_REASONS = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
}

local FATAL = {}
for _, reason in ipairs(state.FATAL_WAITING_REASONS) do
    FATAL[reason] = true
end

local function is_about_image(reason)
    return reason:find("Image", 1, true) ~= nil
end

-- The value under these keys, one below the other; nil where there is none.
local function at(value, ...)
    for index = 1, select("#", ...) do
        if type(value) ~= "table" then
            return nil
        end
        value = value[select(index, ...)]
    end
    return value
end

local function text_at(...)
    local text = at(...)
    return type(text) == "string" and text ~= "" and text or nil
end

local function list_at(...)
    local list = at(...)
    return type(list) == "table" and list or {}
end

-- "reason: message", as far as there are any.
local function words(value, default)
    local reason, message = text_at(value, "reason"), text_at(value, "message")
    if reason and message then
        return reason .. ": " .. message
    end
    return reason or message or default
end

local function condition(pod, name)
    for _, found in ipairs(list_at(pod, "status", "conditions")) do
        if at(found, "type") == name then
            return found
        end
    end
end

-- The status of the workspace's container.
local function container(pod)
    for _, found in ipairs(list_at(pod, "status", "containerStatuses")) do
        if at(found, "name") == names.CONTAINER then
            return found
        end
    end
end

--- What tells a pod from another one of its name, and its container from one that was started again.
---@param pod table
---@return { uid: string, restarts: integer }
function state.identity(pod)
    local restarts = at(container(pod), "restartCount")
    return { uid = text_at(pod, "metadata", "uid"), restarts = type(restarts) == "number" and restarts or 0 }
end

-- ---- The start ---------------------------------------------------------------------------------

-- Why the container runs no more.
local function terminated_words(terminated)
    local code = at(terminated, "exitCode")
    local number = type(code) == "number" and ("%.0f"):format(code) or "?"
    local ending = "its container ended with exit code " .. number
    local why = words(terminated)
    return why and ("%s (%s)"):format(ending, why) or ending
end

-- A container, of any kind, that waits in vain.
local function fatal_waiting(pod)
    for _, key in ipairs({ "containerStatuses", "initContainerStatuses" }) do
        for _, found in ipairs(list_at(pod, "status", key)) do
            local waiting = at(found, "state", "waiting")
            if FATAL[text_at(waiting, "reason") or ""] then
                return waiting
            end
        end
    end
end

--- How far a pod's start has come.
---@param pod table
---@return "ready"|"waiting"|"unschedulable"|"failed" stage `unschedulable` may pass when another pod ends or a node
---   comes
---@return string why in words
---@return string|nil code of a failure
function state.start(pod)
    if at(pod, "metadata", "deletionTimestamp") then
        return "failed", "it was deleted", "not_ready"
    end
    local phase = at(pod, "status", "phase")
    local found = container(pod)
    if phase == "Failed" or phase == "Succeeded" then
        local terminated = at(found, "state", "terminated")
        local why = words(at(pod, "status")) or terminated and terminated_words(terminated) or "it has ended"
        return "failed", why, "not_ready"
    end
    local waiting = fatal_waiting(pod)
    if waiting then
        return "failed", words(waiting), is_about_image(waiting.reason) and "image_unavailable" or "not_ready"
    end
    if phase == "Running" and at(found, "ready") == true and at(found, "state", "running") then
        return "ready", "it runs"
    end
    local scheduled = condition(pod, "PodScheduled")
    if at(scheduled, "status") == "False" then
        local stage = at(scheduled, "reason") == "Unschedulable" and "unschedulable" or "waiting"
        return stage, words(scheduled, "it is not scheduled")
    end
    local default = "its phase is " .. (text_at(pod, "status", "phase") or "unknown")
    return "waiting", words(at(found, "state", "waiting"), default)
end

-- ---- The end -----------------------------------------------------------------------------------

-- What the reasons of a pod's status, and of its condition DisruptionTarget, mean.
local STATUS_REASONS = {
    Evicted = "evicted",
    Preempting = "evicted",
    DeadlineExceeded = "expired",
    NodeLost = "node_lost",
    NodeShutdown = "node_lost",
    Shutdown = "node_lost",
    Terminated = "node_lost",
}
local DISRUPTION_REASONS = {
    DeletionByTaintManager = "node_lost",
    DeletionByPodGC = "node_lost",
    EvictionByEvictionAPI = "evicted",
    PreemptionByScheduler = "evicted",
    TerminationByKubelet = "evicted",
}
local WORDS = {
    evicted = "the pod was evicted",
    expired = "the pod has reached its deadline",
    node_lost = "the pod's node is lost",
    oom_killed = "the pod ran out of memory and was killed",
    deleted = "the pod was deleted",
    restarted = "the pod's container was started again",
    replaced = "the pod was replaced by another one of its name",
    ended = "the pod has ended",
}

-- How the container of a pod ended, this time or, when it was started again, the time before.
local function terminated_of(pod)
    local found = container(pod)
    return at(found, "state", "terminated") or at(found, "lastState", "terminated")
end

-- The node has stopped reporting: the container is ready by its last word, and the pod is not.
local function is_node_silent(pod)
    local ready = condition(pod, "Ready")
    return at(ready, "status") == "False" and at(container(pod), "ready") == true
        and at(container(pod), "state", "running") ~= nil
end

-- A code and the words of whoever decided it.
local function reason_of_end(pod, known)
    local status = at(pod, "status")
    local code = STATUS_REASONS[text_at(status, "reason") or ""]
    if code then
        return code, words(status)
    end
    local disruption = condition(pod, "DisruptionTarget")
    code = at(disruption, "status") == "True" and DISRUPTION_REASONS[text_at(disruption, "reason") or ""]
    if code then
        return code, words(disruption)
    end
    local terminated = terminated_of(pod)
    if at(terminated, "reason") == "OOMKilled" then
        return "oom_killed", words(terminated)
    end
    if at(pod, "metadata", "deletionTimestamp") then
        return "deleted"
    end
    if state.identity(pod).restarts ~= known.restarts then
        return "restarted", terminated and terminated_words(terminated)
    end
    local phase = at(status, "phase")
    if phase == "Failed" or phase == "Succeeded" or at(container(pod), "state", "terminated") then
        return "ended", words(status) or terminated and terminated_words(terminated)
    end
    return nil
end

--- How a pod ended that was ready once.
---@param pod table|false false: there is none of its name
---@param known { uid: string, restarts: integer } what it was
---@return string|nil code nil: it runs; else `evicted`, `expired`, `node_lost`, `oom_killed`, `deleted`, `restarted`,
---   `replaced`, `ended`
---@return string|nil message
---@return boolean|nil final false: it may run on, nobody knows
function state.ending(pod, known)
    local code, why
    if not pod then
        code = "deleted"
    elseif state.identity(pod).uid ~= known.uid then
        code = "replaced"
    else
        code, why = reason_of_end(pod, known)
    end
    if code then
        return code, why and ("%s (%s)"):format(WORDS[code], why) or WORDS[code], true
    end
    if is_node_silent(pod) then
        return "node_lost", "the pod's node has stopped reporting", false
    end
    return nil
end

return state
