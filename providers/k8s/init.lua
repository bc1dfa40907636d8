-- Workspaces as pods of a Kubernetes cluster.

local kubeconfig = require "chamvi.sandbox.k8s.kubeconfig"

local k8s = {}

--- Reads the kubeconfig as kubectl does: `path`, or the files of KUBECONFIG merged, or ~/.kube/config; where there
--- is none, the service account of the pod that this program runs in. Contacts nothing.
---@param given? { path?: string, context?: string } a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.KubeConfig|nil
---@return chamvi.Error? err SandboxError `invalid_kube_config`: file and field, never a value
function k8s.load_kube_config(given)
    return kubeconfig.load(given)
end

return k8s
