---@meta chamvi.sandbox.k8s

-- For LuaLS: what `require "chamvi.sandbox.k8s"` gives; see types/chamvi/sandbox.lua.

--- Workspaces as pods of a Kubernetes cluster.
---@class chamvi.sandbox.k8s
local k8s = {}

---@class chamvi.KubeConfigOptions
---@field path? string this kubeconfig alone; default: the files of KUBECONFIG, merged, or ~/.kube/config
---@field context? string default: the current-context

--- One cluster, and an identity on it. Token files are read again and credential plugins are run again when their
--- tokens expire.
---@class chamvi.KubeConfig
---@field server string the URL without a slash at its end
---@field namespace string the context's, else "default"
---@field context? string its name; nil for the service account of a pod
local KubeConfig = {}

--- What a request to the cluster has to have beside its URL: TLS, proxy, headers. Token files are read and a
--- credential plugin is run when it is time; so it may wait.
---@param signal? chamvi.Signal also put into the options
---@return table|nil options a new table; `headers` is to be added to
---@return chamvi.Error? err SandboxError `credentials_failed`, `aborted`
function KubeConfig:request_options(signal) end

--- To be called when the server answers 401 to a request: whether asking once more, with new options, may help.
--- A credential that a plugin gave is thrown away, unless it was replaced meanwhile.
---@param options table what request_options gave for that request
---@return boolean
function KubeConfig:refused(options) end

--- Reads the kubeconfig as kubectl does: `path`, or the files of KUBECONFIG merged, or ~/.kube/config; where there
--- is none, the service account of the pod that this program runs in. Contacts nothing.
---@param given? chamvi.KubeConfigOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.KubeConfig|nil
---@return chamvi.Error? err SandboxError `invalid_kube_config`: file and field, never a value
function k8s.load_kube_config(given) end

return k8s
