-- Requests to a Kubernetes API server: credentials, tries, and what its refusals mean.
-- https://kubernetes.io/docs/reference/using-api/api-concepts/

local answer_words = require "chamvi.sandbox.answer_words"
local base64 = require "chamvi.sandbox.base64"
local errors = require "chamvi.sandbox.errors"
local http = require "chamvi.sandbox.http"
local limits = require "chamvi.sandbox.k8s.limits"
local native = require "chamvi.sandbox.core"
local redactor = require "chamvi.sandbox.redactor"
local task = require "chamvi.sandbox.task"

local apis = {}

local ANSWER_MAX_BYTES = 16777216
-- Between tries: doubled each time, or what the server asks for.
local FIRST_PAUSE_MS = 200
local PAUSE_MAX_MS = 5000
local ASKED_PAUSE_MAX_MS = 10000
local LAST_TRY_MS = 1000 -- a try has at least this, however little is left

---@class chamvi.KubernetesApi
---@field namespace string
local Api = {}
Api.__index = Api

--- The API server of a configuration. Contacts nothing.
---@param config chamvi.KubeConfig|fun(): chamvi.KubeConfig?, chamvi.Error? a function is called once it must
---@param namespace string
---@return chamvi.KubernetesApi
function apis.new(config, namespace)
    return setmetatable({ namespace = namespace, _config = config }, Api)
end

-- The configuration, loaded by whoever comes first.
local function config_of(self)
    if type(self._config) == "function" then
        local config, err = self._config()
        if not config then
            return nil, err
        end
        self._config = config
    end
    return self._config
end

--- A text as a part of a URL.
---@param text string
---@return string
function apis.escape(text)
    return (text:gsub("[^%w._~-]", function(byte)
        return ("%%%02X"):format(byte:byte())
    end))
end

--- A function that gives a text of a server without the credential of the request, which it may have repeated: as it
--- was sent, or the password in it.
---@param answer table what `Api:authorized` got
---@return fun(text: string): string
function apis.redactor(answer)
    local scheme, credential = (answer.authorization or ""):match("^(%S+) (.*)$")
    local pair = scheme == "Basic" and base64.decode(credential) or ""
    return redactor({ credential or "", pair:match(":(.*)$") or "" })
end

--- What is asked for, for messages and for the permission that it takes.
---@class chamvi.KubernetesAct
---@field doing string "creating the pod x"
---@field verb string of the API: "create"
---@field resource string "pods"

-- The permission that is missing by a 403: a verb and a resource. Nil when it is not about permissions: admission,
-- which knows quotas, answers so too. Without words it is what the request takes.
local function missing_permission(answer, words, act)
    if (answer.body or "") == "" then
        return act.verb, act.resource
    end
    return words:match('cannot (%S+) resource "([^"]+)"')
end

--- The error of an answer.
---@param answer chamvi.HttpResponse
---@param act chamvi.KubernetesAct
---@return chamvi.Error `forbidden`, `refused`, `not_found`, `conflict`, `engine_failed`
function Api:failure(answer, act)
    local redact = apis.redactor(answer)
    local status, words = answer.status, answer_words(answer, redact)
    local code, advice = "engine_failed", ""
    local verb, resource = missing_permission(answer, words, act)
    if status == 401 then
        code, advice = "forbidden", "; the credentials of the kubeconfig are not valid (any more)"
    elseif status == 403 and verb then
        code = "forbidden"
        advice = ('; it takes a Role in the namespace "%s" with the verb "%s" on "%s"'):format(
            self.namespace, verb, resource)
    elseif status == 400 or status == 403 or status == 422 then
        code = "refused"
    elseif status == 404 then
        code = "not_found"
    elseif status == 409 then
        code = "conflict"
    end
    return errors.sandbox(code, ("%s failed: the API server says %d: %s%s"):format(act.doing, status, words, advice), {
        detail = answer.body and redact(answer.body),
    })
end

-- The request of a path below the server's address, as http.lua takes it: `options` has credentials and more.
local function request_of(config, options, method, path, headers)
    options.url, options.method = config.server .. path, method
    options.headers = options.headers or {}
    for name, value in pairs(headers) do
        options.headers[name] = value
    end
    return options
end

--- Makes a request with the credentials and calls `send(request)`; once more with fresh credentials when the server
--- does not accept them, since then nothing has been done.
---@param method string
---@param path string below the server's address
---@param headers table<string, string>
---@param signal? chamvi.Signal
---@param send fun(request: table): table|nil, chamvi.Error|nil, chamvi.HttpResponse|nil an answer first, or third
---   when it is a refusal
---@return table|nil # what `send` returned last
---@return chamvi.Error?
---@return chamvi.HttpResponse?
function Api:authorized(method, path, headers, signal, send)
    local config, err = config_of(self)
    if not config then
        return nil, err
    end
    local value, refusal, options
    for _ = 1, 2 do
        options, err = config:request_options(signal)
        if not options then
            return nil, err
        end
        value, err, refusal = send(request_of(config, options, method, path, headers))
        local answer = value or refusal
        if answer then
            answer.authorization = options.headers.Authorization
        end
        if not answer or answer.status ~= 401 or not config:refused(options) then
            break
        end
    end
    return value, err, refusal
end

-- How long the server asks to wait, in milliseconds.
local function asked_pause(answer)
    local seconds = tonumber(answer and answer.headers["retry-after"] or "")
    return seconds and seconds > 0 and math.min(seconds * 1000, ASKED_PAUSE_MAX_MS) or 0
end

--- Whether a request was refused since others were under way: it changed nothing, and may be made again. Quotas do so.
---@param answer chamvi.HttpResponse
---@return boolean
function apis.is_contention(answer)
    local status = answer.json
    return answer.status == 409 and type(status) == "table" and status.kind == "Status"
        and type(status.reason) == "string" and status.reason ~= "AlreadyExists"
end

-- Whether a request that is to be made again has certainly not been carried out.
local function is_refused(answer, err)
    if answer then
        return answer.status == 429 or apis.is_contention(answer)
    end
    return err.code == "engine_unreachable"
end

--- Whether there was no connection for a reason that may pass. Certificates stay as they are.
---@param err chamvi.Error
---@return boolean
function apis.is_away(err)
    return err.code == "engine_unreachable" and not err.message:find("certificate", 1, true)
end

local function is_retried(answer, err, is_harmless)
    if answer then
        return answer.status >= 500 or is_refused(answer)
    end
    return err.code == "transport_lost" or is_harmless and err.code == "timed_out" or apis.is_away(err)
end

--- Calls `try(timeout_ms)` until it gives something final, with pauses, for a bounded time.
---@param signal? chamvi.Signal
---@param timeout_ms integer for one try; less when less is left
---@param try fun(timeout_ms: integer): any, chamvi.Error|nil, chamvi.HttpResponse|nil
---@param again fun(answer: chamvi.HttpResponse|nil, err: chamvi.Error|nil): boolean|nil whether to try once more
---@return any, chamvi.Error|nil, chamvi.HttpResponse|nil # of the last try
function apis.patiently(signal, timeout_ms, try, again)
    local pause_ms, over_at = FIRST_PAUSE_MS, native.monotonic_ms() + limits.TRIES
    local rest_ms = timeout_ms
    while true do
        local value, err, refusal = try(math.min(timeout_ms, math.max(rest_ms, LAST_TRY_MS)))
        if not again(refusal or value or nil, err) then
            return value, err, refusal
        end
        -- Many that were refused together must not come back together.
        local wait_ms = math.max(pause_ms, asked_pause(refusal or value)) * (0.75 + math.random() / 2)
        wait_ms = math.floor(wait_ms)
        rest_ms = over_at - native.monotonic_ms() - wait_ms
        if rest_ms < 0 then
            return value, err, refusal
        end
        local slept, aborted = task.pause(wait_ms, signal)
        if not slept then
            return nil, aborted
        end
        pause_ms = math.min(pause_ms * 2, PAUSE_MAX_MS)
    end
end

local function decoded(answer, err)
    if answer and (answer.body or "") ~= "" then
        answer.json = native.json_decode_answer(answer.body)
    end
    return answer, err
end

---@class chamvi.KubernetesRequest
---@field json? table the body
---@field signal? chamvi.Signal
---@field timeout_ms? integer for one try; default limits.REQUEST

--- Sends a request, which has to be one that may be sent twice, and waits for its answer. Failures that may pass are
--- tried again.
---@param method string
---@param path string below the namespace: "/pods"
---@param given? chamvi.KubernetesRequest
---@return chamvi.HttpResponse|nil answer of any status; `answer.json` is its body, when that is JSON
---@return chamvi.Error? err
---@return boolean repeated whether an earlier try may have been carried out
function Api:request(method, path, given)
    given = given or {}
    local body
    if given.json then
        local code, message
        body, code, message = native.json_encode(given.json)
        if not body then
            return nil, errors.sandbox(code, message), false
        end
    end
    local headers = { Accept = "application/json", ["Content-Type"] = body and "application/json" or nil }
    local repeated = false
    local is_harmless = method ~= "POST"
    local one_ms = given.timeout_ms or limits.REQUEST
    local answer, err = apis.patiently(given.signal, one_ms, function(timeout_ms)
        return self:authorized(method, self:path(path), headers, given.signal, function(request)
            request.body, request.signal = body, given.signal
            request.timeout_ms, request.max_bytes = timeout_ms, ANSWER_MAX_BYTES
            return decoded(http.request(request))
        end)
    end, function(answer, err)
        local retried = is_retried(answer, err, is_harmless)
        repeated = repeated or retried and not is_refused(answer, err)
        return retried
    end)
    if not answer then
        return nil, err, repeated
    end
    return answer, nil, repeated
end

--- A path of the namespace, below the server's address.
---@param path string "/pods"
---@return string
function Api:path(path)
    return ("/api/v1/namespaces/%s%s"):format(apis.escape(self.namespace), path)
end

return apis
