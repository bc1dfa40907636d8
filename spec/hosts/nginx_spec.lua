-- Debian's nginx with two workers that run as another user, and requests that use workspaces.

local hosts = require "spec.hosts.support.hosts"
local native = require "chamvi.sandbox.core"
local nginx = require "spec.hosts.support.nginx"
local scratch = require "spec.support.scratch"

local wait_until = nginx.wait_until

local HTTP = [[
    init_by_lua_block {
        in_init = require("openresty_app").refused()
    }
    init_worker_by_lua_block {
        in_init_worker = require("openresty_app").refused()
        require("openresty_app").spawned("in_init_worker." .. ngx.worker.id())
    }
    server {
        listen unix:%(folder)/socket;
        lua_check_client_abort on;
        location /rewrite { rewrite_by_lua_block { require("openresty_app").answer() } }
        location /access { access_by_lua_block { require("openresty_app").answer() } }
        location /content { content_by_lua_block { require("openresty_app").answer() } }
        location /timer { content_by_lua_block { require("openresty_app").in_timer() } }
        location /hold { content_by_lua_block { require("openresty_app").hold() } }
        location /abort { content_by_lua_block { require("openresty_app").until_aborted() } }
        location /tasks { content_by_lua_block { require("openresty_app").tasks() } }
        location /suspended { content_by_lua_block { require("openresty_app").suspended() } }
        location /slow { content_by_lua_block { require("openresty_app").slow() } }
        location /unaware { content_by_lua_block { require("openresty_app").until_gone() } }
        location /collect { content_by_lua_block { require("openresty_app").collect() } }
        location /many { content_by_lua_block { require("openresty_app").many() } }
        location /loud { content_by_lua_block { require("openresty_app").loud() } }
        location /environment { content_by_lua_block { require("openresty_app").environment() } }
        location /init { content_by_lua_block { ngx.say(in_init) } }
        location /init_worker { content_by_lua_block { ngx.say(in_init_worker) } }
        location /set { set_by_lua_block $refused { return require("openresty_app").refused() } return 200 $refused; }
        location /header {
            content_by_lua_block { ngx.say("x") }
            header_filter_by_lua_block { ngx.header["X-Refused"] = require("openresty_app").refused() }
        }
        location /body {
            content_by_lua_block { ngx.print("x") }
            body_filter_by_lua_block { ngx.arg[1] = ngx.arg[1] ~= "" and require("openresty_app").refused() or "" }
        }
        location /log {
            content_by_lua_block { require("openresty_app").acquire() }
            log_by_lua_block {
                require("openresty_app").completed()
                ngx.log(ngx.NOTICE, "refused: ", require("openresty_app").refused())
                require("openresty_app").spawned("in_log")
            }
        }
    }
]]

describe("nginx with two workers:", function()
    local folder, master
    local is_root = scratch.shell("id -u") == "0\n"

    local function get(path, options)
        return scratch.shell(("curl -sS --max-time 60 %s --unix-socket %s/socket 'http://nginx%s'"):format(
            options or "", folder, path))
    end

    -- Begins a request whose command makes a file, and gives the process of its client, which writes into a file.
    local function begin(path, answer)
        local command = "curl -s --unix-socket %s/socket 'http://nginx%s' >%s/%s 2>&1 & echo $!"
        local client = tonumber(scratch.shell(command:format(folder, path, folder, answer or "no_answer")))
        wait_until(function()
            return scratch.shell(("ls %s/workspaces/*/begun 2>/dev/null || true"):format(folder)) ~= ""
        end, "the begin of the command")
        return client
    end

    -- Many requests at a time: how often there was each outcome.
    local function requests(path, count, at_a_time)
        local command = "timeout -k 5 120 node spec/hosts/support/requests.js %s/socket '%s' %d %d"
        return native.json_decode(scratch.shell(command:format(folder, path, count, at_a_time)))
    end

    local function workers()
        local pids = {}
        for pid in (scratch.read(("/proc/%d/task/%d/children"):format(master, master)) or ""):gmatch("%d+") do
            local command = scratch.read(("/proc/%s/cmdline"):format(pid)) or ""
            if command:find("worker process", 1, true) then
                table.insert(pids, tonumber(pid))
            end
        end
        return pids
    end

    -- Descriptors of the workers that handle no request.
    local function descriptors()
        local count = 0
        for _, pid in ipairs(workers()) do
            count = count + #scratch.list(("/proc/%d/fd"):format(pid))
        end
        return count
    end

    local function threads()
        local count = 0
        for _, pid in ipairs(workers()) do
            count = count + #scratch.list(("/proc/%d/task"):format(pid))
        end
        return count
    end

    local function at_rest()
        return wait_until(function()
            return threads() == 2 and descriptors()
        end, "workers without a helper thread")
    end

    -- Processes and files of workspaces.
    local function left()
        return hosts.processes_left(folder) .. hosts.files_left(folder)
    end

    local function is_gone(id)
        return not scratch.shell(("ls -d %s/workspaces/%s* 2>/dev/null || true"):format(folder, id)):find(id, 1, true)
    end

    -- By a reload: what they were at is ended first.
    local function end_workers()
        local old = workers()
        scratch.shell(("kill -HUP %d"):format(master))
        assert.equal("from 42\n\n", get("/content"))
        wait_until(function()
            for _, pid in ipairs(old) do
                if scratch.is_alive(pid) then
                    return false
                end
            end
            return true
        end, "the end of the old workers")
    end

    local function start()
        scratch.shell(("%s >%s/output 2>&1 </dev/null &"):format(nginx.command(folder), folder))
        master = tonumber(wait_until(function()
            return (scratch.read(folder .. "/nginx.pid") or ""):match("%d+")
        end, "the start: " .. (scratch.read(folder .. "/output") or "")))
        wait_until(function()
            return #workers() == 2
        end, "two workers")
    end

    setup(function()
        folder = scratch.folder()
        -- The checkout may be closed to the workers' user.
        scratch.shell(("set -e; mkdir -m 755 %s/library; cp -rL %s/. %s/library; chmod -R a+rX %s/library")
            :format(folder, nginx.library(), folder, folder))
        scratch.shell(("cp spec/hosts/support/openresty_app.lua %s/library; mkdir -m 700 %s/workspaces")
            :format(folder, folder))
        if is_root then
            scratch.shell(("chown www-data %s/workspaces; chgrp www-data %s"):format(folder, folder))
        end
        nginx.configure(folder, {
            main = is_root and "user www-data;" or "",
            workers = 2,
            library = folder .. "/library",
            http = HTTP:gsub("%%%(folder%)", folder),
        })
        if is_root then
            scratch.shell(("chmod 771 %s"):format(folder))
        end
        start()
    end)

    teardown(function()
        if scratch.is_alive(master) then
            scratch.shell(("kill -TERM %d"):format(master))
            wait_until(function()
                return not scratch.is_alive(master)
            end, "the end")
        end
        scratch.remove(folder)
    end)

    for _, phase in ipairs({ "rewrite", "access", "content" }) do
        it(("a request runs commands in the phase %s"):format(phase), function()
            assert.equal("from 42\n\n", get("/" .. phase))
        end)
    end

    it("a timer runs commands", function()
        assert.equal("from a timer\n\n", get("/timer"))
    end)

    it("commands need neither PATH nor HOME of nginx", function()
        local path, home, printed = get("/environment"):match("^(%S+) (%S+) (.*)\n\n$")
        assert.equal("nil nil", path .. " " .. home)
        assert.matches("^/usr/local/sbin:%S+ git$", printed)
    end)

    it("phases in which nothing may wait say so", function()
        local message = "with_run waits, and nginx's phase %s must not"
        assert.equal(message:format("init") .. "\n", get("/init"):match("with_run.*"))
        message = message .. ": use sandbox.spawn there"
        for path, phase in pairs({ init_worker = "init_worker", set = "set", body = "body_filter" }) do
            assert.matches(message:format(phase), get("/" .. path), 1, true)
        end
        assert.matches(message:format("header_filter"), get("/header", "-D - -o /dev/null"), 1, true)
    end)

    it("the log phase hands a release and a task to the background", function()
        local id = get("/log?run=log"):match("%S+")
        wait_until(function()
            return is_gone(id) and scratch.read(folder .. "/in_log") == "spawned\n"
        end, "the end of the workspace and of the task")
        assert.matches("with_run waits, and nginx's phase log must not: use sandbox.spawn there",
            scratch.read(folder .. "/error.log"), 1, true)
    end)

    it("a worker can begin a task when it starts", function()
        for worker = 0, 1 do
            wait_until(function()
                return scratch.read(("%s/in_init_worker.%d"):format(folder, worker)) == "spawned\n"
            end, "the end of the task")
        end
    end)

    it("tasks that have ended take no memory while their request lasts", function()
        assert.is_true(tonumber(get("/tasks")) < 2000)
    end)

    it("a coroutine that never ends does not keep a request for the tasks that it began", function()
        assert.equal("from a task\n", get("/suspended"))
    end)

    it("a client that goes away ends its command", function()
        local client = begin("/abort?run=abort")
        scratch.shell("kill " .. client)
        wait_until(function()
            return scratch.read(folder .. "/aborted") == "aborted: the call was aborted: the client has gone"
        end, "the abort")
        assert.equal("", left())
    end)

    it("a thousand commands in one request leave no descriptor", function()
        get("/many?run=warm&count=8")
        local before = at_rest()
        assert.equal("125500\n", get("/many?run=many&count=1000"))
        wait_until(function()
            return at_rest() <= before
        end, "no more descriptors than before")
    end)

    it("five hundred requests at a time each have a workspace", function()
        requests("/content", 8, 8)
        local before = at_rest()
        assert.same({ ["200 from 42"] = 500 }, requests("/content", 500, 500))
        assert.equal("", left())
        wait_until(function()
            return at_rest() <= before
        end, "no more descriptors than before")
    end)

    it("a command that nobody waits for any more does not keep a worker", function()
        scratch.shell("kill " .. begin("/unaware?run=unaware"))
        end_workers()
        assert.equal("", left())
    end)

    it("a request under way ends in the old worker", function()
        local client = begin("/slow?run=slow", "answer")
        end_workers()
        wait_until(function()
            return not scratch.is_alive(client)
        end, "the answer")
        assert.equal("out out out\n", scratch.read(folder .. "/answer"))
        assert.equal("", left())
    end)

    it("a reload ends what the old workers held, and requests go on", function()
        local id = get("/hold?run=reload"):match("%S+")
        end_workers()
        wait_until(function()
            return is_gone(id)
        end, "the end of the workspace")
        assert.equal("", left())
        assert.equal(2, #workers())
    end)

    it("no process is left of a worker that is killed, and a collection removes the folder", function()
        local id = get("/hold?run=killed"):match("%S+")
        for _, pid in ipairs(workers()) do
            scratch.shell("kill -KILL " .. pid)
        end
        assert.equal("", hosts.processes_left(folder))
        assert.matches("^removed [1-9]", get("/collect")) -- new workers are killed in their first task, too
        assert.is_true(is_gone(id))
        wait_until(function()
            return #workers() == 2
        end, "new workers")
        assert.equal("from 42\n\n", get("/content"))
    end)

    it("nothing is left when nginx ends", function()
        get("/hold?run=quit")
        scratch.shell(("kill -QUIT %d"):format(master))
        wait_until(function()
            return not scratch.is_alive(master)
        end, "the end")
        assert.equal("", left())
    end)

    it("the log complains of nothing but the killed workers", function()
        local complaints = {}
        for _, line in ipairs(nginx.complaints(folder)) do
            if not line:find("exited on signal 9", 1, true) and not line:find("refused: ", 1, true) then
                table.insert(complaints, line)
            end
        end
        assert.same({}, complaints)
    end)
end)
