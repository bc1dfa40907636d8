-- The option `pod_overrides`: what a user adds to the pods' bodies, merged last. Tables with names are merged field by
-- field, containers, volumes and such by the `name` of each, other lists are replaced. What keeps a workspace a
-- workspace can't be overridden; naming that is refused when the provider is made.

local compat = require "chamvi.sandbox.compat"
local constants = require "chamvi.sandbox.constants"
local names = require "chamvi.sandbox.k8s.names"

local overrides = {}

-- What may not be named, with the reason.
local IDENTITY = "belongs to the provider"
local SECURITY = "would change what the pods may do"
local MAIN_PROGRAM = "would change the main program"
local TOP = {
    apiVersion = IDENTITY,
    kind = IDENTITY,
    status = IDENTITY,
}
local METADATA = { name = IDENTITY, generateName = IDENTITY, namespace = IDENTITY }
local SPEC = {
    securityContext = SECURITY,
    hostNetwork = SECURITY,
    hostPID = SECURITY,
    hostIPC = SECURITY,
    shareProcessNamespace = SECURITY,
    restartPolicy = IDENTITY,
    activeDeadlineSeconds = IDENTITY,
    ephemeralContainers = SECURITY,
}
local CONTAINER = {
    securityContext = SECURITY,
    command = MAIN_PROGRAM,
    args = MAIN_PROGRAM,
    image = "is the option `image`",
    workingDir = IDENTITY,
}
local LABELS = { [constants.RUN_LABEL] = IDENTITY, [constants.WORKSPACE_LABEL] = IDENTITY }
for name in pairs(constants.SANDBOX_LABELS) do
    LABELS[name] = IDENTITY
end
local ANNOTATIONS = { [constants.EXPIRES_AT_KEY] = IDENTITY, [constants.RUN_LABEL] = IDENTITY }

-- Says what is wrong with a table below `path`, if anything.
local function look(path, value, reserved)
    if value == nil then
        return nil
    end
    if type(value) ~= "table" then
        return ('has a wrong field "%s": it must be a table, got a %s'):format(path, type(value))
    end
    for name in pairs(value) do
        if reserved[name] then
            local whole = path == "" and name or path .. "." .. name
            return ('has the field "%s", which %s'):format(whole, reserved[name])
        end
    end
end

local function look_at_containers(containers)
    for index, container in ipairs(containers or {}) do
        local path = ("spec.containers[%d]"):format(index)
        if type(container) == "table" and type(container.name) ~= "string" then
            return ('has a wrong field "%s": it must have a name'):format(path)
        end
        local own = type(container) ~= "table" or container.name == names.CONTAINER
        local wrong = look(path, container, own and CONTAINER or {})
        if wrong then
            return wrong
        end
    end
end

--- As a kind of option (options.lua): what is wrong with a value, if anything.
---@param value any
---@return string|nil
function overrides.option(value)
    if type(value) ~= "table" then
        return ("must be a table, got a %s"):format(type(value))
    end
    local metadata, spec = value.metadata, value.spec
    return look("", value, TOP)
        or look("metadata", metadata, METADATA)
        or look("metadata.labels", metadata and metadata.labels, LABELS)
        or look("metadata.annotations", metadata and metadata.annotations, ANNOTATIONS)
        or look("spec", spec, SPEC)
        or look("spec.containers", spec and spec.containers, {})
        or look_at_containers(spec and spec.containers)
end

local function is_list(value)
    return type(value) == "table" and #value > 0
end

-- A list whose elements all have a name.
local function is_named(list)
    for _, element in ipairs(list) do
        if type(element) ~= "table" or type(element.name) ~= "string" then
            return false
        end
    end
    return true
end

local merge

local function merge_named(base, more)
    for _, element in ipairs(more) do
        local found
        for index, known in ipairs(base) do
            if known.name == element.name then
                base[index], found = merge(known, element), true
            end
        end
        if not found then
            table.insert(base, element)
        end
    end
    return base
end

function merge(base, more)
    if type(base) ~= "table" or type(more) ~= "table" then
        return more
    end
    if is_list(base) or is_list(more) then
        if is_list(base) and is_list(more) and is_named(base) and is_named(more) then
            return merge_named(base, more)
        end
        return more
    end
    for name, value in pairs(more) do
        base[name] = merge(base[name], value)
    end
    return base
end

--- Merges them into a body, which is changed.
---@param body table
---@param given table|nil as `check` took them; not changed
---@return table
function overrides.apply(body, given)
    return merge(body, compat.deep_copy(given or {}))
end

return overrides
