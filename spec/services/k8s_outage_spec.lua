-- A real API server that goes and comes back. The last of the specs on a cluster, whose other parts take most of a minute
-- to find it again.

local k8s = require "chamvi.sandbox.k8s"
local k8s_cluster = require "spec.support.k8s_cluster"
local sandbox = require "chamvi.sandbox"

describe("a workspace on a real cluster", function()
    it("outlives the API server, which goes in the middle of a command and comes back", function()
        local cluster, reason = k8s_cluster.find()
        if not cluster or not cluster.api_pid_file then
            pending(reason or "the cluster was not started for specs")
            return
        end
        cluster:watch()
        local workspace = assert(k8s.create_kubernetes_sandbox(cluster:options()):create({ run_id = "run" }))
        sandbox.run(function()
            local begun, start_again = false, nil
            local task = sandbox.spawn(workspace.exec, workspace, { "sh", "-c", "echo begun; sleep 1000" }, {
                on_output = function()
                    begun = true
                end,
            })
            repeat
                assert(sandbox.sleep(20))
            until begun
            start_again = cluster:stop_api()
            local result, err = task:join()
            assert.is_nil(result)
            assert.equal("transport_lost", err.code, tostring(err))
            assert.equal("begun\n", err.partial.stdout)
            assert.is_false(workspace.disposed)

            -- What is asked meanwhile waits for it.
            local waits = sandbox.spawn(workspace.exec, workspace, { "echo", "here" })
            assert(sandbox.sleep(500))
            start_again()
            assert.equal("here\n", assert(waits:join()).stdout)
        end)
        assert.equal("ok\n", assert(workspace:exec({ "echo", "ok" })).stdout)
        assert(workspace:dispose())
        assert.same({}, cluster:left())
    end)
end)
