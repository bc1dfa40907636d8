-- What the option `pod_overrides` may not have: what keeps a pod a workspace, and what would let it out. Naming that is
-- refused when the provider is made.
-- https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted

local constants = require "chamvi.sandbox.constants"
local is_null = require "chamvi.sandbox.is_null"
local names = require "chamvi.sandbox.k8s.names"
local native = require "chamvi.sandbox.core"

local IDENTITY = "belongs to the provider"
local SECURITY = "would change what the pods may do"
local MAIN_PROGRAM = "would change the main program"

local TOP = {
    apiVersion = IDENTITY,
    kind = IDENTITY,
    status = IDENTITY,
}
local METADATA = {
    name = IDENTITY,
    generateName = IDENTITY,
    namespace = IDENTITY,
    finalizers = "would keep the pods from being deleted",
}
local SPEC = {
    securityContext = SECURITY,
    hostNetwork = SECURITY,
    hostPID = SECURITY,
    hostIPC = SECURITY,
    shareProcessNamespace = SECURITY,
    automountServiceAccountToken = SECURITY,
    enableServiceLinks = SECURITY,
    restartPolicy = IDENTITY,
    activeDeadlineSeconds = IDENTITY,
    ephemeralContainers = SECURITY,
}
local CONTAINER = {
    securityContext = SECURITY,
    command = MAIN_PROGRAM,
    args = MAIN_PROGRAM,
    restartPolicy = IDENTITY,
    restartPolicyRules = IDENTITY,
    image = "is the option `image`",
    workingDir = IDENTITY,
}
local LIMIT = "is one of the option `limits`"
local LIMITS = { cpu = LIMIT, memory = LIMIT, ["ephemeral-storage"] = LIMIT }
local OWN_VOLUMES = { [names.WORKSPACE_VOLUME] = true, [names.TMP_VOLUME] = true }
local OWN_FOLDERS = { [constants.WORKSPACE_ROOT] = true, ["/tmp"] = true }
local PORT = { hostPort = SECURITY, hostIP = SECURITY }
local HANDLER = { host = "would have the node reach other places" }
local LABELS = { [constants.RUN_LABEL] = IDENTITY, [constants.WORKSPACE_LABEL] = IDENTITY }
for name in pairs(constants.SANDBOX_LABELS) do
    LABELS[name] = IDENTITY
end
local ANNOTATIONS = { [constants.EXPIRES_AT_KEY] = IDENTITY, [constants.RUN_LABEL] = IDENTITY }

-- What else they may not be: as sets of what is left. `name` belongs to all volumes.
local VOLUMES = {
    name = true, configMap = true, csi = true, downwardAPI = true, emptyDir = true, ephemeral = true,
    persistentVolumeClaim = true, projected = true, secret = true,
}
local PROJECTED = { clusterTrustBundle = true, configMap = true, downwardAPI = true, secret = true }
local HANDLERS = { "livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop" }
local PROFILES = { RuntimeDefault = true, Localhost = true }

-- ---- The tables ---------------------------------------------------------------------------------

local function wrong_field(path, what)
    return ('has a wrong field "%s": %s'):format(path, what)
end

-- Says what is wrong with a table below `path`, if anything.
local function look(path, value, reserved)
    if value == nil then
        return nil
    end
    if type(value) ~= "table" then
        return wrong_field(path, ("it must be a table, got a %s"):format(type(value)))
    end
    for name in pairs(value) do
        local whole = path == "" and tostring(name) or path .. "." .. tostring(name)
        if type(name) ~= "string" then
            return wrong_field(path == "" and whole or path, "it must have names, but is a list")
        elseif reserved[name] then
            return ('has the field "%s", which %s'):format(whole, reserved[name])
        end
    end
end

-- Says what is wrong with a list, or with an element of it.
local function look_at_list(path, list, look_at_element)
    if list == nil then
        return nil
    end
    if type(list) ~= "table" or next(list) ~= nil and #list == 0 then
        return wrong_field(path, "it must be a list")
    end
    for index, element in ipairs(list) do
        local element_path = ("%s[%d]"):format(path, index)
        local wrong = look(element_path, element, {}) or look_at_element(element_path, element)
        if wrong then
            return wrong
        end
    end
end

-- ---- Annotations --------------------------------------------------------------------------------

-- The former form of seccomp and AppArmor profiles, which some clusters still obey:
-- https://kubernetes.io/docs/reference/labels-annotations-taints/
local function look_at_annotations(annotations)
    for name in pairs(annotations or {}) do
        if name:lower():find("^[%l.]*%f[%l]security%.%l+%.kubernetes%.io/") then
            return ('has the field "metadata.annotations.%s", which %s'):format(name, SECURITY)
        end
    end
end

-- ---- Volumes ------------------------------------------------------------------------------------

local function only(path, value, allowed, advice)
    for name in pairs(value) do
        if not allowed[name] then
            return ('has the field "%s.%s", which %s: %s'):format(path, name, SECURITY, advice)
        end
    end
end

local function look_at_volume(path, volume)
    local wrong = type(volume.name) ~= "string" and wrong_field(path, "it must have a name")
        or only(path, volume, VOLUMES, "volumes of this kind are not for workspaces")
        or OWN_VOLUMES[volume.name] and ('has the volume "%s", which %s'):format(volume.name, IDENTITY)
    if wrong or is_null(volume.projected) then
        return wrong
    end
    local projected = path .. ".projected"
    return look(projected, volume.projected, {})
        or look_at_list(projected .. ".sources", volume.projected.sources, function(source_path, source)
            return only(source_path, source, PROJECTED, "such sources are not for workspaces")
        end)
end

-- ---- Containers ---------------------------------------------------------------------------------

local function is_false(value)
    return value == false
end

local function is_true(value)
    return value == true
end

local function is_profile(value)
    return type(value) == "table" and PROFILES[value.type] ~= nil
end

local function is_any()
    return true
end

local SELINUX_TYPES = { [""] = true, container_t = true, container_init_t = true, container_kvm_t = true,
    container_engine_t = true }

local function are_selinux_options(value)
    return type(value) == "table" and SELINUX_TYPES[value.type or ""] ~= nil
        and (value.user or "") == "" and (value.role or "") == ""
end

local function are_capabilities(value)
    if type(value) ~= "table" then
        return false
    end
    local dropped = value.drop == nil
    for name, list in pairs(value) do
        if type(list) ~= "table" or name ~= "add" and name ~= "drop" then
            return false
        end
        for _, capability in pairs(list) do
            dropped = dropped or name == "drop" and capability == "ALL"
            if name == "add" and capability ~= "NET_BIND_SERVICE" then
                return false
            end
        end
    end
    return dropped
end

-- What a container that was added may have: the restricted standard.
local SECURITY_CONTEXT = {
    allowPrivilegeEscalation = is_false,
    appArmorProfile = is_profile,
    capabilities = are_capabilities,
    privileged = is_false,
    procMount = function(value)
        return value == "Default"
    end,
    readOnlyRootFilesystem = is_any,
    runAsGroup = is_any,
    runAsNonRoot = is_true,
    runAsUser = function(value)
        return type(value) == "number" and value > 0
    end,
    seLinuxOptions = are_selinux_options,
    seccompProfile = is_profile,
}

local function look_at_security(path, context)
    local wrong = look(path, context, {})
    for name, value in pairs(not wrong and context or {}) do
        local allows = SECURITY_CONTEXT[name]
        if not allows or not allows(value) then
            local whole = path .. "." .. name
            return wrong_field(whole, "the restricted Pod Security Standard does not allow that")
        end
    end
    return wrong
end

-- Probes and hooks that name a host.
local function look_at_handlers(path, holder)
    for _, name in ipairs(HANDLERS) do
        local handler = type(holder) == "table" and holder[name]
        for _, kind in ipairs(type(handler) == "table" and { "httpGet", "tcpSocket" } or {}) do
            local wrong = look(("%s.%s.%s"):format(path, name, kind), handler[kind], HANDLER)
            if wrong then
                return wrong
            end
        end
    end
end

local function normalized(path)
    local parts = {}
    for part in path:gmatch("[^/]+") do
        if part == ".." then
            table.remove(parts)
        elseif part ~= "." then
            table.insert(parts, part)
        end
    end
    return "/" .. table.concat(parts, "/")
end

local function look_at_mount(path, mount)
    if type(mount.name) ~= "string" then
        return wrong_field(path, "it must have a name")
    elseif OWN_VOLUMES[mount.name] then
        return ('has the mount "%s" in "%s", which %s'):format(mount.name, path, IDENTITY)
    elseif OWN_FOLDERS[normalized(tostring(mount.mountPath))] then
        return wrong_field(path .. ".mountPath", "another volume is there")
    end
end

-- What the container that commands run in must keep.
local function look_at_own(path, container)
    local resources = container.resources
    return look(path .. ".resources", resources, {})
        or resources and look(path .. ".resources.limits", resources.limits, LIMITS)
        or look_at_list(path .. ".volumeMounts", container.volumeMounts, look_at_mount)
end

local function look_at_container(path, container, is_own)
    if type(container.name) ~= "string" then
        return wrong_field(path, "it must have a name")
    end
    return look(path, container, is_own and CONTAINER or {})
        or is_own and look_at_own(path, container)
        or look_at_security(path .. ".securityContext", container.securityContext)
        or look_at_list(path .. ".ports", container.ports, function(port_path, port)
            return look(port_path, port, PORT)
        end)
        or look_at_handlers(path, container)
        or look_at_handlers(path .. ".lifecycle", container.lifecycle)
end

local function look_at_spec(spec)
    return look("spec", spec, SPEC)
        or look_at_list("spec.containers", spec.containers, function(path, container)
            return look_at_container(path, container, container.name == names.CONTAINER)
        end)
        or look_at_list("spec.initContainers", spec.initContainers, look_at_container)
        or look_at_list("spec.volumes", spec.volumes, look_at_volume)
end

--- As a kind of option (options.lua): what is wrong with a value, if anything.
---@param value any
---@return string|nil
return function(value)
    if type(value) ~= "table" then
        return ("must be a table, got a %s"):format(type(value))
    end
    local encoded, _, message = native.json_encode(value)
    if not encoded then
        return "has no JSON form: " .. message
    end
    local metadata, spec = value.metadata, value.spec
    return look("", value, TOP)
        or look("metadata", metadata, METADATA)
        or look("metadata.labels", metadata and metadata.labels, LABELS)
        or look("metadata.annotations", metadata and metadata.annotations, ANNOTATIONS)
        or look_at_annotations(metadata and metadata.annotations)
        or spec ~= nil and look_at_spec(spec)
        or nil
end
