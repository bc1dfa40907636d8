---@meta chamvi.sandbox.k8s

-- For LuaLS: what `require "chamvi.sandbox.k8s"` gives; see types/chamvi/sandbox.lua.

--- Workspaces as pods of a Kubernetes cluster.
---@class chamvi.sandbox.k8s
local k8s = {}

k8s.CONTAINER_NAME = "sandbox"
k8s.POD_NAME_PREFIX = "chamvi-ws-"
k8s.START_TIMEOUT_MS = 120000
k8s.POLL_MS = 1000
---@type string[] reasons of a waiting container that fail a create at once
k8s.FATAL_WAITING_REASONS = {}

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

---@class chamvi.PodClientOptions
---@field namespace string of the pods
---@field kube_config? chamvi.KubeConfig default: as kubectl finds it

--- The pods of one namespace. Its functions wait.
---@class chamvi.PodClient
local PodClient = {}

--- Creates a pod. It is created at most once, also where answers are lost on the way.
---@param pod table its body, with a name
---@param signal? chamvi.Signal
---@return table|nil pod as the server has it
---@return chamvi.Error? err SandboxError `forbidden`, `refused` (by a quota or by admission, or it is wrong),
---   `not_found` (the namespace), `conflict` (there is one of that name), `engine_failed`, `engine_unreachable`,
---   `transport_lost`, `timed_out`, `aborted`; ValidationError `invalid_input`: its name is none
---@return boolean? exists false: it certainly is not there
function PodClient:create(pod, signal) end

--- Reads a pod.
---@param name string
---@param signal? chamvi.Signal
---@return table|nil pod
---@return chamvi.Error? err SandboxError `not_found`, `forbidden`, `engine_failed`, `engine_unreachable`,
---   `transport_lost`, `timed_out`, `aborted`; ValidationError `invalid_input`: that is no name
function PodClient:read(name, signal) end

--- Deletes a pod, without a grace period. A missing one is fine.
---@param name string
---@param signal? chamvi.Signal
---@return true|nil
---@return chamvi.Error? err as of `read`
---@return boolean? found whether it was there
function PodClient:delete(name, signal) end

--- Lists the pods with some labels.
---@param selector string "key=value,key=value"
---@param signal? chamvi.Signal
---@return table[]|nil pods
---@return chamvi.Error? err SandboxError as of `read`, but for `not_found`; ValidationError `invalid_input`
function PodClient:list(selector, signal) end

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
function PodClient:exec(name, given) end

--- A client for the pods of a namespace. Contacts nothing yet.
---@param given chamvi.PodClientOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.PodClient
function k8s.create_pod_client(given) end

---@class chamvi.KubernetesEvent
---@field phase "creating"|"starting"|"cloning"|"ready"
---@field message string

---@class chamvi.KubernetesOptions
---@field namespace string of the pods
---@field kube_config? chamvi.KubeConfig by `load_kube_config`; default: as kubectl finds it, at the first use
---@field image? string default DEFAULT_SANDBOX_IMAGE; pin a digest in production
---@field env? table<string, string> added to every workspace's environment, after SANDBOX_ENV
---@field limits? chamvi.Limits `pids` means nothing: no pod can be given one
---@field pod_labels? table<string, string> more labels for the pods, such as for a NetworkPolicy
---@field image_pull_policy? "IfNotPresent"|"Always" default "IfNotPresent"; "Always" for a tag that moves
---@field start_timeout_ms? integer until a pod has to run; default START_TIMEOUT_MS
---@field unschedulable_timeout_ms? integer how long no node may have room for a pod; default 5,000. With an autoscaler
---   that has to add nodes, as much as that takes
---@field poll_ms? integer between looks at a pod that does not run yet; default POLL_MS, and less at first
---@field clock? chamvi.Clock default: the system's
---@field client? chamvi.PodClient instead of one for `kube_config`; `read` of a missing pod gives the code `not_found`
---@field runtime_class_name? string such as gVisor's or Kata's
---@field pod_overrides? table merged into the pods' bodies last, but for what keeps a workspace one
---@field on_event? fun(event: chamvi.KubernetesEvent) told how a create goes on; must not wait
---@field on_error? fun(err: any) told what could not be removed after a create that failed; default: a line on stderr

---@class chamvi.KubernetesProvider
---@field name "k8s"
local KubernetesProvider = {}

--- Makes a workspace: creates a pod, waits until it runs, checks the repository out in it. Whatever fails or is
--- aborted on the way is removed again before this returns.
---@param request chamvi.CreateOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.Workspace|nil
---@return chamvi.Error? err ValidationError for repo and ref; SandboxError `engine_unreachable`, `forbidden`,
---   `image_unavailable`, `not_ready` (the pod does not start, and why), `create_failed`, `checkout_failed`,
---   `aborted`
function KubernetesProvider:create(request) end

--- Deletes the pods of this kind in the namespace whose lifetime is over, in any state, whoever made them.
---@return integer|nil count how many went
---@return chamvi.Error? err SandboxError `engine_unreachable`, `forbidden` and such: they can't be listed;
---   `gc_failed`, with `count`: some could not be removed, the others are gone
function KubernetesProvider:collect_garbage() end

--- A provider whose workspaces are pods. Contacts nothing yet.
---@param given chamvi.KubernetesOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.KubernetesProvider
function k8s.create_kubernetes_sandbox(given) end

return k8s
