-- One pod as a transport.

local at_most = require "chamvi.sandbox.at_most"
local errors = require "chamvi.sandbox.errors"
local limits = require "chamvi.sandbox.k8s.limits"
local names = require "chamvi.sandbox.k8s.names"
local state = require "chamvi.sandbox.k8s.state"
local task = require "chamvi.sandbox.task"

local transports = {}

local EVIDENCE_PAUSE_MS = 250 -- between looks

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
        created = nil, -- whether there is a pod; nil: nobody knows
        removed = nil,
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

-- Looks for the end of the pod for at most limits.EVIDENCE, whatever the server does: once, or until there is one.
local function find_ending(self, outer, is_awaited)
    local ok, code, message, final = at_most(limits.EVIDENCE, function(signal)
        local forget = outer:on_abort(function()
            signal:abort()
        end)
        local found, words, is_final, err
        repeat
            found, words, is_final, err = ending(self, signal)
        until found or err or not is_awaited or not task.pause(EVIDENCE_PAUSE_MS, signal)
        forget()
        return found, words, is_final
    end)
    if ok == false then
        error(code, 0)
    end
    return code, message, final
end

-- The exit codes that the wrapper around a command has by itself: it was reported, or there is no shell.
local function is_own(exit_code)
    return exit_code == 0 or exit_code == 126 or exit_code == 127
end

-- What a client's exec says when nothing has run.
local NOTHING_RAN = {
    engine_failed = true,
    engine_unreachable = true,
    forbidden = true,
    not_found = true,
    refused = true,
}

-- What an exec gave, with the pod's own end where that ended it.
local function explained(self, signal, result, err)
    if result and is_own(result.exit_code) or signal.aborted then
        return result, err
    end
    local code, message, final = find_ending(self, signal, result ~= nil)
    if not code then
        return result, err
    end
    local cause = errors.sandbox(code, message, { cause = err })
    if final and err and NOTHING_RAN[err.code] then
        return nil, errors.sandbox("gone", message, { cause = cause })
    end
    return nil, cause
end

-- Looks whether it still is the pod that was made, while a command already runs. Nothing of its output gets through
-- until that is known, or is not to be known. Returns a function that waits and gives an error if it is another one.
local function watch_identity(self)
    local look = task.start(at_most, limits.IDENTITY, function(signal)
        return ending(self, signal)
    end)
    return function()
        local ok, code, message, final = task.wait(look)
        return ok and code and final and errors.sandbox("gone", message) or nil
    end
end

local function gated(sink, wrong_pod)
    return {
        write = function(_, chunk)
            if not wrong_pod() then
                sink:write(chunk)
            end
        end,
    }
end

--- Runs argv in the pod.
---@param argv string[]
---@param given chamvi.TransportExec
---@return chamvi.TransportResult|nil
---@return chamvi.Error? err `gone`: nothing ran in this pod; else its code says how the pod ended, and the command with
---   it
function Transport:exec(argv, given)
    local wrong_pod = watch_identity(self)
    local result, err = explained(self, given.signal, self.client:exec(self.name, {
        argv = argv,
        stdin = given.stdin,
        stdout = gated(given.stdout, wrong_pod),
        stderr = gated(given.stderr, wrong_pod),
        signal = given.signal,
    }))
    local gone = result and not given.signal.aborted and wrong_pod()
    if gone then
        return nil, gone
    end
    return result, err
end

-- Ends all that runs in the pod. The deletion of its object alone would leave that to the node, some seconds later.
-- However this ends, the deletion follows.
local function kill_all(self)
    at_most(limits.KILL, function(signal)
        self.client:exec(self.name, { argv = KILL_ALL, stdout = NOWHERE, stderr = NOWHERE, signal = signal })
    end)
end

--- Kills what runs in the pod and deletes it; one that is not there is fine.
---@param signal? chamvi.Signal
---@return true|nil
---@return chamvi.Error? err
---@return boolean? found whether it was there
function Transport:remove(signal)
    if self.known and not self.removed then
        kill_all(self)
    end
    local removed, err, found = self.client:delete(self.name, signal)
    self.removed = self.removed or removed
    return removed, err, found
end

return transports
