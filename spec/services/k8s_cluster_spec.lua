-- Workspaces on a real cluster: what holds them in, how they end, and how many there can be.

local constants = require "chamvi.sandbox.constants"
local k8s = require "chamvi.sandbox.k8s"
local k8s_cluster = require "spec.support.k8s_cluster"
local sandbox = require "chamvi.sandbox"
local support = require "spec.support.local_workspace"

local function sh(script, ...)
    return { "sh", "-c", script, "sh", ... }
end

describe("workspaces on a real cluster", function()
    local cluster, reason = k8s_cluster.find()
    if not cluster then
        it("are pods", function()
            pending(reason)
        end)
        return
    end

    cluster:watch()
    after_each(function()
        assert.same({}, cluster:left())
    end)

    -- Calls `use(workspace)` with a new one, and disposes it however that ends.
    local function with(use, options, request)
        local given = { run_id = "run" }
        for name, value in pairs(request or {}) do
            given[name] = value
        end
        local workspace = assert(k8s.create_kubernetes_sandbox(cluster:options(options)):create(given))
        local ok, err = pcall(use, workspace)
        local disposed, failure = workspace:dispose()
        if not ok then
            error(err, 0)
        end
        assert(disposed, failure)
    end

    local function run(workspace, script, ...)
        local result = assert(workspace:exec(sh(script, ...)))
        assert.equal(0, result.exit_code, result.stderr)
        return result.stdout
    end

    it("are held in as their pods say, seen from inside", function()
        with(function(workspace)
            assert.equal("uid=1000 gid=1000", run(workspace, "printf 'uid=%s gid=%s' $(id -u) $(id -g)"))
            assert.equal(("0"):rep(16) .. "\n", run(workspace, "sed -n 's/^CapBnd:.//p' /proc/self/status"))
            assert.equal("1\n", run(workspace, "sed -n 's/^NoNewPrivs:.//p' /proc/self/status"))
            assert.equal("2\n", run(workspace, "sed -n 's/^Seccomp:.//p' /proc/self/status"))
            assert.equal("closed\n", run(workspace, "touch /x 2>/dev/null || touch /etc/x 2>/dev/null || echo closed"))
            assert.equal("open\n", run(workspace, "touch /workspace/x /tmp/x && echo open"))
            assert.equal("none\n", run(workspace, "ls /var/run/secrets 2>/dev/null || echo none"))
            assert.equal("536870912\n", run(workspace, "echo $(($(stat -f -c '%b * %S' /tmp)))"))
        end, { limits = { memory = "1Gi" } }) -- at most that of a tmpfs
    end)

    it("leave no zombies", function()
        with(function(workspace)
            run(workspace, "for n in 1 2 3; do setsid sh -c 'sleep 0.1' >/dev/null 2>&1 </dev/null & done; sleep 0.5")
            local script = "cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | grep -c '^Z' || true"
            support.wait_until(function()
                return run(workspace, script) == "0\n"
            end, "no zombie is left")
        end)
    end)

    it("have their labels, their run and their expiry", function()
        with(function(workspace)
            local found
            for _, pod in ipairs(cluster:pods()) do
                found = pod.metadata.name == cluster:pod(workspace) and pod or found
            end
            local labels, annotations = found.metadata.labels, found.metadata.annotations
            assert.equal(("%.0f"):format(workspace.info.expires_at), annotations[constants.EXPIRES_AT_KEY])
            assert.equal("a run/1", annotations[constants.RUN_LABEL])
            assert.matches("^%x+$", labels[constants.RUN_LABEL])
            assert.equal("blue", labels.team)
            assert.equal("x", annotations.note)
        end, { pod_labels = { team = "blue" }, pod_overrides = { metadata = { annotations = { note = "x" } } } },
            { run_id = "a run/1" })
    end)

    -- A create that has to fail, within its bound.
    local function fails(code, words, options)
        local workspace, err = k8s.create_kubernetes_sandbox(cluster:options(options)):create({ run_id = "run" })
        if workspace then
            assert(workspace:dispose())
            error("the create did not fail")
        end
        assert.equal(code, err.code, tostring(err))
        assert.is_truthy(err.message:lower():find(words, 1, true), err.message)
    end

    it("say why they do not start", function()
        fails("image_unavailable", "err", { image = "localhost/no-such-image:1" })
        fails("image_unavailable", "invalidimagename", { image = "NOT AN IMAGE" })
        fails("not_ready", "insufficient cpu", { limits = { cpu = "1000" }, unschedulable_timeout_ms = 1000 })
        fails("not_ready", "node", { pod_overrides = { spec = { nodeSelector = { no = "such" } } },
            unschedulable_timeout_ms = 1000 })
        fails("create_failed", "403", { runtime_class_name = "no-such-class" })
        fails("forbidden", 'the verb "create" on "pods"', { namespace = "elsewhere" })
    end)

    it("say that a quota does not let them start", function()
        if not cluster.admin then
            pending("the cluster was not started for specs")
            return
        end
        cluster:call_as_admin("create", "quota", "spec", "--hard=pods=0")
        local ok, failure
        for _ = 1, 150 do -- until every part of the cluster knows of it
            assert(sandbox.sleep(200))
            ok, failure = pcall(fails, "create_failed", "exceeded quota: spec")
            if ok then
                break
            end
        end
        cluster:call_as_admin("delete", "quota", "spec")
        assert(ok, failure)
    end)

    it("have manifests that the cluster takes", function()
        if not cluster.admin then
            pending("the cluster was not started for specs")
            return
        end
        local taken = cluster:call_as_admin("apply", "--dry-run=server", "-f", "deploy")
        for _, name in ipairs({ "namespace/sandboxes", "role.rbac.authorization.k8s.io/sandbox-client",
            "rolebinding.rbac.authorization.k8s.io/sandbox-client", "serviceaccount/sandbox-client",
            "networkpolicy.networking.k8s.io/sandboxes", "resourcequota/sandboxes", "limitrange/sandboxes" }) do
            assert.is_truthy(taken:find(name .. " ", 1, true), taken)
        end
    end)

    it("wait for room, when there is some in time", function()
        local wide = { limits = { cpu = "1500m" } } -- one at a time on a node with two processors
        with(function(first)
            sandbox.run(function()
                local second = sandbox.spawn(function()
                    local provider = k8s.create_kubernetes_sandbox(cluster:options({
                        limits = { cpu = "1500m" },
                        unschedulable_timeout_ms = 60000,
                    }))
                    return provider:create({ run_id = "second" })
                end)
                assert(sandbox.sleep(2000))
                assert(first:dispose())
                local workspace = assert(second:join())
                assert(workspace:dispose())
            end)
        end, wide)
    end)

    -- Runs a command until `act` has ended it. Returns the error.
    local function ended_by(workspace, script, act)
        local result, err
        sandbox.run(function()
            local begun = false
            local task = sandbox.spawn(workspace.exec, workspace, sh("echo begun; " .. script), {
                on_output = function()
                    begun = true
                end,
            })
            repeat
                assert(sandbox.sleep(20))
            until begun
            act()
            result, err = task:join()
        end)
        assert.is_nil(result)
        assert.equal("transport_lost", err.code, tostring(err))
        assert.equal("begun\n", err.partial.stdout)
        return err
    end

    it("tell a command that their pod was deleted", function()
        with(function(workspace)
            local err = ended_by(workspace, "sleep 1000", function()
                cluster:lose(workspace)
            end)
            assert.equal("deleted", err.cause.code)
            assert.is_true(workspace.disposed)
        end)
    end)

    it("tell a command that their pod ran out of memory", function()
        with(function(workspace)
            -- The first process is the one to be killed.
            local script = [[
                for pid in 1 $(cat /proc/1/task/1/children); do
                    echo 1000 >/proc/$pid/oom_score_adj
                done
                head -c 500m /dev/zero | tail -c 400m >/dev/null
                sleep 1000
            ]]
            local err = ended_by(workspace, script, function() end)
            assert.equal("oom_killed", err.cause.code)
            assert.is_true(workspace.disposed)
        end, { limits = { memory = "64Mi" } })
    end)

    it("tell a command that is killed for want of memory alone", function()
        with(function(workspace)
            local result = assert(workspace:exec(sh("head -c 500m /dev/zero | tail -c 400m")))
            assert.is_true(result.status == "oom_killed" or result.exit_code == 1, result.status) -- or of tail alone
            assert.equal("ok\n", run(workspace, "echo ok"))
        end, { limits = { memory = "64Mi" } })
    end)

    it("end by themselves when nobody collects them", function()
        with(function(workspace)
            -- The deadline is the lifetime and the time for the start.
            local deadline
            for _, pod in ipairs(cluster:pods()) do
                deadline = pod.metadata.name == cluster:pod(workspace) and pod.spec.activeDeadlineSeconds or deadline
            end
            assert.equal(15, deadline)
            local result, err = workspace:exec({ "sleep", "1000" })
            assert.is_nil(result)
            assert.equal("transport_lost", err.code)
            assert.equal("expired", err.cause.code)
        end, { start_timeout_ms = 14000, limits = { timeout_ms = 1000 } })
    end)

    it("are collected by anybody, and nothing else is", function()
        local provider = k8s.create_kubernetes_sandbox(cluster:options())
        local now = 0
        local old = k8s.create_kubernetes_sandbox(cluster:options({ clock = {
            now = function()
                return now
            end,
        }, limits = { timeout_ms = 1000 } }))
        with(function(live)
            assert(old:create({ run_id = "old" }))
            assert.equal(1, provider:collect_garbage())
            assert.same({ live.id }, cluster:left())
        end)
    end)

    it("can be 50 at once", function()
        local provider = k8s.create_kubernetes_sandbox(cluster:options({
            limits = { cpu = "1", memory = "128Mi", storage = "64Mi" },
            start_timeout_ms = 600000,
            pod_overrides = {
                spec = { containers = { { name = k8s.CONTAINER_NAME, resources = { requests = { cpu = "10m" } } } } },
            },
        }))
        local functions = {}
        for index = 1, 50 do
            functions[index] = function()
                local workspace = assert(provider:create({ run_id = "run-" .. index }))
                local result = assert(workspace:exec({ "echo", tostring(index) }, { timeout_ms = 600000 }))
                assert.equal(index .. "\n", result.stdout)
                assert(workspace:dispose())
                return index
            end
        end
        for index, packed in ipairs(sandbox.all(functions)) do
            assert.equal(index, packed[1], tostring(packed[2]))
        end
        assert.same({}, cluster:left())
    end)
end)
