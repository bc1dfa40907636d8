-- Kubernetes workspaces beside @kubernetes/client-node and kubectl, in interleaved rounds. Each ratio is the median of
-- the rounds' ratios, so that what slows the machine for a while slows both sides.
--
--   bench.lua ROUNDS [FILE for the report as Markdown]

local k8s = require "chamvi.sandbox.k8s"
local native = require "chamvi.sandbox.core"
local pods = require "chamvi.sandbox.k8s.pod"
local sandbox = require "chamvi.sandbox"
local stats = require "stats"
local tables = require "tables"

local ROUNDS = tonumber(arg[1])
local EXECS = 5 -- a round
local LIMITS = { cpu = "250m", memory = "256Mi", storage = "256Mi" }

local config = assert(k8s.load_kube_config {})
local image, namespace = os.getenv "CHAMVI_TEST_IMAGE", config.namespace
local provider = k8s.create_kubernetes_sandbox {
    namespace = namespace,
    kube_config = config,
    image = image,
    limits = LIMITS,
    poll_ms = 100, -- as the peer looks
}

-- ---- What is timed -----------------------------------------------------------------------------

local function timed(work)
    local start = native.now_ms()
    work()
    return native.now_ms() - start
end

local last_run = 0

local function create()
    last_run = last_run + 1
    return assert(provider:create { run_id = "bench-" .. last_run })
end

local function our_acquire()
    local workspace
    local took = timed(function()
        workspace = create()
    end)
    assert(workspace:dispose())
    return took
end

local function our_exec(workspace)
    return timed(function()
        local result = assert(workspace:exec { "true" })
        assert(result.exit_code == 0, result.stderr)
    end)
end

local function our_disposal()
    local workspace = create()
    return timed(function()
        assert(workspace:dispose())
    end)
end

local function body()
    local id = sandbox.uuid()
    local made = pods.body {
        id = id,
        run_id = "bench",
        image = image,
        env = sandbox.SANDBOX_ENV,
        limits = sandbox.resolve_limits(LIMITS),
        expires_at = native.now_ms() + 600000,
        start_timeout_ms = 120000,
        image_pull_policy = "IfNotPresent",
    }
    made.metadata.name = "chamvi-bench"
    return assert(native.json_encode(made))
end

-- The peer's own times, a line each; nil where it is missing.
local function peer(...)
    if not os.getenv "CHAMVI_BENCH_NODE_MODULES" then
        return nil
    end
    local pipe = assert(io.popen(("CHAMVI_BENCH_BODY='%s' node bench/k8s/peer.js %s"):format(
        body():gsub("'", "'\\''"), table.concat({ ... }, " "))))
    local list = {}
    for line in pipe:lines() do
        table.insert(list, tonumber(line))
    end
    assert(pipe:close(), "client-node failed")
    return list
end

local function kubectl(command)
    return timed(function()
        assert(os.execute(("kubectl --namespace=%s %s >/dev/null"):format(namespace, command)))
    end)
end

-- ---- The rounds --------------------------------------------------------------------------------

local times = {} -- [measure][participant] = { medians of the rounds, all samples }

local function note(measure, who, list)
    if list then
        times[measure] = times[measure] or {}
        local kept = times[measure][who] or { medians = {}, all = {} }
        times[measure][who] = kept
        table.insert(kept.medians, stats.median(list))
        for _, took in ipairs(list) do
            table.insert(kept.all, took)
        end
    end
end

local function repeated(count, measure, ...)
    local list = {}
    for index = 1, count do
        list[index] = measure(...)
    end
    return list
end

local function rounds()
    local workspace = create()
    local name = k8s.POD_NAME_PREFIX .. workspace.id
    for _ = 1, ROUNDS do
        note("acquire", "chamvi", { our_acquire() })
        note("acquire", "client-node", peer("acquire", 1, namespace))
        note("dispose", "chamvi", { our_disposal() })
        note("exec", "chamvi", repeated(EXECS, our_exec, workspace))
        note("exec", "client-node", peer("exec", EXECS, namespace, name))
        note("exec", "kubectl", repeated(EXECS, kubectl, "exec " .. name .. " -c sandbox -- true"))
    end
    assert(workspace:dispose())
end

-- ---- The report --------------------------------------------------------------------------------

local PARTICIPANTS = { "chamvi", "client-node", "kubectl" }

local function ratio(ours, theirs)
    local ratios = {}
    for index, value in ipairs(ours) do
        ratios[index] = value / theirs[index]
    end
    return ("%.2fx"):format(stats.median(ratios))
end

local function whole(ms)
    return ("%.0f"):format(ms)
end

local function report()
    local rows = {}
    for _, measure in ipairs { "acquire", "dispose", "exec" } do
        local by_who = times[measure]
        for _, who in ipairs(PARTICIPANTS) do
            local kept = by_who[who]
            if kept then
                table.insert(rows, { measure, who, ("%d"):format(#kept.all), whole(stats.median(kept.all)),
                    whole(stats.quantile(kept.all, 0.99)),
                    who == "chamvi" and "" or ratio(by_who.chamvi.medians, kept.medians) })
            end
        end
    end
    return {
        title = "Kubernetes workspaces",
        note = ROUNDS .. " rounds. An acquire of client-node is a running pod, one of chamvi has a git repository too.",
        header = { "measure", "by", "samples", "p50 ms", "p99 ms", "chamvi takes" },
        rows = rows,
    }
end

local function write(file, measured)
    local out = assert(io.open(file, "w"))
    assert(out:write(([[
# Benchmarks of Kubernetes workspaces

Pods as workspaces beside `@kubernetes/client-node` and kubectl, on one cluster with one node. Written by
`bench/k8s/run --docs`; `bench/README.md` says what is measured. What counts is the ratio: the median over the rounds of
one run, in each of which both sides took part.

- date: %s
- system: %s

]]):format(os.date("!%Y-%m-%d"), os.getenv "CHAMVI_BENCH_SYSTEM"), tables.markdown(measured), "\n"))
    assert(out:close())
end

sandbox.run(rounds)
local measured = report()
print(tables.text(measured))
if arg[2] and arg[2] ~= "" then
    write(arg[2], measured)
end
