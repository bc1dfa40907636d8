-- Kubernetes workspaces beside @kubernetes/client-node and kubectl, in interleaved rounds. Each ratio is the median of
-- the rounds' ratios, so that what slows the machine for a while slows both sides.
--
--   bench.lua ROUNDS

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

local times = {} -- [measure][participant] = a list of rounds' medians

local function note(measure, who, list)
    if list then
        times[measure] = times[measure] or {}
        times[measure][who] = times[measure][who] or {}
        table.insert(times[measure][who], stats.median(list))
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

local function report()
    local rows = {}
    for _, measure in ipairs { "acquire", "dispose", "exec" } do
        local by_who = times[measure]
        for _, who in ipairs(PARTICIPANTS) do
            local list = by_who[who]
            if list then
                table.insert(rows, { measure, who, ("%.0f"):format(stats.median(list)),
                    ("%.0f"):format(stats.quantile(list, 0.99)), who == "chamvi" and "" or ratio(by_who.chamvi, list) })
            end
        end
    end
    print(tables.text {
        title = "Kubernetes workspaces",
        note = ("%d rounds; an acquire of client-node is a pod that runs, one of chamvi also a git repository in it")
            :format(ROUNDS),
        header = { "measure", "by", "p50 ms", "p99 ms", "chamvi takes" },
        rows = rows,
    })
end

sandbox.run(rounds)
report()
