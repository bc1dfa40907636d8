-- HTTP requests and upgraded streams, for providers. Every function that waits looks blocking (task.lua).
--
-- Codes: engine_unreachable (no connection; nothing was done), transport_lost (the connection went, or what
-- came was no HTTP: the outcome is unknown), timed_out, response_too_large, aborted, closed, invalid_request,
-- upgrade_refused. A status of any kind is an answer, not an error.

local errors = require "chamvi.sandbox.errors"
local loop = require "chamvi.sandbox.loop"
local task = require "chamvi.sandbox.task"

local http = {}

---@class chamvi.HttpOptions
---@field url string "http://localhost/v1.41/info"; for a unix socket the host is only a name
---@field socket? string path of a unix socket
---@field method? string default GET; POST for a stream
---@field headers? table<string, string>
---@field body? string
---@field timeout_ms? integer for the whole exchange, also a download's body; of a stream for connecting and the answer.
---   Default 60000; 0: none, not for a stream
---@field idle_ms? integer without a byte in either direction; default 0: none; not of a stream
---@field connect_ms? integer for connecting, TLS included; default 10000
---@field max_bytes? integer of the body of an answer; default 8 MiB; not of a stream
---@field ca? string PEM text: who may sign the server's certificate; else `ca_file`, else the system's
---@field ca_file? string
---@field cert? string PEM text: the client's certificate; or `cert_file`
---@field cert_file? string
---@field key? string PEM text: its key, not encrypted; or `key_file`
---@field key_file? string
---@field server_name? string in TLS, instead of the URL's host
---@field insecure? boolean takes any certificate
---@field proxy? string URL; never for a unix socket
---@field proxy_env? boolean takes the proxy from the environment
---@field upgrade? string of a stream: the protocol, "tcp" or "websocket"
---@field signal? chamvi.Signal aborts it, also a stream that is open

---@class chamvi.HttpResponse
---@field status integer
---@field headers table<string, string> names in lower case; several values of one are joined with ", "
---@field body? string of a request

-- The error of an operation that ended with "error", or of a call that was refused.
local function error_of(signal, code, message)
    if code == "aborted" and signal and signal.aborted then
        return task.aborted(signal)
    end
    return errors.from_core(code, message)
end

-- Starts an operation and returns its id, and a function that ends the watch over the signal.
local function start(options, method, stream)
    local signal = options.signal
    if signal and signal.aborted then
        return nil, task.aborted(signal)
    end
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    options = setmetatable({ stream = stream or false }, { __index = options })
    local id, code, message = core[method](core, options)
    if not id then
        return nil, errors.from_core(code, message)
    end
    local forget = signal and signal:on_abort(function()
        core:abort(id, "aborted", task.aborted(signal).message)
    end) or function() end
    return id, forget, core
end

-- Apart from the wait, as in task.lua; so are the other two.
local function expect_answer(id)
    local future = task.future()
    loop.expect(id, function(...)
        future:set(...)
    end)
    return future
end

--- Sends a request and waits for the whole answer.
---@param options chamvi.HttpOptions
---@return chamvi.HttpResponse|nil
---@return chamvi.Error? err
function http.request(options)
    task.check_may_wait("http.request")
    local id, forget = start(options, "http")
    if not id then
        return nil, forget
    end
    local what, value, message = task.wait(expect_answer(id))
    forget()
    if what == "error" then
        return nil, error_of(options.signal, value, message)
    end
    return value
end

-- What an answer or a stream brings, until it is read: chunks in order, then one end.
local Inbox = {}
Inbox.__index = Inbox

local function new_inbox(core, id, forget, signal)
    return setmetatable({
        core = core, id = id, forget = forget, signal = signal,
        chunks = {}, first = 1, last = 0,
        news = nil, -- the future of whoever waits for news
    }, Inbox)
end

function Inbox:wake()
    local news = self.news
    self.news = nil
    if news then
        news:set()
    end
end

-- Waits for news; only one task may.
function Inbox:wait()
    if self.news then
        error("another task waits for this stream already", 3)
    end
    self.news = task.future()
    task.wait(self.news)
end

function Inbox:put(bytes)
    self.last = self.last + 1
    self.chunks[self.last] = bytes
    self:wake()
end

-- Drops what was not read.
function Inbox:clear()
    self.chunks, self.first, self.last = {}, 1, 0
end

-- No more chunks: `err` says why, nil is a plain end.
function Inbox:finish(err)
    if not self.finished then
        self.finished, self.err = true, err
    end
    if err and err.code == "aborted" then
        self:clear() -- an aborted reader wants no more
    end
    self:wake()
end

-- The operation has ended.
function Inbox:over()
    self.gone = true
    self.forget()
end

function Inbox:take()
    while self.first > self.last and not self.finished do
        self:wait()
    end
    if self.first > self.last then
        return nil, self.err
    end
    local bytes = self.chunks[self.first]
    self.chunks[self.first] = nil
    self.first = self.first + 1
    if not self.gone then
        self.core:used(self.id, #bytes)
    end
    return bytes
end

---@class chamvi.HttpDownload: chamvi.HttpResponse
local Download = {}
Download.__index = Download

--- The next bytes of the body; nil at its end, or nil and the error.
---@return string|nil
---@return chamvi.Error? err
function Download:read()
    task.check_may_wait("read")
    return self._inbox:take()
end

--- Ends it, wherever it is; harmless at its end. Never waits. A download that is not read to its end has to be
--- closed.
function Download:close()
    local inbox = self._inbox
    if not inbox.gone then
        inbox.core:abort(inbox.id, "closed", "the download was closed")
    end
    inbox:clear()
    inbox:finish(errors.sandbox("closed", "the download was closed"))
end

local function expect_head(id, inbox)
    local answered = task.future()
    loop.expect(id, function(what, value, message)
        if what == "chunk" then
            inbox:put(value)
            return
        elseif what == "response" then
            inbox:over()
            inbox:finish()
        elseif what == "error" then
            inbox:over()
            inbox:finish(error_of(inbox.signal, value, message))
        end
        answered:set(what, value)
    end)
    return answered
end

--- Sends a request and waits for the head of its answer. The body of a 2xx answer is then to be read, as fast as
--- the caller likes: what is not read is not sent. That of any other is there already, `body`.
---@param options chamvi.HttpOptions
---@return chamvi.HttpDownload|nil
---@return chamvi.Error? err
function http.open(options)
    task.check_may_wait("http.open")
    local id, forget, core = start(options, "http", true)
    if not id then
        return nil, forget
    end
    local inbox = new_inbox(core, id, forget, options.signal)
    local what, answer = task.wait(expect_head(id, inbox))
    if what == "error" then
        return nil, inbox.err
    end
    answer._inbox = inbox
    return setmetatable(answer, Download)
end

---@class chamvi.HttpStream
---@field headers table<string, string> of the answer
local Stream = {}
Stream.__index = Stream

--- The next bytes; nil when the other side has ended, or nil and the error.
---@return string|nil
---@return chamvi.Error? err
function Stream:read()
    task.check_may_wait("read")
    return self._inbox:take()
end

local function closed()
    return errors.sandbox("closed", "the stream is closed")
end

--- Sends as many of the bytes, from byte `from` on, as there is room for; never waits.
---@param bytes string
---@param from integer at most #bytes
---@param on_room fun() called once when not all were taken: there is room again, or the stream has ended. Must not wait
---@return integer|nil count
---@return chamvi.Error? err
function Stream:offer(bytes, from, on_room)
    local inbox = self._inbox
    if self._writing then
        error("another task writes to this stream already", 2)
    end
    if inbox.gone then
        return nil, inbox.err or closed()
    end
    local count, code, message = inbox.core:stream_write(inbox.id, bytes, from)
    if not count then
        return nil, errors.from_core(code, message)
    end
    if from + count <= #bytes then
        self._writing = on_room
    end
    return count
end

--- Sends bytes; waits until they are all queued, of which at most 256 KiB wait to be sent. A server that has ended
--- its side may read no more and yet not close (Docker's does so when a command has ended): `close` then ends the
--- wait.
---@param bytes string
---@return true|nil
---@return chamvi.Error? err
function Stream:write(bytes)
    task.check_may_wait("write")
    local from = 1
    if self._writing then
        error("another task writes to this stream already", 2)
    end
    while from <= #bytes do
        local room = task.future()
        local count, err = self:offer(bytes, from, function()
            room:set(true)
        end)
        if not count then
            return nil, err
        end
        from = from + count
        if from > #bytes then
            room:set(true)
        end
        local waited
        waited, err = task.wait_for_room(self, room, count)
        if not waited then
            return nil, err
        end
    end
    return true
end

local function wake_writer(stream)
    local on_room = stream._writing
    stream._writing = nil
    if on_room then
        on_room()
    end
end

--- Tells the other side, once all is sent, that nothing more comes; reading goes on. Never waits.
function Stream:shutdown()
    local inbox = self._inbox
    if not inbox.gone then
        inbox.core:stream_shutdown(inbox.id)
    end
end

--- Cuts the stream; what waits to be sent or read is dropped. Never waits; harmless when it has ended. Every
--- stream has to be closed.
function Stream:close()
    local inbox = self._inbox
    if not inbox.gone then
        inbox.core:stream_close(inbox.id)
    end
    inbox:clear()
    inbox:finish(closed())
end

local function expect_open(id, stream)
    local inbox = stream._inbox
    local answered = task.future()
    loop.expect(id, function(what, value, message)
        if what == "chunk" then
            inbox:put(value)
        elseif what == "eof" then
            inbox:finish()
        elseif what == "drained" then
            wake_writer(stream)
        elseif what == "open" then
            answered:set(what, value)
        else -- the last: closed, refused or error
            inbox:over()
            inbox:finish(what == "error" and error_of(inbox.signal, value, message) or closed())
            wake_writer(stream)
            answered:set(what, value)
        end
    end)
    return answered
end

--- Asks for an upgrade and waits for the answer.
---@param options chamvi.HttpOptions
---@return chamvi.HttpStream|nil
---@return chamvi.Error? err `upgrade_refused` when the server answered otherwise
---@return chamvi.HttpResponse? answer that answer, its body at most 64 KiB
function http.stream(options)
    task.check_may_wait("http.stream")
    local id, forget, core = start(options, "stream")
    if not id then
        return nil, forget
    end
    local inbox = new_inbox(core, id, forget, options.signal)
    local stream = setmetatable({ _inbox = inbox }, Stream)
    local what, answer = task.wait(expect_open(id, stream))
    if what == "open" then
        stream.headers = answer.headers
        return stream
    elseif what == "refused" then
        local message = ("the server answered %d to the upgrade"):format(answer.status)
        return nil, errors.sandbox("upgrade_refused", message, { detail = answer.body }), answer
    end
    return nil, inbox.err
end

return http
