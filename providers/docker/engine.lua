-- Requests to a Docker Engine: its API over HTTP, at a version that both sides know.
-- https://docs.docker.com/reference/api/engine/

local answer_words = require "chamvi.sandbox.answer_words"
local errors = require "chamvi.sandbox.errors"
local http = require "chamvi.sandbox.http"
local limits = require "chamvi.sandbox.docker.limits"
local native = require "chamvi.sandbox.core"
local redactor = require "chamvi.sandbox.redactor"
local task = require "chamvi.sandbox.task"

local engines = {}

-- Of the API: Engine 20.10 has 1.41 at most, and Podman answers as 1.40 or 1.41; Engine 29 has 1.44 at least.
local OLDEST = { 1, 40 }
local NEWEST = { 1, 47 }
local LINE_MAX_BYTES = 1048576 -- of one JSON line
local CREDENTIALS_MAX = 8 -- that are remembered: some change with each pull

---@class chamvi.DockerEngine
---@field address chamvi.DockerAddress
---@field version? string the prefix of every path, "/v1.41", once an engine has answered
---@field is_podman? boolean
---@field credentials { header: string, redact: fun(text: string): string }[] sent to it, the newest first
local Engine = {}
Engine.__index = Engine

--- An engine at that address. Contacts nothing.
---@param address chamvi.DockerAddress
---@return chamvi.DockerEngine
function engines.new(address)
    return setmetatable({ address = address, credentials = {} }, Engine)
end

--- Remembers a credential, so that no text of the engine shows it. To be called before it is sent.
---@param header string as it is sent
---@param secrets string[] what no text may show of it
function Engine:remember(header, secrets)
    for _, credential in ipairs(self.credentials) do
        if credential.header == header then
            return
        end
    end
    table.insert(self.credentials, 1, { header = header, redact = redactor(secrets) })
    self.credentials[CREDENTIALS_MAX + 1] = nil
end

--- A text of the engine without the credentials that it was sent.
---@param text string
---@return string
function Engine:redact(text)
    for _, credential in ipairs(self.credentials) do
        text = credential.redact(text)
    end
    return text
end

local function parse_version(text)
    local major, minor = tostring(text):match("^(%d+)%.(%d+)$")
    return major and { tonumber(major), tonumber(minor) }
end

local function is_older(left, right)
    return left[1] < right[1] or left[1] == right[1] and left[2] < right[2]
end

local function words_of(self, answer)
    return answer_words(answer, function(text)
        return self:redact(text)
    end)
end

-- The request of a path below the version, as http.lua takes it.
local function request_of(self, method, path, given)
    given = given or {}
    local headers = {}
    for name, value in pairs(given.headers or {}) do
        headers[name] = value
    end
    local body
    if given.json ~= nil then
        headers["Content-Type"] = "application/json"
        body = assert(native.json_encode(given.json))
    elseif method == "POST" then
        body = ""
    end
    local address = self.address
    return {
        url = address.base .. path,
        socket = address.socket,
        ca_file = address.ca_file,
        cert_file = address.cert_file,
        key_file = address.key_file,
        insecure = address.insecure,
        method = method,
        headers = headers,
        body = body,
        connect_ms = limits.CONNECT,
        timeout_ms = given.timeout_ms or limits.REQUEST,
        idle_ms = given.idle_ms,
        max_bytes = given.max_bytes,
        signal = given.signal,
        upgrade = given.upgrade,
    }
end

-- Asks for the version once, whoever comes first.
local function negotiated(self, signal)
    if self.version then
        return self.version
    end
    local answer, err = http.request(request_of(self, "GET", "/_ping", { signal = signal }))
    if not answer then
        return nil, err
    end
    local newest = parse_version(answer.headers["api-version"])
    if answer.status ~= 200 or not newest then
        return nil, errors.sandbox("engine_unreachable", ("no Docker Engine answers at %s: it says %d to a ping: %s")
            :format(self.address.name, answer.status, words_of(self, answer)))
    end
    if is_older(newest, OLDEST) then
        local message = "the engine at %s is too old: its API is %d.%d, and %d.%d is needed"
        return nil, errors.sandbox("engine_unreachable", message:format(
            self.address.name, newest[1], newest[2], OLDEST[1], OLDEST[2]))
    end
    local version = is_older(newest, NEWEST) and newest or NEWEST
    self.version = ("/v%d.%d"):format(version[1], version[2])
    self.is_podman = answer.headers["libpod-api-version"] ~= nil
    return self.version
end

---@class chamvi.DockerRequest
---@field json? table the body
---@field headers? table<string, string>
---@field timeout_ms? integer 0: none
---@field idle_ms? integer
---@field max_bytes? integer of the answer's body
---@field signal? chamvi.Signal

-- The code for a status that the caller did not expect.
local function code_of(status)
    return (status == 401 or status == 403) and "forbidden" or "engine_failed"
end

--- A text as a part of a URL.
---@param text string
---@return string
function engines.escape(text)
    return (text:gsub("[^%w._~-]", function(byte)
        return ("%%%02X"):format(byte:byte())
    end))
end

--- The error of an answer.
---@param doing string what failed: "creating the container"
---@param answer chamvi.HttpResponse
---@param code? string default: by the status
---@return chamvi.Error
function Engine:failure(doing, answer, code)
    return errors.sandbox(code or code_of(answer.status),
        ("%s failed: the engine says %d: %s"):format(doing, answer.status, words_of(self, answer)),
        { detail = answer.body and self:redact(answer.body) })
end

--- Sends a request and waits for its answer.
---@param method string
---@param path string below the version, "/containers/json"
---@param given? chamvi.DockerRequest
---@return chamvi.HttpResponse|nil answer of any status; `answer.json` is its body, when that is JSON
---@return chamvi.Error? err
function Engine:request(method, path, given)
    local version, err = negotiated(self, given and given.signal)
    if not version then
        return nil, err
    end
    local answer
    answer, err = http.request(request_of(self, method, version .. path, given))
    if not answer then
        if err.code ~= "aborted" then
            self.version = nil -- what answers next may be another engine
        end
        return nil, err
    end
    if answer.body and answer.body ~= "" then
        answer.json = native.json_decode_answer(answer.body)
    end
    return answer
end

--- Sends a request whose answer comes in lines of JSON, and calls `on_line(value)` for each; `on_line` may wait.
---@param method string
---@param path string
---@param given? chamvi.DockerRequest
---@param on_line fun(value: any)
---@return chamvi.HttpResponse|nil answer its body is there when the status is none of 2xx
---@return chamvi.Error? err
function Engine:lines(method, path, given, on_line)
    local version, err = negotiated(self, given and given.signal)
    if not version then
        return nil, err
    end
    local download
    download, err = http.open(request_of(self, method, version .. path, given))
    if not download or download.body then
        return download, err
    end
    local decoder = native.ndjson(LINE_MAX_BYTES)
    local function take(lines)
        for _, line in ipairs(lines) do
            on_line((native.json_decode_answer(line)))
        end
    end
    while true do
        local bytes
        bytes, err = download:read()
        if not bytes then
            break
        end
        local lines, code, message = decoder:feed(bytes)
        if not lines then
            download:close()
            return nil, errors.sandbox(code, message)
        end
        take(lines)
    end
    if err then
        return nil, err
    end
    local last = decoder:finish()
    if last and last ~= "" then
        take({ last })
    end
    return download
end

--- Opens a stream by an upgrade.
---@param path string
---@param given chamvi.DockerRequest
---@return chamvi.HttpStream|nil
---@return chamvi.Error? err
---@return chamvi.HttpResponse? answer when the engine refused
function Engine:stream(path, given)
    local version, err = negotiated(self, given.signal)
    if not version then
        return nil, err
    end
    local request = request_of(self, "POST", version .. path, given)
    request.upgrade = "tcp"
    return http.stream(request)
end

--- Waits, at most about `limit_ms`, until `look()` gives a value; asks often at first.
---@param limit_ms integer
---@param look fun(): any, any a value ends the wait; nil and an error too; nil alone goes on
---@return any value nil when the time is over
---@return any err
function engines.poll(limit_ms, look)
    local pause_ms, over_at = 5, native.monotonic_ms() + limit_ms
    while true do
        local value, err = look()
        if value ~= nil or err ~= nil then
            return value, err
        end
        if native.monotonic_ms() >= over_at then
            return nil
        end
        local slept
        slept, err = task.pause(pause_ms)
        if not slept then
            return nil, err
        end
        pause_ms = math.min(pause_ms * 2, 500)
    end
end

return engines
