-- nginx as a host, measured: its 1 ms timer, what requests do to another location, and what many leave behind.
-- nginx.lua [--quick], with the project and the library for Lua 5.4 on the path; run by bench/hosts/run.

local nginx = require "spec.hosts.support.nginx"
local scratch = require "spec.support.scratch"

local QUICK = arg[1] == "--quick"
local PORT = tonumber(os.getenv("CHAMVI_BENCH_PORT") or 18080)
local SECONDS = QUICK and 1 or 10
local REQUESTS = QUICK and 200 or 10000
local AT_A_TIME = QUICK and 50 or 500
local ROUNDS = QUICK and 1 or 5

local failed = false

local function say(...)
    print(string.format(...))
    io.stdout:flush()
end

-- Starts an nginx with one worker, calls `use(folder, worker)`, and ends it.
local function with_nginx(http, main, use)
    local folder = scratch.folder()
    scratch.shell("mkdir -m 700 " .. folder .. "/workspaces")
    nginx.configure(folder, {
        main = "user root; " .. main,
        http = "init_by_lua_block { package.path = package.path .. ';spec/hosts/support/?.lua' }\n"
            .. http:gsub("%%%(folder%)", folder),
    })
    scratch.shell(("%s >%s/output 2>&1 </dev/null &"):format(nginx.command(folder), folder))
    local master = nginx.wait_until(function()
        return (scratch.read(folder .. "/nginx.pid") or ""):match("%d+")
    end, "the start of nginx")
    local worker = nginx.wait_until(function()
        return scratch.read(("/proc/%s/task/%s/children"):format(master, master)):match("%d+")
    end, "the start of its worker")
    local ok, err = pcall(use, folder, worker)
    scratch.shell("kill -QUIT " .. master)
    nginx.wait_until(function()
        return not scratch.is_alive(master)
    end, "the end of nginx")
    local complaints = nginx.complaints(folder)
    if not ok or complaints[1] then
        failed = true
        say("nginx: FAILED: %s", tonumber(err) or tostring(err or complaints[1]))
    end
    scratch.remove(folder)
end

-- ---- The timer ---------------------------------------------------------------------------------

-- A priority above all others, but not for what the worker starts: else it is the scheduler that is measured.
local PRIORITY = "chrt --reset-on-fork --fifo 10"
if scratch.shell(PRIORITY .. " true 2>/dev/null && echo yes || true") == "" then
    PRIORITY = ""
end

local function first(worker)
    if PRIORITY ~= "" then
        scratch.shell(("chrt --reset-on-fork --fifo --pid 10 %s"):format(worker))
    end
end

local TIMER = 'init_worker_by_lua_block { require("bench.hosts.nginx_timer") }'

with_nginx(TIMER, "env CHAMVI_BENCH_MS;", function(folder, worker)
    first(worker)
    for _ = 1, 200 do
        if scratch.read(folder .. "/over") then
            break
        end
        scratch.shell("sleep 0.5")
    end
    -- `print` writes into the log there.
    for line in scratch.read(folder .. "/error.log"):gmatch("(nginx, LuaJIT[^\n]-), context: ngx.timer") do
        say("%s", line)
    end
end)

-- ---- Another location beside commands ----------------------------------------------------------

local HTTP = [[
    server {
        listen 127.0.0.1:%(port);
        listen unix:%(folder)/socket;
        location /trivial { content_by_lua_block { ngx.say("ok") } }
        location /content { content_by_lua_block { require("openresty_app").answer() } }
        location /quiet { content_by_lua_block { require("openresty_app").quiet() } }
        location /loud { content_by_lua_block { require("openresty_app").loud() } }
    }
]]

local function http()
    return (HTTP:gsub("%%%(port%)", PORT))
end

local function wrk(what)
    local command = "%s wrk -t1 -c1 -d%ds --latency http://127.0.0.1:%d/trivial"
    -- wrk too, with the thread in which it waits. One connection leaves the CPUs some time: the kernel holds up
    -- programs of that priority that take all of it.
    local printed = scratch.shell(command:format((PRIORITY:gsub("%-%-reset%-on%-fork ", "")), SECONDS, PORT))
    say("nginx, trivial location, %s: p50 %s, p99 %s, max %s, %s requests/s", what, printed:match("\n +50%% +(%S+)"),
        printed:match("\n +99%% +(%S+)"), printed:match("Latency +%d%S+ +%d%S+ +(%S+)"),
        printed:match("Requests/sec:%s+(%S+)"))
end

-- Measures beside a request that has such commands.
local function beside(folder, location, what)
    local path = ("/%s?run=%s&commands=50&seconds=%d"):format(location, location, SECONDS + 1)
    scratch.shell(("curl -s --unix-socket %s/socket 'http://nginx%s' >%s/answer 2>&1 &"):format(folder, path, folder))
    scratch.shell("sleep 0.5")
    wrk(what)
    nginx.wait_until(function()
        return scratch.read(folder .. "/answer") ~= ""
    end, "the end of the commands")
end

with_nginx(http(), "", function(folder, worker)
    first(worker)
    wrk("no commands")
    beside(folder, "quiet", "50 commands that wait")
    beside(folder, "loud", "50 commands that print")
end)

-- ---- Many requests -----------------------------------------------------------------------------

local function descriptors(worker)
    return #scratch.list(("/proc/%s/fd"):format(worker))
end

local function memory_kib(worker)
    return tonumber(scratch.read(("/proc/%s/status"):format(worker)):match("VmRSS:%s+(%d+)"))
end

with_nginx(http(), "", function(folder, worker)
    for round = 1, ROUNDS do
        local command = "node spec/hosts/support/requests.js %s/socket /content %d %d"
        local outcomes = scratch.shell(command:format(folder, REQUESTS / ROUNDS, AT_A_TIME))
        local expected = ('{"200 from 42":%d}\n'):format(REQUESTS / ROUNDS)
        assert(outcomes == expected, outcomes)
        scratch.shell("sleep 1.5")
        say("nginx, after %d requests, %d at a time: %d descriptors, %d KiB, %d threads", round * REQUESTS / ROUNDS,
            AT_A_TIME, descriptors(worker), memory_kib(worker), #scratch.list(("/proc/%s/task"):format(worker)))
    end
    nginx.wait_until(function()
        return #scratch.list(folder .. "/workspaces") == 0
    end, "the end of the workspaces")
end)

os.exit(failed and 1 or 0)
