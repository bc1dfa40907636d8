-- A real cluster as specs look at it and disturb it from outside: by kubectl, which shares nothing with what is tested.

local compat = require "chamvi.sandbox.compat"
local constants = require "chamvi.sandbox.constants"
local k8s = require "chamvi.sandbox.k8s"
local native = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local k8s_cluster = {}

-- No call of kubectl takes longer, in seconds.
local CALL_MAX_S = 60

---@class spec.Cluster
---@field kubeconfig string path, with the permissions that the provider needs and perhaps no more
---@field namespace string of that kubeconfig
---@field image string Debian with git and a user 1000
---@field admin? string path of a kubeconfig with all permissions, on a cluster that was started for specs
---@field api_pid_file? string path of the API server's process id
---@field here boolean its processes are this machine's
local Cluster = {}
Cluster.__index = Cluster

--- The cluster that the environment names.
---@return spec.Cluster|nil
---@return string|nil reason why there is none, for `pending`
function k8s_cluster.find()
    local kubeconfig, image = os.getenv("CHAMVI_TEST_KUBECONFIG"), os.getenv("CHAMVI_TEST_IMAGE")
    if not kubeconfig or not image then
        return nil, "no cluster: run `eval \"$(scripts/services k8s env)\"` first, or name one"
    end
    local config = assert(k8s.load_kube_config({ path = kubeconfig }))
    return setmetatable({
        kubeconfig = kubeconfig,
        config = config,
        namespace = config.namespace,
        image = image,
        admin = os.getenv("CHAMVI_TEST_KUBECONFIG_ADMIN"),
        api_pid_file = os.getenv("CHAMVI_TEST_K8S_API_PID_FILE"),
        here = config.server:find("^https?://127%.") ~= nil,
        known = {},
    }, Cluster)
end

local function words(list)
    local quoted = {}
    for index, word in ipairs(list) do
        quoted[index] = scratch.quote(word)
    end
    return table.concat(quoted, " ")
end

local function call(kubeconfig, namespace, arguments)
    return scratch.shell(("timeout -k 5 %d kubectl --kubeconfig=%s --namespace=%s %s 2>&1"):format(CALL_MAX_S,
        scratch.quote(kubeconfig), namespace, words(arguments)))
end

--- Runs kubectl, and raises when it fails.
---@param ... string its arguments
---@return string output
function Cluster:call(...)
    return call(self.kubeconfig, self.namespace, { ... })
end

--- The same with all permissions.
function Cluster:call_as_admin(...)
    return call(assert(self.admin, "the cluster was not started for specs"), self.namespace, { ... })
end

--- Kills the API server. Returns a function that starts it again as it was and waits until it is ready.
---@return fun()
function Cluster:stop_api()
    local file = scratch.quote(assert(self.api_pid_file, "the cluster was not started for specs"))
    local command = scratch.shell(("tr '\\0' ' ' <\"/proc/$(cat %s)/cmdline\""):format(file))
    assert(command:find("kube%-apiserver "), "this is not the API server: " .. command)
    scratch.shell(("kill -KILL \"$(cat %s)\""):format(file))
    return function()
        scratch.shell(("setsid %s >/dev/null 2>&1 </dev/null & echo $! >%s"):format(command, file))
        for _ = 1, 900 do
            if pcall(self.call_as_admin, self, "get", "--raw", "/readyz") then
                return
            end
            assert(sandbox.sleep(100))
        end
        error("the API server is not ready again")
    end
end

--- The pods of workspaces, as kubectl sees them.
---@return table[]
function Cluster:pods()
    local selector = table.concat(constants.SANDBOX_LABEL_SELECTORS, ",")
    return assert(native.json_decode(self:call("get", "pods", "--selector=" .. selector, "--output=json"))).items
end

--- Remembers the pods of now; `left` does not tell of them.
function Cluster:watch()
    for _, pod in ipairs(self:pods()) do
        self.known[pod.metadata.name] = true
    end
end

--- The ids of the workspaces whose pods are new since.
---@return string[]
function Cluster:left()
    local ids = {}
    for _, pod in ipairs(self:pods()) do
        if not self.known[pod.metadata.name] then
            table.insert(ids, pod.metadata.labels[constants.WORKSPACE_LABEL])
        end
    end
    return ids
end

--- The name of a workspace's pod.
function Cluster:pod(workspace)
    return k8s.POD_NAME_PREFIX .. workspace.id
end

--- Deletes a workspace's pod as an operator in a hurry might.
function Cluster:lose(workspace)
    self:call("delete", "pod", self:pod(workspace), "--grace-period=0", "--force", "--wait=false")
end

--- Whether a process runs that has the word among its arguments: on the one node that this machine is, or in a pod.
function Cluster:running(word)
    if self.here then
        return scratch.is_running(word)
    end
    for _, pod in ipairs(self:pods()) do
        local found = self:call("exec", pod.metadata.name, "--", "sh", "-c",
            "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c -w " .. word .. " || true")
        if tonumber(found:match("%d+")) > 1 then -- the shell that looks is one
            return true
        end
    end
    return false
end

--- A repository that every pod makes for itself as it starts, from a bundle in its own body.
---@param folder string for the original
---@return { url: string, first: string, main: string, topic: string }
---@return table overrides for the option `pod_overrides`
function Cluster:repository(folder)
    local repository = scratch.repository(folder)
    local bundle = scratch.shell(("git -C %s bundle create --quiet - HEAD --all | base64 -w 0"):format(folder))
    repository.url = "file:///tmp/repository"
    local make = "base64 -d >/tmp/bundle && git clone --quiet --mirror /tmp/bundle /tmp/repository"
    return repository, {
        spec = {
            containers = {
                {
                    name = k8s.CONTAINER_NAME,
                    lifecycle = {
                        postStart = { exec = { command = { "sh", "-c", "printf %s " .. bundle .. " | " .. make } } },
                    },
                },
            },
        },
    }
end

-- What specs ask for, beside what one of them wants.
local LIMITS = { cpu = "250m", memory = "256Mi", storage = "256Mi" }

--- Options for a provider on it.
---@param options? table
---@return table
function Cluster:options(options)
    local given = { namespace = self.namespace, kube_config = self.config, image = self.image, poll_ms = 200 }
    for key, value in pairs(options or {}) do
        given[key] = value
    end
    given.limits = compat.deep_copy(given.limits or {})
    for key, value in pairs(LIMITS) do
        given.limits[key] = given.limits[key] or value
    end
    return given
end

return k8s_cluster
