-- Calls of a transport, which is anybody's code: what it raises or returns instead of an answer becomes an error.

local at_most = require "chamvi.sandbox.at_most"
local errors = require "chamvi.sandbox.errors"
local printed = require "chamvi.sandbox.printed"

local transports = {}

---@class chamvi.OutputSink
---@field write fun(self: chamvi.OutputSink, chunk: string) must be given every chunk as it arrives; never waits

---@class chamvi.TransportExec
---@field stdin? string the whole standard input; none: end of file at once
---@field stdout chamvi.OutputSink
---@field stderr chamvi.OutputSink
---@field signal chamvi.Signal fires when the workspace is done with the program: stop waiting and detach

---@class chamvi.TransportResult
---@field exit_code integer 127: the program could not be started

--- Runs programs in one container, pod or other place. Its functions are called in jobs of the library: they may wait,
--- by what the library offers. What they raise counts as a failure, and so does an answer that is none of these.
---@class chamvi.Transport
---@field exec fun(self: chamvi.Transport, argv: string[], given: chamvi.TransportExec): chamvi.TransportResult?, any
---   runs a program and returns when it has ended and all of its output is written; or nil and an error
---@field alive? fun(self: chamvi.Transport, signal: chamvi.Signal): boolean?, any asked after a failed exec: only false
---   means that the place is no more. The signal fires after ALIVE_PROBE_TIMEOUT_MS
---@field remove fun(self: chamvi.Transport): true?, any ends what runs there and deletes the place; or nil and an
---   error, then it is called again when the workspace is disposed again. A place that is no more is fine

-- In words for a message.
local function describe(value)
    return errors.is_error(value) and value.message or printed(value)
end

-- What a transport's own error may be when the program was not started; else nobody knows what became of it.
local NOTHING_RAN = { engine_unreachable = true, forbidden = true, gone = true, not_ready = true }

--- Runs argv. Waits for the transport.
---@param transport chamvi.Transport
---@param argv string[]
---@param given chamvi.TransportExec
---@return integer|nil exit_code
---@return chamvi.Error? err SandboxError `transport_lost`, with the transport's own as `cause`; its own where that says
---   that nothing ran
function transports.exec(transport, argv, given)
    local called, result, err = pcall(transport.exec, transport, argv, given)
    if not called then
        return nil, errors.sandbox("transport_lost", "the transport raised: " .. describe(result), { cause = result })
    end
    if type(result) == "table" and type(result.exit_code) == "number" then
        return result.exit_code
    end
    if not result and errors.is_error(err, "SandboxError") and NOTHING_RAN[err.code] then
        return nil, err
    end
    if not result and err ~= nil then
        return nil, errors.sandbox("transport_lost", "the transport failed: " .. describe(err), { cause = err })
    end
    local message = "the transport answered with neither { exit_code = n } nor an error"
    return nil, errors.sandbox("transport_lost", message, { cause = err })
end

local function alive(signal, transport)
    return transport:alive(signal)
end

--- Whether the transport says that its place is no more. Waits for at most that long; a failure, nonsense and no
--- answer are no such word.
---@param transport chamvi.Transport
---@param timeout_ms integer
---@return boolean
function transports.says_dead(transport, timeout_ms)
    if transport.alive == nil then
        return false
    end
    local called, is_alive = at_most(timeout_ms, alive, transport)
    return called == true and is_alive == false
end

-- What a program prints that nobody wants to see.
local NOWHERE = { write = function() end }

--- Runs a program whose output means nothing, for at most that long. Waits.
---@param transport chamvi.Transport
---@param argv string[]
---@param timeout_ms integer
---@return true|nil
---@return chamvi.Error? err SandboxError `transport_lost`
function transports.run_quietly(transport, argv, timeout_ms)
    local called, code, err = at_most(timeout_ms, function(signal)
        return transports.exec(transport, argv, { stdout = NOWHERE, stderr = NOWHERE, signal = signal })
    end)
    if not called then
        return nil, errors.sandbox("transport_lost", ("the transport did not answer within %d ms"):format(timeout_ms))
    end
    if code ~= 0 then
        return nil, err or errors.sandbox("transport_lost", "the program ended with exit code " .. tostring(code))
    end
    return true
end

--- Removes the transport's place. Waits.
---@param transport chamvi.Transport
---@return true|nil
---@return chamvi.Error? err SandboxError, the transport's own or `remove_failed`
function transports.remove(transport)
    local called, removed, err = pcall(transport.remove, transport)
    if called and removed then
        return true
    end
    local cause = err
    if not called then
        cause = removed
    end
    if errors.is_error(cause) then
        return nil, cause
    end
    local words = cause == nil and "it gave no reason" or printed(cause)
    return nil, errors.sandbox("remove_failed", "the transport could not remove the workspace: " .. words, {
        cause = cause,
    })
end

return transports
