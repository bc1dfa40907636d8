-- A host program of the soak: keeps several workspaces, does random operations in them and checks every result to
-- the byte, until it is told to end. Some workspaces are attacked by their own commands, or expire in use; only
-- those may fail, and only in ways that say so.
--
--   host.lua folder seed
--
-- Writes a line to `<folder>/<seed>.log` for each operation done; a wrong result ends it with an error and exit
-- code 1. When `<folder>/stop` is there it disposes all, checks that it leaks no descriptor, and exits with 0.

local folder, seed = arg[1], tonumber(arg[2])
local errors = require "chamvi.sandbox.errors"
local random = require("spec.soak.random")(seed)
local sandbox = require "chamvi.sandbox"

local TASKS = 6
local SHORT_MS = 700 -- the lifetime of workspaces that are to expire in use

local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = folder .. "/workspaces" })
local log = assert(io.open(("%s/%d.log"):format(folder, seed), "a"))
log:setvbuf("line")

local function is_stopped()
    local file = io.open(folder .. "/stop")
    if file then
        file:close()
    end
    return file ~= nil
end

-- What this program holds open, one in a line, without numbers that change.
local function descriptors()
    local path = ("%s/%d.fds"):format(folder, seed) -- of a pipe to the shell one or both ends would be seen
    os.execute(("ls -l /proc/$PPID/fd | sed -n 's/.* -> //p' | tr -d '0-9' | sort >%s"):format(path))
    local file = io.open(path)
    local list = file:read("*a")
    file:close()
    return list
end

local function sh(script)
    return { "sh", "-c", script }
end

-- What may become of a call on a workspace that was attacked, or whose time is over.
local LOST = { transport_lost = true, gone = true, disposed = true, kill_failed = true, start_failed = true }

---@class soak.State
---@field workspace chamvi.Workspace
---@field doomed boolean errors of LOST are no surprise from now on
---@field files table<string, string> what was written, by path
---@field number integer of operations

-- The result of a call, or nil when it failed as it might.
local function check(state, value, err)
    if value == nil then
        assert(errors.is_error(err), tostring(err))
        if not (state.doomed and LOST[err.code]) then
            error(("seed %d, workspace %s: %s"):format(seed, state.workspace.id, tostring(err)), 2)
        end
    end
    return value
end

local function expect(state, result, fields)
    if not check(state, result[1], result[2]) then
        return
    end
    for name, value in pairs(fields) do
        if result[1][name] ~= value then
            error(("seed %d: %s is %s, not %s; stderr: %s"):format(seed, name, tostring(result[1][name]):sub(1, 200),
                tostring(value):sub(1, 200), result[1].stderr), 2)
        end
    end
end

-- A text that tells who wrote it.
local function text(state, size)
    state.number = state.number + 1
    local line = ("%d %s %d\n"):format(seed, state.workspace.id, state.number)
    return line:rep(math.ceil(size / #line)):sub(1, size)
end

local operations = {}

function operations.exit(state)
    local code = random(0, 255)
    expect(state, { state.workspace:exec(sh("exit " .. code)) }, { status = "exited", exit_code = code, stdout = "" })
end

function operations.signal(state)
    local signal = ({ 1, 2, 9, 15 })[random(1, 4)]
    expect(state, { state.workspace:exec(sh(("kill -%d $$; sleep 60"):format(signal))) },
        { status = "signaled", term_signal = signal, exit_code = 128 + signal })
end

function operations.round_trip(state)
    local input = text(state, random(1, 65536))
    expect(state, { state.workspace:exec({ "cat" }, { stdin = input }) },
        { exit_code = 0, stdout = input, stdout_bytes = #input, stdout_truncated = false, stderr = "" })
end

function operations.large_round_trip(state)
    local input = text(state, random(65537, 600000))
    local got = {}
    local kept = input:sub(1, sandbox.OUTPUT_MAX_BYTES)
    expect(state, { state.workspace:exec({ "cat" }, {
        stdin = input,
        on_output = function(_, chunk)
            table.insert(got, chunk)
        end,
    }) }, { exit_code = 0, stdout = kept, stdout_bytes = #input, stdout_truncated = true })
    assert(state.doomed or table.concat(got) == input, "the chunks are not what was printed")
end

function operations.both_streams(state)
    local size = random(1, 3000000)
    expect(state, { state.workspace:exec(sh(("head -c %d /dev/zero; echo err >&2; exit 3"):format(size))) }, {
        exit_code = 3,
        stdout = ("\0"):rep(math.min(size, sandbox.OUTPUT_MAX_BYTES)),
        stdout_bytes = size,
        stderr = "err\n",
    })
end

function operations.time_limit(state)
    expect(state, { state.workspace:exec(sh("echo before; sleep 60"), { timeout_ms = random(50, 300) }) },
        { status = "timed_out", exit_code = 124, timed_out = true })
end

function operations.stopped_command(state)
    local timeout_ms = random(200, 300)
    expect(state, { state.workspace:exec(sh("kill -STOP $$; sleep 60"), { timeout_ms = timeout_ms }) },
        { status = "timed_out", exit_code = 124 })
end

function operations.abort(state)
    local signal = sandbox.signal()
    local task = sandbox.spawn(function()
        return state.workspace:exec(sh("trap '' TERM HUP; while :; do sleep 1; done"), { signal = signal })
    end)
    sandbox.sleep(random(0, 60))
    signal:abort("soak")
    local result, err = task:join()
    assert(result == nil)
    assert(err.code == "aborted" or state.doomed and LOST[err.code], tostring(err))
end

function operations.daemon(state)
    expect(state, { state.workspace:exec(sh("setsid sleep 1000 >/dev/null 2>&1 & echo started")) },
        { exit_code = 0, stdout = "started\n", streams_held = false })
end

function operations.forks(state)
    local script = "for i in $(seq 30); do (setsid sh -c 'sleep 5 & :' &) >/dev/null 2>&1; done; echo all"
    expect(state, { state.workspace:exec(sh(script)) }, { exit_code = 0, stdout = "all\n" })
end

-- One command kills another.
function operations.killed(state)
    local workspace = state.workspace
    state.number = state.number + 1
    local name = "pid" .. state.number
    local task = sandbox.spawn(function()
        return workspace:exec(sh(("echo kept; echo $$ >%s.new; mv %s.new %s; exec sleep 60"):format(name, name, name)))
    end)
    local script = ("while ! [ -e %s ]; do sleep 0.01; done; kill -KILL $(cat %s)"):format(name, name)
    expect(state, { workspace:exec(sh(script)) }, { exit_code = 0 })
    local result, err = task:join()
    expect(state, { result, err }, { status = "signaled", term_signal = 9, stdout = "kept\n" })
end

function operations.missing_program(state)
    expect(state, { state.workspace:exec({ "no-such-program" }) }, { status = "exited", exit_code = 127, stdout = "" })
end

function operations.wrong_input(state)
    local result, err = state.workspace:exec({ "true", "\0" })
    assert(result == nil and err.code == "invalid_argv")
end

function operations.write(state)
    local path = ({ "f", "a/g", "a/b/c/h", "/workspace/i" })[random(1, 4)]
    local content = text(state, random(0, 200000))
    state.files[path] = false -- unknown, if this fails
    if check(state, state.workspace:write_file(path, content)) then
        state.files[path] = content
    end
end

function operations.read(state)
    for path, content in pairs(state.files) do
        local got = check(state, state.workspace:read_file(path))
        if got and content then
            assert(got == content, "a file has another content")
        end
    end
    local got, err = state.workspace:read_file("missing")
    assert(got == nil and (err.code == "file_not_found" or state.doomed and LOST[err.code]), tostring(err))
end

function operations.hidden_file(state)
    local got, err = state.workspace:exec({ "ln", "-sf", "/etc/passwd", "out" })
    check(state, got, err)
    got, err = state.workspace:read_file("out")
    assert(got == nil and (err.code == "outside_workspace" or state.doomed and LOST[err.code]), tostring(err))
end

function operations.side_by_side(state)
    local functions = {}
    for index = 1, random(2, 8) do
        functions[index] = function()
            local result, err = state.workspace:exec({ "echo", tostring(index) })
            expect(state, { result, err }, { exit_code = 0, stdout = index .. "\n" })
            return true
        end
    end
    for _, packed in ipairs(sandbox.all(functions)) do
        assert(packed[1], packed[2])
    end
end

function operations.collect(_)
    local count, err = provider:collect_garbage()
    assert(count, tostring(err))
end

-- A command attacks what looks after the workspace, while others run.
function operations.attack(state)
    state.doomed = true
    local attacks = { "kill -KILL $PPID", "kill -STOP $PPID", "kill -KILL $G", "kill -STOP $G", "kill -TERM $G" }
    local script = ("read -r _ _ _ G _ </proc/$PPID/stat; sleep 0.0%d; %s; sleep 0.3; exit 9"):format(
        random(0, 9), attacks[random(1, #attacks)])
    local functions = { function()
        local result, err = state.workspace:exec(sh(script))
        assert(result == nil and LOST[err.code] or result and result.exit_code == 9, tostring(err))
        return true
    end }
    for _, name in ipairs({ "round_trip", "both_streams", "large_round_trip", "write", "daemon" }) do
        if random(1, 2) == 1 then
            table.insert(functions, function()
                operations[name](state)
                return true
            end)
        end
    end
    for _, packed in ipairs(sandbox.all(functions)) do
        assert(packed[1], packed[2])
    end
end

local names = {}
for name in pairs(operations) do
    table.insert(names, name)
end
table.sort(names) -- the same order for a seed, whatever the interpreter

local function create()
    local short = random(1, 10) == 1
    local workspace, err = provider:create({
        run_id = "soak",
        limits = short and { timeout_ms = SHORT_MS } or nil,
    })
    if not workspace and short and err.code == "create_failed" then -- another host has collected it already
        log:write("create_expired\n")
        return create()
    end
    assert(workspace, err)
    log:write("create\n")
    return { workspace = workspace, doomed = short, files = {}, number = 0 }
end

local function dispose(state)
    local disposed, err
    for _ = 1, 3 do -- a removal may fail beside that of a collection
        disposed, err = state.workspace:dispose()
        if disposed or not (state.doomed and err.code == "remove_failed") then
            break
        end
    end
    check(state, disposed, err)
    log:write("dispose\n")
end

-- One task: a workspace after the other, some operations in each.
local function work_on()
    while not is_stopped() do
        local state = create()
        for _ = 1, random(1, 25) do
            local name = names[random(1, #names)]
            -- An attack is rare, and the last but some that find out.
            if name ~= "attack" or random(1, 3) == 1 then
                operations[name](state)
                log:write(name, "\n")
            end
            if state.workspace.disposed or is_stopped() then
                break
            end
        end
        dispose(state)
    end
end

-- What is wrong ends the host at once.
local function work()
    local ok, err = pcall(work_on)
    if not ok then
        io.stderr:write(tostring(err), "\n")
        os.exit(1)
    end
end

local function run()
    local tasks = {}
    for index = 1, TASKS do
        tasks[index] = sandbox.spawn(work)
    end
    for _, task in ipairs(tasks) do
        task:join()
    end
end

sandbox.loop():pollfd() -- the core's own descriptors are there from the first use on
local before = descriptors()
sandbox.run(run)
collectgarbage()
collectgarbage()
local after = descriptors()
assert(after == before, ("before:\n%safter:\n%s"):format(before, after))
log:write("ended ", io.open("/proc/self/status"):read("*a"):match("VmHWM:%s*(%d+)"), "\n")
