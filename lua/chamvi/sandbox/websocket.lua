-- WebSockets (RFC 6455), binary messages alone, over http.lua's streams. Every function that waits looks blocking.
--
-- While someone reads, a ping goes out every `ping_ms`: proxies cut connections that are silent, and so a server
-- that is gone is found out. One that does not answer is taken for gone only once it has answered a ping that was
-- sent behind all messages: a server that still hands on earlier ones (stdin that a command does not read) may be
-- unable to read a ping, and yet is there. The program's own idleness never counts: each ping waits for the one
-- before to have had its full interval of the core's time.
--
-- Codes are those of http.lua; what is no WebSocket, breaks a bound or ends without a close is transport_lost.

local errors = require "chamvi.sandbox.errors"
local http = require "chamvi.sandbox.http"
local loop = require "chamvi.sandbox.loop"
local native = require "chamvi.sandbox.core"
local task = require "chamvi.sandbox.task"

local websocket = {}

local MAX_MESSAGE = 1024 * 1024
local PING_MS = 15000
local CLOSE_MS = 2000
local UNANSWERED_MAX = 3 -- pings
local ANSWERS_MAX_BYTES = 65536 -- that wait to be sent: to a server that sends pings and doesn't read

---@class chamvi.WebsocketOptions: chamvi.HttpOptions
---@field protocols string[] subprotocols, the best first; the server has to choose one
---@field max_message? integer bytes of a message, both ways; default 1 MiB
---@field ping_ms? integer default 15000; 0: none
---@field close_ms? integer that `close` waits for the server's; default 2000

---@class chamvi.Websocket
---@field protocol string the one that the server chose
---@field code? integer of the server's close, 1005 when it gave none; nil as long as it has not closed
---@field reason? string of the server's close
local Socket = {}
Socket.__index = Socket

local function lost(message)
    return errors.sandbox("transport_lost", message)
end

local function closed()
    return errors.sandbox("closed", "the WebSocket is closed")
end

-- ---- sending ------------------------------------------------------------------------------------------------

-- Nothing more goes out: whoever waits for it gets `err`.
function Socket:_drop_output(err)
    local first, last = self._out_first, self._out_last
    self._out_first, self._out_last, self._answers = 1, 0, 0
    local out = self._out
    self._out = {}
    for index = first, last do
        if out[index].sent then
            out[index].sent:set(nil, err)
        end
    end
end

function Socket:_pump()
    self._blocked = false
    while self._out_first <= self._out_last do
        local entry = self._out[self._out_first]
        local count, err = self._stream:offer(entry.bytes, entry.from, self._on_room)
        if not count then
            self:_drop_output(self._err or err)
            return
        end
        entry.from = entry.from + count
        if entry.from <= #entry.bytes then
            self._blocked = true
            return
        end
        self._out[self._out_first] = nil
        self._out_first = self._out_first + 1
        if entry.sent then
            entry.sent:set(true) -- and with it, perhaps, the next message is queued, and finds no room
            if self._blocked then
                return
            end
        else
            self._answers = self._answers - #entry.bytes
        end
    end
end

-- Queues bytes behind those that wait already. `sent`, a future, is done when they are out.
function Socket:_put(bytes, sent)
    self._out_last = self._out_last + 1
    self._out[self._out_last] = { bytes = bytes, from = 1, sent = sent }
    if not sent then
        self._answers = self._answers + #bytes
    end
    if not self._blocked then
        self:_pump()
    end
end

--- Sends one message; waits until it is queued for the connection.
---@param message string
---@return true|nil
---@return chamvi.Error? err
function Socket:write(message)
    task.check_may_wait("write")
    local bytes, code, text = self._frames:message(message)
    if not bytes then
        return nil, self._err or errors.from_core(code, text)
    end
    self._messages, self._settled = self._messages + 1, false
    local sent = task.future()
    self:_put(bytes, sent)
    return task.wait_for_room(self, sent, #bytes)
end

-- ---- reading ------------------------------------------------------------------------------------------------

-- No more messages: `err` says why, nil is the server's close.
function Socket:_finish(err)
    if self._over then
        return
    end
    self._over, self._err = true, err
    if self._timer then
        self._core:abort(self._timer, "closed", "no longer needed")
    end
    self._ended:set()
end

function Socket:_fail(err)
    self:_finish(err)
    self._stream:close()
    self:_drop_output(err)
end

function Socket:_take(bytes)
    local events, answer = self._frames:feed(bytes)
    self._unanswered = 0
    for index = 1, #events, 2 do
        local kind, value = events[index], events[index + 1]
        if kind == "message" then
            self._in_last = self._in_last + 1
            self._in[self._in_last] = value
        elseif kind == "pong" then
            self._settled = self._settled or tonumber(value) == self._messages
        elseif kind == "close" then
            self.code, self.reason = value.code, value.reason
            self:_finish()
        elseif kind == "text" then
            self:_finish(lost("the server sent a text on a WebSocket of binary messages"))
        else
            self:_finish(lost("what the server sends is no WebSocket: " .. value))
        end
    end
    if answer ~= "" then
        self:_put(answer)
    end
    if self._answers > ANSWERS_MAX_BYTES then
        self:_fail(lost("the server sends pings and reads no answers"))
    end
end

function Socket:_next()
    while self._in_first > self._in_last do
        if self._over then
            return nil, self._err
        end
        local bytes, err = self._stream:read()
        if bytes then
            self:_take(bytes)
        else
            self:_finish(err or lost("the connection ended without a close of the WebSocket"))
        end
    end
    local message = self._in[self._in_first]
    self._in[self._in_first] = nil
    self._in_first = self._in_first + 1
    return message
end

-- One interval has passed with someone reading.
function Socket:_beat()
    if self._unanswered >= UNANSWERED_MAX then
        local seconds = self._unanswered * self._ping_ms / 1000
        self:_fail(lost(("the server has answered no ping for %g s"):format(seconds)))
        return
    end
    if not self._blocked then -- else what waits there goes first, and is as good
        local bytes = self._frames:ping(tostring(self._messages))
        if bytes then
            self:_put(bytes)
        end
        self._unanswered = self._unanswered + (self._settled and 1 or 0)
    end
    self:_watch()
end

-- Has `_beat` called in an interval's time, unless it will be already.
function Socket:_watch()
    if self._timer or self._over or self._ping_ms == 0 then
        return
    end
    local timer = self._core:timer(self._ping_ms)
    if not timer then -- no memory for one: better without pings than not at all
        return
    end
    self._timer = timer
    loop.expect(timer, function()
        self._timer = nil
        if self._reading and not self._over then
            self:_beat()
        end
    end)
end

--- Waits for the next message.
---@return string|nil message nil when the server has closed (`code`, `reason`)
---@return chamvi.Error? err it has not closed, but no more can come
function Socket:read()
    task.check_may_wait("read")
    if self._reading then
        error("another task reads this WebSocket already", 2)
    end
    self._reading = true
    self:_watch()
    local message, err = self:_next()
    self._reading = false
    return message, err
end

-- ---- the end ------------------------------------------------------------------------------------------------

--- Cuts the connection; what waits to be sent or read is dropped. Never waits; harmless when it has ended.
function Socket:cut()
    self._in, self._in_first, self._in_last = {}, 1, 0
    self:_fail(closed())
end

function Socket:_cut_at(timer)
    loop.expect(timer, function()
        self:cut()
    end)
end

--- Says that nothing more is sent, waits for the server's close at most `close_ms`, and ends the connection.
--- Messages that still come are dropped, unless another task reads them. Every WebSocket has to be closed or cut.
---@param code? integer default 1000
---@param reason? string at most 123 bytes
function Socket:close(code, reason)
    task.check_may_wait("close")
    if not self._over then
        local bytes, wrong, text = self._frames:close(code or 1000, reason)
        if not bytes and wrong == "invalid_request" then
            error(text, 2)
        elseif bytes then
            self:_put(bytes)
        end
        local timer = self._core:timer(self._close_ms)
        if timer then
            self:_cut_at(timer)
        else
            self:cut()
        end
        if self._reading then
            task.wait(self._ended)
        else
            self._reading = true
            while self:_next() do
                -- dropped
            end
            self._reading = false
        end
        if timer then
            self._core:abort(timer, "closed", "no longer needed")
        end
    end
    self._stream:close()
    self:_drop_output(closed())
end

--- Opens one. `method`, `upgrade` and the handshake's fields are set here.
---@param options chamvi.WebsocketOptions
---@return chamvi.Websocket|nil
---@return chamvi.Error? err
---@return chamvi.HttpResponse? answer that of a server that refused, with `upgrade_refused`
function websocket.open(options)
    task.check_may_wait("websocket.open")
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    local frames, code, message = native.websocket(options.max_message or MAX_MESSAGE)
    local headers
    if frames then
        headers, code, message = frames:request_headers(options.protocols)
    end
    if not headers then
        return nil, errors.from_core(code, message)
    end
    for name, value in pairs(options.headers or {}) do
        headers[name] = value
    end
    local request = setmetatable({ method = "GET", upgrade = "websocket", headers = headers }, { __index = options })
    local stream, refused, answer = http.stream(request)
    if not stream then
        return nil, refused, answer
    end
    local protocol
    protocol, code, message = frames:accept(stream.headers)
    if not protocol then
        stream:close()
        return nil, errors.from_core(code, message)
    end
    local socket = setmetatable({
        protocol = protocol,
        _core = core, _frames = frames, _stream = stream,
        _ping_ms = options.ping_ms or PING_MS, _close_ms = options.close_ms or CLOSE_MS,
        _out = {}, _out_first = 1, _out_last = 0, _answers = 0, _blocked = false,
        _in = {}, _in_first = 1, _in_last = 0, _reading = false,
        _messages = 0, _settled = true, _unanswered = 0,
        _ended = task.future(),
    }, Socket)
    socket._on_room = function()
        socket:_pump()
    end
    return socket
end

return websocket
