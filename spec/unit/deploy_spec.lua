-- The manifests under deploy/ fit what the provider does.

local constants = require "chamvi.sandbox.constants"
local native = require "chamvi.sandbox.core"
local scratch = require "spec.support.scratch"

-- The objects of a file, by kind.
local function objects(name)
    local found = {}
    for document in (scratch.read("deploy/" .. name) .. "---\n"):gmatch("(.-)%-%-%-\n") do
        local object = assert(native.yaml_decode(document))
        found[object.kind] = object
    end
    return found
end

describe("deploy/", function()
    it("has a Role with the permissions that are needed, and no more", function()
        local found = objects("role.yaml")
        assert.same({
            { apiGroups = { "" }, resources = { "pods" }, verbs = { "create", "get", "list", "delete" } },
            { apiGroups = { "" }, resources = { "pods/exec" }, verbs = { "get", "create" } },
        }, found.Role.rules)
        assert.equal(found.Role.metadata.name, found.RoleBinding.roleRef.name)
        assert.equal(found.ServiceAccount.metadata.name, found.RoleBinding.subjects[1].name)
    end)

    it("has a policy for the pods of workspaces", function()
        local found = objects("networkpolicy.yaml")
        assert.same(constants.SANDBOX_LABELS, found.NetworkPolicy.spec.podSelector.matchLabels)
    end)

    it("has a namespace, a quota and a range", function()
        assert.is_table(objects("namespace.yaml").Namespace)
        local found = objects("resourcequota.yaml")
        assert.is_table(found.ResourceQuota)
        assert.is_table(found.LimitRange)
    end)
end)
