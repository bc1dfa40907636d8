-- The streams of one exec in a pod, over a WebSocket: v5.channel.k8s.io where the server has it, v4 otherwise.

local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"
local websocket = require "chamvi.sandbox.websocket"

local exec_stream = {}

local PROTOCOLS = { "v5.channel.k8s.io", "v4.channel.k8s.io" }
local STDIN, STATUS, CLOSE = "\0", "\3", "\255"
local PIECE_BYTES = 32768 -- of stdin in a message, as kubectl sends

---@class chamvi.K8sExecStream
---@field version integer 4 or 5
local Stream = {}
Stream.__index = Stream

--- Opens one: the URL is that of the pod's `exec` with its query.
---@param options chamvi.WebsocketOptions `protocols` is set here, unless it is there
---@return chamvi.K8sExecStream|nil
---@return chamvi.Error? err
---@return chamvi.HttpResponse? answer that of a server that refused, with `upgrade_refused`
function exec_stream.open(options)
    local protocols = options.protocols or PROTOCOLS
    local socket, err, answer = websocket.open(setmetatable({ protocols = protocols }, { __index = options }))
    if not socket then
        return nil, err, answer
    end
    local version = socket.protocol == PROTOCOLS[1] and 5 or 4
    return setmetatable({ version = version, _socket = socket, _channel = native.k8s_channel(version) }, Stream)
end

--- Has `fn()` called once the server begins to say what became of the command.
---@param fn fun() must not wait
function Stream:on_status(fn)
    self._on_status = fn
end

-- Servers open each channel by an empty message: that one says nothing.
local function note(self, message)
    local fn = self._on_status
    if fn and #message > 1 and message:sub(1, 1) == STATUS then
        self._on_status = nil
        fn()
    end
end

--- Waits for output.
---@return "stdout"|"stderr"|nil name nil when the server has closed: `outcome` says what became of the command
---@return string|chamvi.Error|nil bytes_or_err the bytes; without a name the error, when it ended as it should not
function Stream:read()
    while true do
        local message, err = self._socket:read()
        if not message then
            return nil, err
        end
        local name, bytes, text = self._channel:take(message)
        note(self, message)
        if name then
            return name, bytes
        elseif name == nil then
            return nil, errors.from_core(bytes, text)
        end
    end
end

--- Sends stdin; waits as `chamvi.Websocket` does.
---@param bytes string
---@return true|nil
---@return chamvi.Error? err
function Stream:write(bytes)
    for from = 1, #bytes, PIECE_BYTES do
        local sent, err = self._socket:write(STDIN .. bytes:sub(from, from + PIECE_BYTES - 1))
        if not sent then
            return nil, err
        end
    end
    return true
end

--- Tells the command that its stdin has ended. v4 can't: false.
---@return boolean|nil
---@return chamvi.Error? err
function Stream:end_stdin()
    if self.version < 5 then
        return false
    end
    return self._socket:write(CLOSE .. STDIN)
end

--- What the server has reported, once `read` has come to its end.
---@return integer|nil code the command's exit code; never made up
---@return chamvi.Error? err `transport_lost`
---@return string? reason the one that the server gives when it says that something else happened: "InternalError"
function Stream:outcome()
    local code, message, reason = self._channel:outcome()
    if code then
        return code
    elseif reason then
        message = ("the cluster could not run the command: %s: %s"):format(reason, message)
    else
        message = "the outcome of the command is unknown: " .. message
    end
    return nil, errors.sandbox("transport_lost", message), reason
end

--- Closes the WebSocket; waits for the server's close, but not long.
function Stream:close()
    self._socket:close()
end

--- Cuts it without a wait.
function Stream:cut()
    self._socket:cut()
end

return exec_stream
