-- One command in a pod, at most once.

local apis = require "chamvi.sandbox.k8s.api"
local command = require "chamvi.sandbox.k8s.command"
local errors = require "chamvi.sandbox.errors"
local exec_stream = require "chamvi.sandbox.k8s.exec_stream"
local limits = require "chamvi.sandbox.k8s.limits"
local names = require "chamvi.sandbox.k8s.names"
local task = require "chamvi.sandbox.task"
local timer = require "chamvi.sandbox.timer"

-- What a runtime says on standard output instead of running a command that is not there (Kubernetes 1.20 on Docker,
-- which then reports 126), or in its status (containerd, CRI-O).
local NOT_THERE = { "executable file not found", "no such file or directory" }
local WORDS_MAX_BYTES = 1024

local function says_not_there(text)
    for _, words in ipairs(NOT_THERE) do
        if text:find(words, 1, true) then
            return true
        end
    end
    return false
end

-- A refusal to open the stream that the same request may not meet again. Nothing has run.
local function is_refused_for_now(answer, err)
    if answer then
        return answer.status == 429
    end
    return err and apis.is_away(err)
end

-- Opens the stream. Returns it, or nil and the error.
local function open(api, name, query, signal)
    local path = api:path(("/pods/%s/exec?%s"):format(apis.escape(name), query))
    local stream, err, refusal = apis.patiently(signal, limits.OPEN, function(timeout_ms)
        return api:authorized("GET", path, {}, signal, function(request)
            request.timeout_ms, request.signal, request.ping_ms = timeout_ms, signal, limits.PING
            return exec_stream.open(request)
        end)
    end, is_refused_for_now)
    if stream or not refusal then
        return stream, err
    end
    return nil, api:failure(refusal, { doing = "the exec in the pod " .. name, verb = "get and create",
        resource = "pods/exec" })
end

-- Sends the input as fast as it is taken. The command may end first: then it wanted no more.
local function send(stream, input)
    task.start(function()
        if stream:write(input) then
            stream:end_stdin()
        end
    end)
end

-- Gives a sink what is for it. What it raises ends the exec.
local function give(stream, sink, bytes)
    if sink then
        local ok, cause = pcall(sink.write, sink, bytes)
        if not ok then
            stream:cut()
            error(cause, 0)
        end
    end
end

-- Feeds what the command prints into the sinks, up to the end of the stream. Returns the error of a stream that did not
-- end as it should, and the first words on standard output.
local function read_all(stream, given)
    local first, words, cancel = true, "", nil
    stream:on_status(function()
        cancel = timer(limits.CLOSING, function()
            stream:cut()
        end)
    end)
    local name, bytes = stream:read()
    while name do
        if first and name == "stdout" then
            first, words = false, bytes:sub(1, WORDS_MAX_BYTES)
        end
        give(stream, given[name], bytes)
        name, bytes = stream:read()
    end
    if cancel then
        cancel()
    end
    return bytes, words
end

-- What became of the command.
local function result_of(stream, err, words)
    local code, unknown, reason = stream:outcome()
    if code == 126 and words:find("OCI runtime", 1, true) and says_not_there(words) then
        code = 127
    elseif not code and reason and says_not_there(unknown.message) then
        code = 127
    end
    if code then
        return { exit_code = code }
    end
    if reason or not err then
        unknown.message = apis.redactor(stream)(unknown.message)
        return nil, unknown
    end
    if err.code == "aborted" then
        return nil, err
    end
    return nil, errors.sandbox("transport_lost", err.message, { cause = err })
end

--- Runs a command in the workspace's container of a pod, as chamvi.PodClient says.
---@param api chamvi.KubernetesApi
---@param name string
---@param given chamvi.PodExecOptions
---@return { exit_code: integer }|nil
---@return chamvi.Error? err
return function(api, name, given)
    local asked, input = command.of(given.argv, given.stdin)
    local query = ("container=%s&stdin=%s&stdout=true&stderr=true&tty=false&%s"):format(
        names.CONTAINER, tostring(input ~= nil), asked)
    local stream, err = open(api, name, query, given.signal)
    if not stream then
        return nil, err
    end
    if input then
        send(stream, input)
    end
    local words
    err, words = read_all(stream, given)
    stream:cut()
    return result_of(stream, err, words)
end
