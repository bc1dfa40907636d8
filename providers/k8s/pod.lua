-- What a workspace's pod is: the body of the request that creates it. It passes the restricted Pod Security Standard.
-- https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted

local constants = require "chamvi.sandbox.constants"
local names = require "chamvi.sandbox.k8s.names"
local overrides = require "chamvi.sandbox.k8s.overrides"

local pod = {}

local USER = 1000
local DEADLINE_MAX_S = 2147483647 -- what the API takes

-- The main program. It is the pod's first process, so it reaps what commands leave behind (every sh does while it
-- waits), and it ends at once when it is asked to, or when its `sleep` is killed with all else.
local MAIN = [[
trap 'exit 0' TERM
sleep 2147483647 >/dev/null 2>&1 &
wait "$!"
]]

---@class chamvi.PodOptions
---@field id string
---@field run_id string
---@field image string
---@field env table<string, string> all of it
---@field limits chamvi.Limits all of them; `pids` can't be set for a pod
---@field expires_at integer epoch milliseconds
---@field start_timeout_ms integer
---@field labels? table<string, string> the managed ones win
---@field image_pull_policy "Always"|"IfNotPresent"
---@field runtime_class_name? string
---@field overrides? table see override_rules.lua

-- In values of variables and in arguments, $(NAME) would be replaced and $$ halved.
local function literal(text)
    return (text:gsub("%$", "$$"))
end

local function env_list(env)
    local list = {}
    for name, value in pairs(env) do
        table.insert(list, { name = name, value = literal(value) })
    end
    table.sort(list, function(left, right)
        return left.name < right.name
    end)
    return list
end

local function labels_of(given)
    local labels = {}
    for name, value in pairs(given.labels or {}) do
        labels[name] = value
    end
    for name, value in pairs(constants.SANDBOX_LABELS) do
        labels[name] = value
    end
    labels[constants.RUN_LABEL] = names.run_label(given.run_id)
    labels[constants.WORKSPACE_LABEL] = given.id
    return labels
end

-- From the start of the pod on its node, which comes later than what the workspace's own time counts from: so this is
-- never too early, and soon enough for a pod that nobody is left to collect.
local function deadline_s(given)
    return math.min(math.ceil((given.limits.timeout_ms + given.start_timeout_ms) / 1000), DEADLINE_MAX_S)
end

local function container_of(given)
    local limits = given.limits
    -- Requests and limits are the same: the node keeps free what a workspace may use, and evicts it last.
    local function amounts()
        return { cpu = limits.cpu, memory = limits.memory, ["ephemeral-storage"] = limits.storage }
    end
    return {
        name = names.CONTAINER,
        image = given.image,
        imagePullPolicy = given.image_pull_policy,
        command = { "sh" },
        args = { "-c", literal(MAIN), "chamvi" },
        workingDir = constants.WORKSPACE_ROOT,
        env = env_list(given.env),
        resources = { requests = amounts(), limits = amounts() },
        securityContext = {
            allowPrivilegeEscalation = false,
            capabilities = { drop = { "ALL" } },
            privileged = false,
            readOnlyRootFilesystem = true,
            runAsNonRoot = true,
            seccompProfile = { type = "RuntimeDefault" },
        },
        volumeMounts = {
            { name = names.WORKSPACE_VOLUME, mountPath = constants.WORKSPACE_ROOT },
            { name = names.TMP_VOLUME, mountPath = "/tmp" },
        },
    }
end

--- The body of the request that creates it.
---@param given chamvi.PodOptions
---@return table
function pod.body(given)
    local body = {
        apiVersion = "v1",
        kind = "Pod",
        metadata = {
            name = names.pod(given.id),
            labels = labels_of(given),
            annotations = {
                [constants.EXPIRES_AT_KEY] = ("%.0f"):format(given.expires_at),
                [constants.RUN_LABEL] = given.run_id, -- whole, whatever the label holds
            },
        },
        spec = {
            restartPolicy = "Never",
            activeDeadlineSeconds = deadline_s(given),
            terminationGracePeriodSeconds = 1,
            automountServiceAccountToken = false,
            enableServiceLinks = false,
            runtimeClassName = given.runtime_class_name,
            securityContext = {
                runAsNonRoot = true,
                runAsUser = USER,
                runAsGroup = USER,
                seccompProfile = { type = "RuntimeDefault" },
            },
            containers = { container_of(given) },
            volumes = {
                { name = names.WORKSPACE_VOLUME, emptyDir = { sizeLimit = given.limits.storage } },
                { name = names.TMP_VOLUME, emptyDir = { medium = "Memory", sizeLimit = constants.TMP_SIZE } },
            },
        },
    }
    return overrides.apply(body, given.overrides)
end

return pod
