-- What is made of a pod's object.

local state = require "chamvi.sandbox.k8s.state"

local UID = "a"
local KNOWN = { uid = UID, restarts = 0 }

-- A pod with this status of its container, and more.
local function pod(container, status, metadata)
    local made = { metadata = { uid = UID }, status = { phase = "Running", conditions = {} } }
    if container then
        container.name = container.name or "sandbox"
        made.status.containerStatuses = { { name = "sidecar", ready = true, state = { running = {} } }, container }
    end
    for key, value in pairs(status or {}) do
        made.status[key] = value
    end
    for key, value in pairs(metadata or {}) do
        made.metadata[key] = value
    end
    return made
end

local function running(more)
    local container = { ready = true, restartCount = 0, state = { running = {} } }
    for key, value in pairs(more or {}) do
        container[key] = value
    end
    return container
end

describe("the start of a pod", function()
    local function stage(...)
        return (state.start(...))
    end

    it("is over when its container runs and is ready", function()
        assert.equal("ready", stage(pod(running())))
        assert.equal("waiting", stage(pod(running({ ready = false }))))
        assert.equal("waiting", stage(pod(running(), { phase = "Pending" })))
        assert.equal("waiting", stage(pod({ ready = true, state = { waiting = {} } })))
        assert.equal("waiting", stage(pod(running({ name = "another" }))))
    end)

    it("is told in words, whatever the object holds", function()
        for _, phase in ipairs({ {}, 7, true }) do
            local what, why = state.start(pod(nil, { phase = phase }))
            assert.same({ "waiting", "its phase is unknown" }, { what, why })
        end
        local ended = { terminated = { exitCode = 1.5 } }
        assert.equal("failed", stage(pod({ state = ended }, { phase = "Failed" })))
    end)

    it("has failed for what waiting does not cure, of any container", function()
        for index, reason in ipairs(state.FATAL_WAITING_REASONS) do
            local waiting = { waiting = { reason = reason, message = "why" } }
            local what, why, code = state.start(pod({ state = waiting }, { phase = "Pending" }))
            assert.same({ "failed", reason .. ": why", index <= 5 and "image_unavailable" or "not_ready" },
                { what, why, code })
            assert.equal("failed", stage(pod(nil, {
                phase = "Pending",
                initContainerStatuses = { { name = "init", state = waiting } },
            })))
        end
        local creating = { waiting = { reason = "ContainerCreating" } }
        local what, why = state.start(pod({ state = creating }, { phase = "Pending" }))
        assert.same({ "waiting", "ContainerCreating" }, { what, why })
    end)

    it("waits for a node, and says so", function()
        local function scheduled(reason)
            return pod(nil, {
                phase = "Pending",
                conditions = { { type = "PodScheduled", status = "False", reason = reason, message = "0/1 nodes" } },
            })
        end
        assert.same({ "unschedulable", "Unschedulable: 0/1 nodes" }, { state.start(scheduled("Unschedulable")) })
        assert.same({ "waiting", "SchedulingGated: 0/1 nodes" }, { state.start(scheduled("SchedulingGated")) })
    end)

    it("has failed when the pod has ended or is to go", function()
        local function failed(made)
            local what, why, code = state.start(made)
            assert.equal("failed", what)
            assert.equal("not_ready", code)
            return why
        end
        assert.equal("Evicted: low", failed(pod(nil, { phase = "Failed", reason = "Evicted", message = "low" })))
        assert.equal("its container ended with exit code 1 (Error: no sh)",
            failed(pod({ state = { terminated = { exitCode = 1, reason = "Error", message = "no sh" } } },
                { phase = "Failed" })))
        assert.equal("it has ended", failed(pod(nil, { phase = "Succeeded" })))
        assert.equal("it was deleted", failed(pod(running(), nil, { deletionTimestamp = "x" })))
    end)

    it("is not over for objects that lack everything", function()
        for _, odd in ipairs({ {}, { status = 7 }, { status = { containerStatuses = "x" } }, { metadata = "x" },
            { status = { containerStatuses = { 7, "x", {} }, conditions = { 7 } } },
            { status = { phase = {}, containerStatuses = { { name = "sandbox", state = 7 } } } } }) do
            assert.equal("waiting", stage(odd))
            assert.is_table(state.identity(odd))
        end
    end)
end)

describe("the end of a pod", function()
    local function is(code, made, words, final)
        local found, message, found_final = state.ending(made, KNOWN)
        assert.equal(code, found, message)
        if code then
            assert.equal(final == nil or final, found_final)
            assert.is_truthy(message:find(words or "the pod", 1, true), message)
        end
    end

    it("has not come while its container runs", function()
        is(nil, pod(running()))
        is(nil, pod(running(), { conditions = { { type = "Ready", status = "True" } } }))
    end)

    it("has a reason", function()
        is("deleted", false)
        is("replaced", pod(running(), nil, { uid = "b" }))
        local before = { terminated = { exitCode = 1 } }
        is("restarted", pod(running({ restartCount = 1, lastState = before })), "exit code 1")
        is("deleted", pod(running(), nil, { deletionTimestamp = "x" }))
        is("evicted", pod(nil, { phase = "Failed", reason = "Evicted", message = "low on memory" }), "low on memory")
        is("expired", pod(nil, { phase = "Failed", reason = "DeadlineExceeded" }))
        for _, reason in ipairs({ "NodeLost", "NodeShutdown", "Shutdown", "Terminated" }) do
            is("node_lost", pod(running(), { reason = reason }))
        end
        local killed = { terminated = { exitCode = 137, reason = "OOMKilled" } }
        is("oom_killed", pod({ state = killed }, { phase = "Failed" }))
        is("oom_killed", pod(running({ restartCount = 1, lastState = { terminated = { reason = "OOMKilled" } } })))
        is("ended", pod({ state = { terminated = { exitCode = 0, reason = "Completed" } } }, { phase = "Succeeded" }),
            "exit code 0")
        is("ended", pod(nil, { phase = "Failed" }))
    end)

    it("has the reason of a disruption, when newer clusters give one", function()
        local reasons = {
            DeletionByTaintManager = "node_lost",
            DeletionByPodGC = "node_lost",
            EvictionByEvictionAPI = "evicted",
            PreemptionByScheduler = "evicted",
            TerminationByKubelet = "evicted",
            SomethingElse = "deleted",
        }
        for reason, code in pairs(reasons) do
            is(code, pod(running(), {
                conditions = { { type = "DisruptionTarget", status = "True", reason = reason, message = "why" } },
            }, { deletionTimestamp = "x" }))
        end
    end)

    it("may have come on a node that does not report", function()
        local silent = { conditions = { { type = "Ready", status = "False" } } }
        is("node_lost", pod(running(), silent), "stopped reporting", false)
        is(nil, pod(running({ ready = false }), silent)) -- a probe says so
    end)
end)
