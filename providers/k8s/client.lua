-- The five operations on pods that workspaces need, in one namespace.

local apis = require "chamvi.sandbox.k8s.api"
local errors = require "chamvi.sandbox.errors"
local exec = require "chamvi.sandbox.k8s.exec"

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

local function path_of(name)
    return "/pods/" .. apis.escape(name)
end

local function object_of(self, answer, act)
    if type(answer.json) == "table" then
        return answer.json
    end
    return nil, self._api:failure(answer, act)
end

-- False, where a request for a pod was not carried out for sure.
local function nothing_came(err, may_be)
    if may_be or err and err.code ~= "engine_unreachable" then
        return nil
    end
    return false
end

--- Creates a pod. It is created at most once, also where answers are lost on the way.
---@param pod table its body, with a name
---@param signal? chamvi.Signal
---@return table|nil pod as the server has it
---@return chamvi.Error? err SandboxError `forbidden`, `refused` (by a quota or by admission, or it is wrong),
---   `not_found` (the namespace), `conflict` (there is one of that name), `engine_failed`, `engine_unreachable`,
---   `transport_lost`, `timed_out`, `aborted`
---@return boolean? exists false: it certainly is not there
function Client:create(pod, signal)
    local name = pod.metadata.name
    local act = { doing = "creating the pod " .. name, verb = "create", resource = "pods" }
    local answer, err, repeated = self._api:request("POST", "/pods", { json = pod, signal = signal })
    if not answer then
        return nil, err, nothing_came(err, repeated)
    end
    if answer.status == 409 and repeated then
        return self:read(name, signal) -- the answer to an earlier try was lost
    end
    if answer.status ~= 201 then
        local is_refusal = answer.status == 429 or answer.status < 500
        return nil, self._api:failure(answer, act), nothing_came(nil, repeated or not is_refusal)
    end
    return object_of(self, answer, act)
end

--- Reads a pod.
---@param name string
---@param signal? chamvi.Signal
---@return table|nil pod
---@return chamvi.Error? err SandboxError `not_found`, `forbidden`, `engine_failed`, `engine_unreachable`,
---   `transport_lost`, `timed_out`, `aborted`
function Client:read(name, signal)
    local act = { doing = "reading the pod " .. name, verb = "get", resource = "pods" }
    local answer, err = self._api:request("GET", path_of(name), { signal = signal })
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
---@return chamvi.Error? err SandboxError as of `read`
---@return boolean? found whether it was there
function Client:delete(name, signal)
    local act = { doing = "deleting the pod " .. name, verb = "delete", resource = "pods" }
    local answer, err = self._api:request("DELETE", path_of(name) .. "?gracePeriodSeconds=0", { signal = signal })
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
    local pods, continue = {}, nil
    repeat
        local items
        items, continue = page(self, selector, continue, signal)
        if not items then
            return items, continue
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
---@return chamvi.Error? err SandboxError as of `read`, but for `not_found`
function Client:list(selector, signal)
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
---@return chamvi.Error? err SandboxError `transport_lost` (the outcome is unknown), and those of `read`
function Client:exec(name, given)
    return exec(self._api, name, given)
end

return clients
