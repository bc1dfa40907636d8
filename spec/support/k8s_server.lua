-- Starts the API server of k8s_server.js, which runs pods in namespaces of this machine, and gives it orders.

local http = require "chamvi.sandbox.http"
local local_sandbox = require "chamvi.sandbox.local"
local native = require "chamvi.sandbox.core"
local namespaces = require "spec.support.namespaces"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local task = require "chamvi.sandbox.task"

local k8s_server = {}

k8s_server.NAMESPACE = "sandboxes"

-- Why there can be none here, or nil.
k8s_server.missing = namespaces.missing

---@class spec.K8sServer
---@field url string
---@field folder string
---@field token string the one that it accepts at first
local Server = {}
Server.__index = Server

--- Starts one and waits until it listens. A local workspace holds it, so that it and its pods start with nothing of
--- the specs' own descriptors and signals, and end with them.
---@return spec.K8sServer
function k8s_server.start()
    local folder = scratch.folder()
    scratch.shell("chmod 755 " .. folder) -- the pods' user is another one
    local place = assert(local_sandbox.create_local_sandbox({ root = folder .. "/host" }):create({ run_id = "server" }))
    local script = scratch.shell("pwd"):match("[^\n]+") .. "/spec/support/k8s_server.js"
    task.start(function()
        local ended, err = place:exec({ "node", script, folder }, {
            timeout_ms = sandbox.EXEC_TIMEOUT_MAX_MS,
            on_output = function(_, text)
                io.stderr:write(text)
            end,
        })
        if ended or err.code ~= "disposed" then
            io.stderr:write("k8s_server.js has ended: ", ended and ended.status or err.message, "\n")
        end
    end)
    for _ = 1, 3000 do
        local port = scratch.read(folder .. "/ready")
        if port then
            return setmetatable({
                url = "http://127.0.0.1:" .. port,
                folder = folder,
                token = "token",
                _place = place,
            }, Server)
        end
        sandbox.sleep(20)
    end
    error("the server does not start")
end

--- Gives it orders: see k8s_server.js.
---@param orders table
function Server:order(orders)
    local answer = assert(http.request({
        url = self.url .. "/control",
        method = "POST",
        body = assert(native.json_encode(orders)),
    }))
    assert(answer.status == 200, answer.body)
end

--- What it knows: its pods, the requests and the number of execs and of their pings since it was told to forget them.
---@return { pods: table[], requests: string[], execs: integer, pings: integer }
function Server:state()
    local answer = assert(http.request({ url = self.url .. "/control" }))
    return assert(native.json_decode(answer.body))
end

--- A kubeconfig for it.
---@param token? string instead of the accepted one
---@return string path
function Server:kubeconfig(token)
    local path = self.folder .. "/kubeconfig"
    scratch.write(path, ([[
apiVersion: v1
kind: Config
clusters: [{name: spec, cluster: {server: "%s"}}]
users: [{name: spec, user: {token: "%s"}}]
contexts: [{name: spec, context: {cluster: spec, user: spec, namespace: %s}}]
current-context: spec
]]):format(self.url, token or self.token, k8s_server.NAMESPACE))
    return path
end

function Server:stop()
    assert(self._place:dispose())
    scratch.remove(self.folder)
end

return k8s_server
