-- Workspaces as pods of a Kubernetes cluster: one pod per workspace, deleted on dispose.

local apis = require "chamvi.sandbox.k8s.api"
local clients = require "chamvi.sandbox.k8s.client"
local clocks = require "chamvi.sandbox.clock"
local collect = require "chamvi.sandbox.k8s.collect"
local compat = require "chamvi.sandbox.compat"
local constants = require "chamvi.sandbox.constants"
local create_remote_workspace = require "chamvi.sandbox.remote"
local creation = require "chamvi.sandbox.creation"
local guarded_client = require "chamvi.sandbox.k8s.guarded_client"
local kubeconfig = require "chamvi.sandbox.k8s.kubeconfig"
local limits = require "chamvi.sandbox.k8s.limits"
local names = require "chamvi.sandbox.k8s.names"
local options = require "chamvi.sandbox.options"
local override_rules = require "chamvi.sandbox.k8s.override_rules"
local prepare_workspace = require "chamvi.sandbox.prepare"
local provider = require "chamvi.sandbox.provider"
local reporter = require "chamvi.sandbox.reporter"
local rules = require "chamvi.sandbox.rules"
local start = require "chamvi.sandbox.k8s.start"
local state = require "chamvi.sandbox.k8s.state"
local task = require "chamvi.sandbox.task"
local transports = require "chamvi.sandbox.k8s.transport"

local k8s = {}

k8s.CONTAINER_NAME = names.CONTAINER
k8s.POD_NAME_PREFIX = names.POD_PREFIX
k8s.START_TIMEOUT_MS = 120000
k8s.POLL_MS = 1000
k8s.FATAL_WAITING_REASONS = compat.deep_copy(state.FATAL_WAITING_REASONS)

local NAME = "k8s"
local UNSCHEDULABLE_TIMEOUT_MS = 5000

-- ---- Options -----------------------------------------------------------------------------------

local function namespace_option(value)
    return options.string(value) or not names.is_dns_label(value) and "must be the name of a namespace" or nil
end

local MANAGED_LABELS = { [constants.RUN_LABEL] = true, [constants.WORKSPACE_LABEL] = true }
for label in pairs(constants.SANDBOX_LABELS) do
    MANAGED_LABELS[label] = true
end

local function labels_option(value)
    if type(value) ~= "table" then
        return ("must be a table of strings, got a %s"):format(type(value))
    end
    for key, text in pairs(value) do
        if MANAGED_LABELS[key] then
            return ("names a label of the provider's own: %s"):format(key)
        end
        if not names.is_label_key(key) then
            return ("has a key that no label may have: %s"):format(tostring(key))
        end
        if not names.is_label_value(text) then
            return ("has a value that no label may have: %s"):format(key)
        end
    end
end

local function client_option(value)
    for _, operation in ipairs({ "create", "read", "delete", "list", "exec" }) do
        if type(value) ~= "table" or options.callable(value[operation]) then
            return "must be a client, a table with the functions `create`, `read`, `delete`, `list` and `exec`"
        end
    end
end

local function kube_config_option(value)
    if type(value) ~= "table" or type(value.server) ~= "string" or options.callable(value.request_options) then
        return "must be what load_kube_config gives"
    end
end

local CLIENT_OPTIONS = {
    namespace = namespace_option,
    kube_config = kube_config_option,
}

local PROVIDER_OPTIONS = {
    namespace = namespace_option,
    kube_config = kube_config_option,
    image = options.string,
    env = options.utf8_env,
    limits = options.limits,
    pod_labels = labels_option,
    image_pull_policy = options.choice({ "IfNotPresent", "Always" }),
    start_timeout_ms = options.positive_integer,
    unschedulable_timeout_ms = options.natural,
    poll_ms = options.positive_integer,
    clock = options.clock,
    client = client_option,
    runtime_class_name = options.string,
    pod_overrides = override_rules,
    on_event = options.callable,
    on_error = options.callable,
}

---@class chamvi.PodClientOptions
---@field namespace string of the pods
---@field kube_config? chamvi.KubeConfig default: as kubectl finds it

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

--- Reads the kubeconfig as kubectl does: `path`, or the files of KUBECONFIG merged, or ~/.kube/config; where there
--- is none, the service account of the pod that this program runs in. Contacts nothing.
---@param given? chamvi.KubeConfigOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.KubeConfig|nil
---@return chamvi.Error? err SandboxError `invalid_kube_config`: file and field, never a value
function k8s.load_kube_config(given)
    return kubeconfig.load(given)
end

-- ---- Clients -----------------------------------------------------------------------------------

--- A client for the pods of a namespace. Contacts nothing yet.
---@param given chamvi.PodClientOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.PodClient
function k8s.create_pod_client(given)
    local settings = options.check("create_pod_client", given, CLIENT_OPTIONS, { "namespace" })
    return clients.new(apis.new(settings.kube_config or kubeconfig.load, settings.namespace))
end

-- ---- The provider ------------------------------------------------------------------------------

local function merged(...)
    local result = {}
    for index = 1, select("#", ...) do
        for name, value in pairs(select(index, ...) or {}) do
            result[name] = value
        end
    end
    return result
end

-- Everything of a create that has a pod. Returns the workspace.
local function fill(self, transport, given, info, id)
    local pod, err
    pod, err, transport.created = start(self.client, transport.name, {
        id = id,
        run_id = given.run_id,
        image = given.image,
        env = merged(constants.SANDBOX_ENV, self.env, given.env),
        limits = given.limits,
        expires_at = info.expires_at,
        labels = self.pod_labels,
        image_pull_policy = self.image_pull_policy,
        runtime_class_name = self.runtime_class_name,
        overrides = self.pod_overrides,
        start_timeout_ms = self.start_timeout_ms,
        unschedulable_timeout_ms = self.unschedulable_timeout_ms,
        poll_ms = self.poll_ms,
        signal = given.signal,
        on_waiting = function(why)
            self.on_event({ phase = "starting", message = why })
        end,
    })
    if not pod then
        return nil, err
    end
    transport:identify(pod)
    local workspace = create_remote_workspace({
        id = id,
        info = info,
        transport = transport,
        clock = { now = self.now },
    })
    if given.repo then
        self.on_event({ phase = "cloning", message = "cloning " .. given.repo })
    end
    local prepared
    prepared, err = prepare_workspace(workspace, { repo = given.repo, ref = given.ref, signal = given.signal })
    if not prepared then
        workspace:dispose() -- so that it reports nothing of its own; what that leaves is cleaned up
        return nil, err
    end
    info.commit = prepared.commit
    return workspace
end

-- Runs as a job.
local function create(self, given)
    local id, err = rules.uuid()
    if not id then
        return nil, err
    end
    self.on_event({ phase = "creating", message = "creating " .. names.pod(id) })
    local created_at = self.now()
    local info = {
        run_id = given.run_id,
        provider = NAME,
        repo = given.repo,
        ref = given.ref,
        created_at = created_at,
        expires_at = created_at + compat.integer(given.limits.timeout_ms),
    }
    local transport = transports.new(self.client, id)
    local workspace
    workspace, err = creation.call(fill, self, transport, given, info, id)
    if not workspace then
        creation.clean_up(transport, "the pod " .. transport.name, limits.CLEAN_UP, self.on_error)
        return nil, err
    end
    self.on_event({ phase = "ready", message = "ready: " .. id })
    return workspace
end

---@class chamvi.KubernetesProvider
---@field name "k8s"

--- A provider whose workspaces are pods. Contacts nothing yet.
---@param given chamvi.KubernetesOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.KubernetesProvider
function k8s.create_kubernetes_sandbox(given)
    local settings = options.check("create_kubernetes_sandbox", given, PROVIDER_OPTIONS, { "namespace" })
    local on_error = reporter(settings.on_error)
    local self = {
        client = settings.client and guarded_client(settings.client) or k8s.create_pod_client({
            namespace = settings.namespace,
            kube_config = settings.kube_config,
        }),
        image = settings.image or constants.DEFAULT_SANDBOX_IMAGE,
        env = options.copy(settings.env),
        limits = options.copy(settings.limits),
        pod_labels = options.copy(settings.pod_labels),
        image_pull_policy = settings.image_pull_policy or "IfNotPresent",
        start_timeout_ms = settings.start_timeout_ms or k8s.START_TIMEOUT_MS,
        unschedulable_timeout_ms = settings.unschedulable_timeout_ms or UNSCHEDULABLE_TIMEOUT_MS,
        poll_ms = settings.poll_ms or k8s.POLL_MS,
        runtime_class_name = settings.runtime_class_name,
        pod_overrides = compat.deep_copy(settings.pod_overrides),
        now = clocks(settings.clock),
        on_error = on_error,
        on_event = creation.event_teller(settings.on_event, on_error),
    }

    --- Makes a workspace: creates a pod, waits until it runs, checks the repository out in it. Whatever fails or is
    --- aborted on the way is removed again before this returns.
    ---@param request chamvi.CreateOptions a wrong or unknown one raises an InvalidAgentDefinitionError
    ---@return chamvi.Workspace|nil
    ---@return chamvi.Error? err ValidationError for repo and ref; SandboxError `engine_unreachable`, `forbidden`,
    ---   `image_unavailable`, `not_ready` (the pod does not start, and why), `create_failed`, `checkout_failed`,
    ---   `aborted`
    local function create_workspace(_, request)
        local asked, err = provider.check_request(request)
        if not asked then
            return nil, err
        end
        options.check("create", { env = asked.env }, { env = options.utf8_env })
        asked.image = asked.image or self.image
        asked.limits = rules.resolve_limits(self.limits, asked.limits)
        local workspace
        workspace, err = creation.await(task.start(create, self, asked), asked.signal, limits.ABORT, on_error)
        if not workspace then
            return nil, provider.create_error(('in the namespace "%s"'):format(settings.namespace), err)
        end
        return workspace
    end

    --- Deletes the pods of this kind in the namespace whose lifetime is over, in any state, whoever made them.
    ---@return integer|nil count how many went
    ---@return chamvi.Error? err SandboxError `engine_unreachable`, `forbidden` and such: they can't be listed;
    ---   `gc_failed`, with `count`: some could not be removed, the others are gone
    local function collect_garbage(_)
        task.check_may_wait("collect_garbage")
        return task.wait(task.start(collect, self.client, self.now()))
    end

    return { name = NAME, create = create_workspace, collect_garbage = collect_garbage }
end

return k8s
