-- The spec server as a target of the conformance suite.

local constants = require "chamvi.sandbox.constants"
local k8s = require "chamvi.sandbox.k8s"
local k8s_server = require "spec.support.k8s_server"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local target = {}

---@param server spec.K8sServer
---@param name string
---@return table # see conformance.lua
function target.new(server, name)
    local kube_config = assert(k8s.load_kube_config({ path = server:kubeconfig() }))
    -- The user of the commands is another one.
    local repository = scratch.repository(server.folder .. "/repository")
    scratch.shell(("chown -R 1000:1000 %s/repository"):format(server.folder))
    return {
        name = name,
        repository = repository,
        running = scratch.is_running,
        dies_later = true,
        provider = function(options)
            local given = { namespace = k8s_server.NAMESPACE, kube_config = kube_config }
            for key, value in pairs(options or {}) do
                given[key] = value
            end
            return k8s.create_kubernetes_sandbox(given)
        end,
        lose = function(workspace)
            local pod_name = k8s.POD_NAME_PREFIX .. workspace.id
            server:order({ kill = pod_name })
            support.wait_until(function()
                for _, pod in ipairs(server:state().pods) do
                    if pod.metadata.name == pod_name then
                        return pod.status.phase ~= "Running"
                    end
                end
                return true
            end, "the end of the pod")
        end,
        left = function()
            local ids = {}
            for _, pod in ipairs(server:state().pods) do
                table.insert(ids, pod.metadata.labels[constants.WORKSPACE_LABEL])
            end
            return ids
        end,
    }
end

return target
