-- The option `pod_overrides`: what a user adds to the pods' bodies, merged last. Tables with names are merged field by
-- field, containers, volumes and such by the `name` of each, other lists are replaced. What may not be in there is in
-- override_rules.lua.

local compat = require "chamvi.sandbox.compat"
local names = require "chamvi.sandbox.k8s.names"

local overrides = {}

-- What the restricted Pod Security Standard asks of a container by itself, for those that a user adds.
local function restricted()
    return {
        allowPrivilegeEscalation = false,
        capabilities = { drop = { "ALL" } },
        runAsNonRoot = true,
        seccompProfile = { type = "RuntimeDefault" },
    }
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
    local count = #base -- a name may come twice in `more`: a volume can have several mounts
    for _, element in ipairs(more) do
        local found
        for index = 1, count do
            if base[index].name == element.name then
                base[index], found = merge(base[index], element), true
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
    if next(more) == nil then
        return base
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

local function harden(containers)
    for _, container in ipairs(containers or {}) do
        container.securityContext = merge(restricted(), container.securityContext or {})
    end
end

-- The containers that were added.
local function others(containers)
    local list = {}
    for _, container in ipairs(containers) do
        if container.name ~= names.CONTAINER then
            table.insert(list, container)
        end
    end
    return list
end

--- Merges them into a body, which is changed.
---@param body table
---@param given table|nil as override_rules.lua took them; not changed
---@return table
function overrides.apply(body, given)
    merge(body, compat.deep_copy(given or {}))
    harden(others(body.spec.containers))
    harden(body.spec.initContainers)
    return body
end

return overrides
