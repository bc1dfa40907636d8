local conformance = require "spec.support.conformance"
local k8s = require "chamvi.sandbox.k8s"
local k8s_cluster = require "spec.support.k8s_cluster"
local scratch = require "spec.support.scratch"

describe("pods of a real cluster", function()
    local cluster, reason = k8s_cluster.find()
    if not cluster then
        it("pass the conformance suite", function()
            pending(reason)
        end)
        return
    end

    local folder = scratch.folder()
    local repository, overrides = cluster:repository(folder .. "/repository")
    cluster:watch()
    teardown(function()
        scratch.remove(folder)
    end)

    conformance({ describe = describe, it = it, after_each = after_each }, {
        name = "k8s",
        more_than_buffers = 150000000, -- the engine, the kubelet and the API server each have their own
        dies_later = true,
        repository = repository,
        provider = function(options)
            local given = cluster:options(options)
            given.pod_overrides = overrides
            return k8s.create_kubernetes_sandbox(given)
        end,
        lose = function(workspace)
            cluster:lose(workspace)
        end,
        left = function()
            return cluster:left()
        end,
        running = function(word)
            return cluster:running(word)
        end,
    })
end)
