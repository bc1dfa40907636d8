-- The five operations on pods that workspaces need, in one namespace.

local apis = require "chamvi.sandbox.k8s.api"
local errors = require "chamvi.sandbox.errors"
local exec = require "chamvi.sandbox.k8s.exec"
local exec_request = require "chamvi.sandbox.exec_request"
local limits = require "chamvi.sandbox.k8s.limits"
local names = require "chamvi.sandbox.k8s.names"
local options = require "chamvi.sandbox.options"

local clients = {}

local PAGE = 500 -- pods in one answer to a list
local BEGINNINGS = 3 -- of a list that the server loses its place in

---@class chamvi.PodClient
---@field create fun(self: chamvi.PodClient, pod: table, signal?: chamvi.Signal): table|nil, chamvi.Error|nil
---@field read fun(self: chamvi.PodClient, name: string, signal?: chamvi.Signal): table|nil, chamvi.Error|nil
---@field delete fun(self: chamvi.PodClient, name: string, signal?: chamvi.Signal): true|nil, chamvi.Error|nil
---@field list fun(self: chamvi.PodClient, selector: string, signal?: chamvi.Signal): table[]|nil, chamvi.Error|nil
---@field exec fun(self: chamvi.PodClient, name: string, given: chamvi.PodExecOptions): chamvi.TransportResult|nil,
---   chamvi.Error|nil
local Client = {}
Client.__index = Client

--- A client on an API. Contacts nothing.
---@param api chamvi.KubernetesApi
---@return chamvi.PodClient
function clients.new(api)
    return setmetatable({ _api = api }, Client)
end

-- A wrong name must not reach a path: with none, a path means all pods.
local function check_name(name)
    if names.is_subdomain(name) then
        return true
    end
    local what = type(name) == "string" and "this one is not" or "got a " .. type(name)
    return nil, errors.validation("invalid_input", "the name of a pod must be a DNS subdomain (RFC 1123): " .. what)
end

local function path_of(name)
    return "/pods/" .. apis.escape(name)
end

local function object_of(self, answer, act)
    if type(answer.json) == "table" then
        return answer.json
    end
    return nil, self._api:failure(answer, act)
end

-- What the API server says before it stores anything. All else may come from something on the way, after it.
local REFUSALS = { [400] = true, [401] = true, [403] = true, [404] = true, [409] = true, [422] = true, [429] = true }

local function is_refusal(answer)
    return REFUSALS[answer.status] and type(answer.json) == "table" and answer.json.kind == "Status"
end

-- What a request may fail with before it is sent.
local NOTHING_SENT = {
    credentials_failed = true,
    engine_unreachable = true,
    invalid_json = true,
    invalid_kube_config = true,
    invalid_request = true,
}

-- Whether there is a pod after a create that failed: false where nothing was done for sure, else nil.
local function exists(nothing_done)
    if nothing_done then
        return false
    end
end

local CREATED = { [200] = true, [201] = true, [202] = true }

--- Creates a pod. It is created at most once, also where answers are lost on the way.
---@param pod table its body, with a name
---@param signal? chamvi.Signal
---@return table|nil pod as the server has it
---@return chamvi.Error? err SandboxError `forbidden`, `refused` (by a quota or by admission, or it is wrong),
---   `not_found` (the namespace), `conflict` (there is one of that name), `engine_failed`, `engine_unreachable`,
---   `transport_lost`, `timed_out`, `aborted`; ValidationError `invalid_input`: its name is none
---@return boolean? exists false: it certainly is not there
function Client:create(pod, signal)
    local metadata = type(pod) == "table" and pod.metadata
    local name = type(metadata) == "table" and metadata.name
    local named, wrong = check_name(name)
    if not named then
        return nil, wrong, false
    end
    local act = { doing = "creating the pod " .. name, verb = "create", resource = "pods" }
    local answer, err, repeated = self._api:request("POST", "/pods", { json = pod, signal = signal })
    if not answer then
        return nil, err, exists(NOTHING_SENT[err.code] and not repeated)
    end
    if answer.status == 409 and repeated and not apis.is_contention(answer) then
        return self:read(name, signal) -- the answer to an earlier try was lost
    end
    if not CREATED[answer.status] then
        return nil, self._api:failure(answer, act), exists(is_refusal(answer) and not repeated)
    end
    return object_of(self, answer, act)
end

--- Reads a pod.
---@param name string
---@param signal? chamvi.Signal
---@return table|nil pod
---@return chamvi.Error? err SandboxError `not_found`, `forbidden`, `engine_failed`, `engine_unreachable`,
---   `transport_lost`, `timed_out`, `aborted`; ValidationError `invalid_input`: that is no name
function Client:read(name, signal)
    local named, wrong = check_name(name)
    if not named then
        return nil, wrong
    end
    local act = { doing = "reading the pod " .. name, verb = "get", resource = "pods" }
    local answer, err = self._api:request("GET", path_of(name), { signal = signal, timeout_ms = limits.READ })
    if not answer then
        return nil, err
    end
    if answer.status ~= 200 then
        return nil, self._api:failure(answer, act)
    end
    return object_of(self, answer, act)
end

--- Deletes a pod, without a grace period. A missing one is fine.
---@param name string
---@param signal? chamvi.Signal
---@return true|nil
---@return chamvi.Error? err as of `read`
---@return boolean? found whether it was there
function Client:delete(name, signal)
    local named, wrong = check_name(name)
    if not named then
        return nil, wrong
    end
    local act = { doing = "deleting the pod " .. name, verb = "delete", resource = "pods" }
    local answer, err = self._api:request("DELETE", path_of(name) .. "?gracePeriodSeconds=0", {
        signal = signal,
        timeout_ms = limits.READ,
    })
    if not answer then
        return nil, err
    end
    if answer.status == 200 or answer.status == 202 or answer.status == 404 then
        return true, nil, answer.status ~= 404
    end
    return nil, self._api:failure(answer, act)
end

-- One page of a list. 410: the server no longer has the state that the list began with.
local function page(self, selector, continue, signal)
    local act = { doing = "listing the pods", verb = "list", resource = "pods" }
    local query = ("/pods?labelSelector=%s&limit=%d"):format(apis.escape(selector), PAGE)
    if continue then
        query = query .. "&continue=" .. apis.escape(continue)
    end
    local answer, err = self._api:request("GET", query, { signal = signal })
    if not answer then
        return nil, err
    end
    if answer.status == 410 and continue then
        return false
    end
    local list = answer.json
    if answer.status ~= 200 or type(list) ~= "table" or type(list.items) ~= "table" then
        return nil, self._api:failure(answer, act)
    end
    local more = type(list.metadata) == "table" and list.metadata.continue
    return list.items, type(more) == "string" and more ~= "" and more or nil
end

-- All pages; false when the server has lost its place.
local function pages(self, selector, signal)
    local pods, continue, places = {}, nil, {}
    repeat
        local items
        items, continue = page(self, selector, continue, signal)
        if not items then
            return items, continue
        end
        if continue and places[continue] then
            return nil, errors.sandbox("engine_failed", "listing the pods failed: the server's pages go in a circle")
        elseif continue then
            places[continue] = true
        end
        for _, item in ipairs(items) do
            table.insert(pods, item)
        end
    until not continue
    return pods
end

--- Lists the pods with some labels.
---@param selector string "key=value,key=value"
---@param signal? chamvi.Signal
---@return table[]|nil pods
---@return chamvi.Error? err SandboxError as of `read`, but for `not_found`; ValidationError `invalid_input`
function Client:list(selector, signal)
    if type(selector) ~= "string" then
        return nil, errors.validation("invalid_input", ("a selector must be a string, got a %s"):format(type(selector)))
    end
    for _ = 1, BEGINNINGS do
        local pods, err = pages(self, selector, signal)
        if pods ~= false then
            return pods, err
        end
    end
    return nil, errors.sandbox("engine_failed", "listing the pods failed: the server loses its place again and again")
end

---@class chamvi.PodExecOptions
---@field argv string[]
---@field stdin? string the command's whole standard input; none: end of file at once
---@field stdout? chamvi.OutputSink gets every chunk as it arrives
---@field stderr? chamvi.OutputSink
---@field signal? chamvi.Signal closes the connection; the command runs on

--- Runs a command in the workspace's container, at most once. With `stdin`, or with long arguments, the image needs
--- `sh` and GNU `head`.
---@param name string of the pod
---@param given chamvi.PodExecOptions
---@return chamvi.TransportResult|nil
---@return chamvi.Error? err SandboxError `transport_lost` (the outcome is unknown), and those of `read`;
---   ValidationError `invalid_argv`, `invalid_stdin`
function Client:exec(name, given)
    local named, err = check_name(name)
    if not named then
        return nil, err
    end
    if type(given) ~= "table" then
        return nil, errors.validation("invalid_input", ("what to run must be a table, got a %s"):format(type(given)))
    end
    local asked = options.copy(given)
    asked.argv, err = exec_request.argv(asked.argv)
    if not asked.argv then
        return nil, err
    end
    local checked
    checked, err = exec_request.check_stdin(asked.stdin)
    if not checked then
        return nil, err
    end
    return exec(self._api, name, asked)
end

return clients
