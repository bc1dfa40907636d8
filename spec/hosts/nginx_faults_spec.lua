-- Programs in nginx that end requests and timers at bad moments: what they do to themselves must not reach others.

local hosts = require "spec.hosts.support.hosts"
local nginx = require "spec.hosts.support.nginx"
local scratch = require "spec.support.scratch"

local wait_until = nginx.wait_until

local APP = 'require("spec.hosts.support.openresty_faults")'

local HTTP = [[
    lua_max_running_timers 4;
    exit_worker_by_lua_block { %s.exit() }
    server {
        listen unix:%s/socket;
        location /log { content_by_lua_block { ngx.say("logged") } log_by_lua_block { %s.spawn() } }
        location / {
            lua_check_client_abort on;
            content_by_lua_block { %s[ngx.var.uri:sub(2)]() }
        }
    }
]]

describe("a program in nginx that goes wrong:", function()
    local folder, master

    local function get(path, seconds)
        return scratch.shell(("curl -sS --max-time %g --unix-socket %s/socket 'http://nginx/%s' 2>&1 || true"):format(
            seconds or 20, folder, path))
    end

    local function escaped(script)
        return (script:gsub("[^%w.]", function(mark)
            return ("%%%02X"):format(mark:byte())
        end))
    end

    local function command(script)
        return get("command?script=" .. escaped(script))
    end

    local function start(connections)
        nginx.configure(folder, {
            main = scratch.shell("id -u") == "0\n" and "user root;" or "",
            connections = connections,
            http = HTTP:format(APP, folder, APP, APP),
        })
        scratch.shell(("%s >%s/output 2>&1 </dev/null &"):format(nginx.command(folder), folder))
        master = tonumber(wait_until(function()
            return (scratch.read(folder .. "/nginx.pid") or ""):match("%d+")
        end, "the start: " .. (scratch.read(folder .. "/output") or "")))
    end

    local function quit()
        scratch.shell(("kill -QUIT %d"):format(master))
        wait_until(function()
            return not scratch.is_alive(master)
        end, "the end")
    end

    before_each(function()
        folder = scratch.folder()
        scratch.shell(("mkdir -m 700 %s/workspaces"):format(folder))
        start()
        assert.equal("warm\n", command("echo warm"))
    end)

    after_each(function()
        if scratch.is_alive(master) then
            scratch.shell(("kill -TERM %d"):format(master))
            wait_until(function()
                return not scratch.is_alive(master)
            end, "the end")
        end
        assert.equal("", hosts.processes_left(folder))
        scratch.remove(folder)
    end)

    it("a request that is ended while it waits leaves those alone that use its coroutine again", function()
        for _ = 1, 3 do
            -- The command of the first ends while the second waits.
            local first = "until [ -e go ]; do sleep 0.02; done; touch gone; echo first"
            local second = "touch go; n=0; until [ -e gone ] || [ $n -gt 200 ]; do n=$((n + 1)); sleep 0.02; done; "
                .. "sleep 0.3; rm -f go gone; echo second"
            assert.matches("timed out", get("command?script=" .. escaped(first), 0.5))
            assert.equal("second\n", command(second))
        end
    end)

    it("the on_output of a request that was ended is not called any more", function()
        get("counted")
        local count = get("count")
        assert.is_true(tonumber(count) > 0)
        assert.equal("other\n", command("sleep 1.2; echo other"))
        assert.equal(count, get("count"))
    end)

    it("an ngx.exit in on_output ends no more than its command", function()
        for _ = 1, 2 do
            assert.equal("SandboxError: on_output failed: on_output must not yield\n", get("exit_in_callback"))
            assert.equal("next\n", command("echo next"))
        end
    end)

    it("commands go on when nginx drops the library's timer", function()
        wait_until(function() -- until the driver has gone
            local pid = scratch.read(("/proc/%d/task/%d/children"):format(master, master)):match("%d+")
            return #scratch.list(("/proc/%s/task"):format(pid)) == 1
        end, "a worker without a helper thread")
        assert.equal("filled\n", get("fill?seconds=600"))
        assert.equal("out\n", command("echo out"))
    end)

    it("a task begins although nginx has dropped its timer", function()
        assert.equal("filled\n", get("fill?seconds=2"))
        assert.equal("logged\n", get("log"))
        wait_until(function()
            return scratch.read(folder .. "/spawned") == "spawned"
        end, "the task")
    end)

    it("callbacks and providers may spawn tasks", function()
        assert.equal("spawned in on_output\n", get("spawn_in_output"))
        assert.equal("SandboxError: the call was aborted: enough, spawned in a listener\n", get("spawn_in_listener"))
    end)

    it("a task has failed that was ended with its request", function()
        get("lose_task")
        assert.equal("the host has ended the task\n", get("join_lost"))
    end)

    it("with_run releases the run of a request that was ended", function()
        get("lose_run")
        wait_until(function()
            return get("has_run") == "no_workspace\n"
        end, "the release")
    end)

    it("a task is the same with another ngx.ctx", function()
        assert.equal("ran 3\n", get("replace_context"))
    end)

    it("without a connection left, commands are slower, and the log says so once", function()
        quit()
        start(12)
        local clients = [[
            for i in 1 2 3 4 5 6 7; do curl -s --unix-socket %s/socket 'http://nginx/wait' & done
            n=0; until [ "$(cat %s/waiting)" = 7 ]; do n=$((n + 1)); [ $n -lt 600 ] || exit 9; sleep 0.05; done 2>&-
            curl -s --max-time 60 --unix-socket %s/socket 'http://nginx/command?script=echo%%20out'
            touch %s/go
            wait
        ]]
        assert.matches("out\n", scratch.shell(clients:format(folder, folder, folder, folder)), 1, true)
        local lines = {}
        for _, line in ipairs(nginx.complaints(folder)) do
            table.insert(lines, line:match("chamvi.sandbox: [^,]*"))
        end
        assert.same({
            "chamvi.sandbox: nginx can't connect to the core: its own lines tell why; "
                .. "worker_connections may be used up; trying again",
        }, lines)
    end)

    it("a worker that exits says what can't be done there", function()
        quit()
        local waiting, spawning = scratch.read(folder .. "/exited"):match("^(.-)\n(.*)\n$")
        assert.equal("acquire waits, and nginx's phase exit_worker must not", waiting:match("acquire.*"))
        assert.matches("no task can be started: ngx.timer.at: ", spawning, 1, true)
    end)
end)
