-- One pod as a transport.

local errors = require "chamvi.sandbox.errors"
local names = require "chamvi.sandbox.k8s.names"
local signals = require "chamvi.sandbox.signal"
local state = require "chamvi.sandbox.k8s.state"
local task = require "chamvi.sandbox.task"
local timer = require "chamvi.sandbox.timer"

local transports = {}

local KILL_LIMIT_MS = 5000
-- After a command that something has killed, how long it may take until the API knows of the pod's end, and how often
-- to look.
local EVIDENCE_MS = 4000
local EVIDENCE_PAUSE_MS = 250

-- Kills all processes of the pod in one step but for its first, which ends when its `sleep` does, and the pod with it.
local KILL_ALL = { "sh", "-c", "kill -s KILL -- -1" }
local NOWHERE = { write = function() end }

---@class chamvi.PodTransport: chamvi.Transport
local Transport = {}
Transport.__index = Transport

--- A transport to a pod that may not exist yet.
---@param client chamvi.PodClient
---@param id string of the workspace
---@return chamvi.PodTransport
function transports.new(client, id)
    return setmetatable({
        client = client,
        name = names.pod(id),
        known = nil, -- the pod's identity, once it runs
    }, Transport)
end

--- Remembers which pod it is, which runs now.
---@param pod table
function Transport:identify(pod)
    self.known = state.identity(pod)
end

-- How the pod ended: code, message, final as of state.ending; or nil when it runs or nobody knows.
local function ending(self, signal)
    local pod, err = self.client:read(self.name, signal)
    if not pod and err.code ~= "not_found" then
        return nil, nil, nil, err
    end
    return state.ending(pod or false, self.known)
end

--- Whether the pod still runs.
---@param signal? chamvi.Signal
---@return boolean|nil
---@return chamvi.Error? err
function Transport:alive(signal)
    local code, _, final, err = ending(self, signal)
    if err then
        return nil, err
    end
    return code == nil or not final
end

-- Looks for the end of the pod for at most `limit_ms`.
local function find_ending(self, signal, limit_ms)
    local spent_ms = 0
    while true do
        local code, message, _, err = ending(self, signal)
        if code or err or spent_ms >= limit_ms or not task.pause(EVIDENCE_PAUSE_MS, signal) then
            return code, message
        end
        spent_ms = spent_ms + EVIDENCE_PAUSE_MS
    end
end

-- The exit codes that the wrapper around a command has by itself: it was reported, or there is no shell.
local function is_own(exit_code)
    return exit_code == 0 or exit_code == 126 or exit_code == 127
end

-- What an exec gave, with the pod's own end where that ended it.
local function explained(self, signal, result, err)
    if result and is_own(result.exit_code) or signal.aborted then
        return result, err
    end
    local code, message = find_ending(self, signal, result and EVIDENCE_MS or 0)
    if not code then
        return result, err
    end
    return nil, errors.sandbox(code, message, { cause = err })
end

--- Runs argv in the pod.
---@param argv string[]
---@param given chamvi.TransportExecOptions
---@return chamvi.TransportResult|nil
---@return chamvi.Error? err its code says how the pod ended, where that ended the command
function Transport:exec(argv, given)
    local same = task.start(function()
        return ending(self, given.signal)
    end)
    local result, err = explained(self, given.signal, self.client:exec(self.name, {
        argv = argv,
        stdin = given.stdin,
        stdout = given.stdout,
        stderr = given.stderr,
        signal = given.signal,
    }))
    local code, message, final = task.wait(same)
    if result and code and final then
        return nil, errors.sandbox(code, message)
    end
    return result, err
end

-- Ends all that runs in the pod. The deletion of its object alone would leave that to the node, some seconds later.
local function kill_all(self)
    local signal = signals.new()
    local cancel = timer(KILL_LIMIT_MS, function()
        signal:abort("it took too long")
    end)
    -- However this ends, the deletion follows.
    self.client:exec(self.name, { argv = KILL_ALL, stdout = NOWHERE, stderr = NOWHERE, signal = signal })
    if cancel then
        cancel()
    end
end

--- Kills what runs in the pod and deletes it; one that is not there is fine.
---@return true|nil
---@return chamvi.Error? err
function Transport:remove()
    if self.known then
        kill_all(self)
    end
    return self.client:delete(self.name)
end

return transports
