-- The soak: several host programs (host.lua) work on one root; at random they are killed, stopped for a while and
-- replaced, and so are guards, supervisors and commands. Ends when enough operations are done, with an account of
-- what is left, which must be nothing but the folders of killed hosts, and after a collection nothing at all.
--
--   run.lua folder operations seed interpreter...
--
-- An interpreter is a shell's command; hosts use them in turn. Prints figures; exit code 0 when nothing was wrong.

local folder, operations, seed = arg[1], tonumber(arg[2]), tonumber(arg[3])
local core = require "chamvi.sandbox.core"
local random = require("spec.soak.random")(seed)
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local HOSTS = 4
local TURN_MS = 100
local STALLED_MS = 120000
local LATE_MS = 1800001 -- past every lifetime
local root = folder .. "/workspaces"

local interpreters = {}
for index = 4, #arg do
    table.insert(interpreters, arg[index])
end

local done, counts, memory_kib = 0, {}, 0
local started, killed, stopped = 0, 0, 0
local hosts = {}

local function fail(format, ...)
    error(format:format(...), 0)
end

local function start()
    started = started + 1
    local host = { seed = seed * 10000 + started, at = 0 }
    local base = ("%s/%d"):format(folder, host.seed)
    local command = ("echo $$ >%s.pid; exec %s spec/soak/host.lua %s %d"):format(
        base, interpreters[started % #interpreters + 1], folder, host.seed)
    scratch.shell(("{ sh -c %s; echo $? >%s.status; } >%s.err 2>&1 </dev/null &"):format(
        scratch.quote(command), base, base))
    host.base = base
    table.insert(hosts, host)
end

local function pid_of(host)
    return (scratch.read(host.base .. ".pid") or ""):match("^(%d+)\n")
end

-- Takes the lines that the host has written since the last time.
local function take_log(host)
    local file = io.open(host.base .. ".log")
    if not file then
        return
    end
    file:seek("set", host.at)
    local whole = file:read("*a"):match("^.*\n") or ""
    file:close()
    host.at = host.at + #whole
    for name, figure in whole:gmatch("(%S+) ?(%d*)\n") do
        counts[name] = (counts[name] or 0) + 1
        if name == "ended" then
            memory_kib = math.max(memory_kib, tonumber(figure))
        else
            done = done + 1
        end
    end
end

-- The exit code of a host, nil while it runs.
local function status_of(host)
    return (scratch.read(host.base .. ".status") or ""):match("^(%d+)\n")
end

local function fail_if_ended(host)
    local status = status_of(host)
    if status then
        fail("host %d ended with status %s: %s", host.seed, status, scratch.read(host.base .. ".err"))
    end
end

local function kill(host)
    local pid = pid_of(host)
    if not pid then
        return false
    end
    scratch.shell(("kill -KILL %s 2>/dev/null || true"):format(pid))
    killed = killed + 1
    return true
end

local function stop_for_a_while(host, now)
    local pid = pid_of(host)
    if pid and not host.stopped_until then
        scratch.shell("kill -STOP " .. pid)
        stopped = stopped + 1
        host.stopped_until = now + random(50, 1500)
    end
end

local function continue(host)
    scratch.shell(("kill -CONT %s 2>/dev/null || true"):format(pid_of(host)))
    host.stopped_until = nil
end

local function turn(now)
    for index = #hosts, 1, -1 do
        local host = hosts[index]
        take_log(host)
        fail_if_ended(host)
        if host.stopped_until and now >= host.stopped_until then
            continue(host)
        end
        if random(1, 40) == 1 and kill(host) then
            take_log(host)
            table.remove(hosts, index)
            start()
        elseif random(1, 30) == 1 then
            stop_for_a_while(host, now)
        end
    end
end

-- Processes that still belong to the root: commands have it in their environment; guard and supervisor, which have
-- none, hold a record or the root itself open.
local function processes()
    return scratch.shell(([[
        grep -lsaF -- %s/ /proc/[0-9]*/environ
        find /proc/[0-9]*/fd -maxdepth 1 -lname '%s*' 2>/dev/null
        true
    ]]):format(root, root))
end

local function wait_for(what, limit_ms, condition)
    local deadline = core.now_ms() + limit_ms
    while not condition() do
        if core.now_ms() >= deadline then
            fail("too late: %s", what)
        end
        sandbox.sleep(50)
    end
end

local function end_hosts()
    scratch.write(folder .. "/stop", "")
    for _, host in ipairs(hosts) do
        if host.stopped_until then
            continue(host)
        end
    end
    for _, host in ipairs(hosts) do
        wait_for(("the end of host %d"):format(host.seed), STALLED_MS, function()
            return status_of(host)
        end)
        if status_of(host) ~= "0" then
            fail_if_ended(host)
        end
        take_log(host)
    end
end

local function report(began)
    local names = {}
    for name in pairs(counts) do
        table.insert(names, name)
    end
    table.sort(names)
    local seconds = (core.now_ms() - began) / 1000
    print(("%d operations, %.0f s, seed %d"):format(done, seconds, seed))
    print(("hosts: %d started, %d killed, %d times stopped; largest of those that ended: %d KiB"):format(
        started, killed, stopped, memory_kib))
    for index, name in ipairs(names) do
        names[index] = ("%s %d"):format(name, counts[name])
    end
    print(table.concat(names, ", "))
end

local began = core.now_ms()

local function work()
    scratch.shell("mkdir -m 700 " .. root)
    for _ = 1, HOSTS do
        start()
    end
    local last_done, last_change = 0, began
    while done < operations do
        local now = core.now_ms()
        turn(now)
        if done ~= last_done then
            last_done, last_change = done, now
        elseif now - last_change > STALLED_MS then
            fail("nothing has been done for %d ms, after %d operations", STALLED_MS, done)
        end
        sandbox.sleep(TURN_MS)
    end
    end_hosts()
end

-- Whatever is wrong, no host must go on.
local ok, err = pcall(work)
if not ok then
    for _, host in ipairs(hosts) do
        kill(host)
    end
    error(err, 0)
end

-- The account. Of killed hosts the folders stay until they expire, and nothing else.
wait_for("the death of every process", 15000, function()
    return processes() == ""
end)
local left = scratch.list(root)
local collected = assert(require("chamvi.sandbox.local").create_local_sandbox({
    root = root,
    clock = {
        now = function()
            return core.now_ms() + LATE_MS
        end,
    },
}):collect_garbage())
local rest = scratch.list(root)
if #rest > 0 then
    fail("left behind the collection: %s", table.concat(rest, " "))
end
report(began)
print(("left by killed hosts: %d files and folders, of %d workspaces; behind one collection: none"):format(
    #left, collected))
