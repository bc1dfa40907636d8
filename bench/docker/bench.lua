-- Docker workspaces beside the Engine API itself, dockerode and the docker command, in interleaved rounds. Each ratio
-- is the median of the rounds' ratios, so that what slows the machine for a while slows both sides.
--
--   bench.lua ROUNDS

local container = require "chamvi.sandbox.docker.container"
local docker = require "chamvi.sandbox.docker"
local addresses = require "chamvi.sandbox.docker.address"
local engines = require "chamvi.sandbox.docker.engine"
local native = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"
local stats = require "stats"
local tables = require "tables"

local ROUNDS = tonumber(arg[1])
local EXECS = 5 -- a round
local AT_ONCE, SPREAD = 50, 20
local OUTPUT_BYTES = 2 ^ 30

local host, image = os.getenv "CHAMVI_TEST_DOCKER_HOST", os.getenv "CHAMVI_TEST_IMAGE"
local provider = docker.create_docker_sandbox { docker = { host = host }, image = image, pull = "never" }
local engine = engines.new(addresses.resolve { host = host })

-- ---- What is timed -----------------------------------------------------------------------------

local function timed(work)
    local start = native.now_ms()
    work()
    return native.now_ms() - start
end

local function body(id)
    return container.body {
        id = id,
        run_id = "bench",
        image = image,
        network = docker.DEFAULT_NETWORK,
        env = sandbox.SANDBOX_ENV,
        limits = sandbox.resolve_limits(),
        expires_at = native.now_ms() + 600000,
    }
end

local function expect(status, method, path, json)
    local answer = assert(engine:request(method, path, { json = json }))
    assert(answer.status == status, answer.body)
    return answer.json
end

local function raw_acquire()
    local id = sandbox.uuid()
    local name = container.name(id)
    local took = timed(function()
        expect(201, "POST", "/containers/create?name=" .. name, body(id))
        expect(204, "POST", "/containers/" .. name .. "/start")
    end)
    expect(204, "DELETE", "/containers/" .. name .. "?force=1&v=1")
    return took
end

local function raw_exec(name)
    return timed(function()
        local created = expect(201, "POST", "/containers/" .. name .. "/exec",
            { Cmd = { "true" }, AttachStdout = true, AttachStderr = true })
        local stream = assert(engine:stream("/exec/" .. created.Id .. "/start", { json = { Tty = false } }))
        repeat
            local bytes = stream:read()
        until not bytes
        stream:close()
        assert(expect(200, "GET", "/exec/" .. created.Id .. "/json").ExitCode == 0)
    end)
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

local function succeeds(workspace, argv)
    local result = assert(workspace:exec(argv, { timeout_ms = 600000 }))
    assert(result.exit_code == 0, result.stderr)
    return result
end

local function our_exec(workspace)
    return timed(function()
        succeeds(workspace, { "true" })
    end)
end

local function together(workspaces, count)
    return timed(function()
        local functions = {}
        for index = 1, count do
            functions[index] = function()
                return succeeds(workspaces[(index - 1) % #workspaces + 1], { "true" })
            end
        end
        for _, packed in ipairs(sandbox.all(functions)) do
            assert(packed[1], packed[2])
        end
    end)
end

-- The peers' own times, a line each; nil where the peer is missing.
local function peer(...)
    if not os.getenv "CHAMVI_BENCH_DOCKERODE" then
        return nil
    end
    local pipe = assert(io.popen(("CHAMVI_BENCH_BODY='%s' node bench/docker/peer.js %s"):format(
        assert(native.json_encode(body(sandbox.uuid()))):gsub("'", "'\\''"), table.concat({ ... }, " "))))
    local times = {}
    for line in pipe:lines() do
        table.insert(times, tonumber(line))
    end
    assert(pipe:close(), "dockerode failed")
    return times
end

local function cli(command)
    return timed(function()
        assert(os.execute(("DOCKER_HOST=%s docker %s >/dev/null"):format(host, command)))
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

local function cli_acquire(round)
    local name = "chamvi-bench-" .. round
    local took = cli(("run --detach --name %s --user 1000 %s sleep 600"):format(name, image))
    cli("rm --force --volumes " .. name)
    return { took }
end

local function rounds()
    local workspaces = {}
    for index = 1, SPREAD do
        workspaces[index] = create()
    end
    local workspace = workspaces[1]
    local names = {}
    for index, one in ipairs(workspaces) do
        names[index] = container.name(one.id)
    end
    local name = names[1]
    for round = 1, ROUNDS do
        note("acquire", "API", repeated(2, raw_acquire))
        note("acquire", "chamvi", repeated(2, our_acquire))
        note("acquire", "dockerode", peer("acquire", 2))
        note("acquire", "docker", cli_acquire(round))
        note("exec", "API", repeated(EXECS, raw_exec, name))
        note("exec", "chamvi", repeated(EXECS, our_exec, workspace))
        note("exec", "dockerode", peer("exec", EXECS, name))
        note("exec", "docker", repeated(EXECS, cli, "exec " .. name .. " true"))
    end
    for _ = 1, math.max(1, math.floor(ROUNDS / 5)) do
        note("50 execs at once, one container", "chamvi", { together({ workspace }, AT_ONCE) })
        note("50 execs at once, one container", "dockerode", peer("together", AT_ONCE, name))
        note("20 containers, an exec each", "chamvi", { together(workspaces, SPREAD) })
        note("20 containers, an exec each", "dockerode", peer("together", SPREAD, table.concat(names, " ")))
        local print_all = ("head -c %.0f /dev/zero"):format(OUTPUT_BYTES)
        note("1 GiB of output", "docker", { cli(("exec %s %s"):format(name, print_all)) })
        note("1 GiB of output", "chamvi", { timed(function()
            assert(succeeds(workspace, { "sh", "-c", print_all }).stdout_bytes == OUTPUT_BYTES)
        end) })
    end
    for _, one in ipairs(workspaces) do
        assert(one:dispose())
    end
end

-- ---- The report --------------------------------------------------------------------------------

local PARTICIPANTS = { "chamvi", "API", "dockerode", "docker" }

local function ratio(ours, theirs)
    local ratios = {}
    for index, value in ipairs(ours) do
        ratios[index] = value / theirs[index]
    end
    return ("%.2fx"):format(stats.median(ratios))
end

local function report()
    local rows = {}
    local measures = { "acquire", "exec", "50 execs at once, one container", "20 containers, an exec each",
        "1 GiB of output" }
    for _, measure in ipairs(measures) do
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
        title = "Docker workspaces",
        note = ('%d rounds; "API" is create + start, and exec create + start + inspect'):format(ROUNDS),
        header = { "measure", "by", "p50 ms", "p99 ms", "chamvi takes" },
        rows = rows,
    })
end

sandbox.run(rounds)
report()
