-- What the nginx of spec/hosts/nginx_faults_spec.lua runs: what goes wrong in the requests and timers of a program.

local local_sandbox = require "chamvi.sandbox.local"
local ngx = require "ngx"
local sandbox = require "chamvi.sandbox"

local app = {}

local folder = ngx.config.prefix()
local provider = local_sandbox.create_local_sandbox({ root = folder .. "workspaces" })
local manager = sandbox.create_workspace_manager({ provider = provider })

local function write(name, text)
    local file = assert(io.open(folder .. name, "w"))
    file:write(text)
    file:close()
end

local function said(...)
    local value, err = ...
    return value == nil and tostring(err) or tostring(value)
end

local function exec(script, options)
    local workspace = assert(manager:acquire("shared"))
    local result, err = workspace:exec({ "sh", "-c", script }, options)
    return result and result.stdout:gsub("\n$", "") or said(nil, err)
end

--- A command in the workspace that all requests have.
function app.command()
    ngx.say((exec(ngx.unescape_uri(ngx.var.arg_script))))
end

local calls = 0

local function count()
    calls = calls + 1
end

--- A command whose output is counted, and which goes on when the request ends.
function app.counted()
    sandbox.spawn(function()
        exec("for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done", { on_output = count })
    end)
    repeat
        ngx.sleep(0.02)
    until calls >= 2
    ngx.exit(200)
end

function app.count()
    ngx.say(calls)
end

function app.exit_in_callback()
    ngx.say((exec("echo out; sleep 0.2", {
        on_output = function()
            ngx.exit(200)
        end,
    })))
end

--- As many timers as may run at a time run for some seconds.
function app.fill()
    local seconds = tonumber(ngx.var.arg_seconds)
    for _ = 1, 4 do
        assert(ngx.timer.at(0, function()
            ngx.sleep(seconds)
        end))
    end
    ngx.sleep(0.05)
    ngx.say("filled")
end

local waiting_clients = 0

--- Waits until there is a file `go`; another one says how many do.
function app.wait()
    waiting_clients = waiting_clients + 1
    write("waiting", tostring(waiting_clients))
    local go
    repeat
        ngx.sleep(0.05)
        go = io.open(folder .. "go")
    until go
    go:close()
    ngx.say("waited")
end

--- For the log phase.
function app.spawn()
    sandbox.spawn(function()
        write("spawned", exec("echo spawned"))
    end)
end

local function from_task(where)
    return sandbox.spawn(function()
        assert(sandbox.sleep(20))
        return "spawned in " .. where
    end)
end

function app.spawn_in_output()
    local task
    exec("echo out", {
        on_output = function()
            task = from_task("on_output")
        end,
    })
    ngx.say(task:join())
end

function app.spawn_in_listener()
    local signal, task = sandbox.signal(), nil
    signal:on_abort(function()
        task = from_task("a listener")
    end)
    sandbox.spawn(function()
        assert(sandbox.sleep(50))
        signal:abort("enough")
    end)
    local printed = exec("sleep 600", { signal = signal })
    ngx.say(printed, ", ", task:join())
end

--- The create of a provider of the program's own has tasks.
function app.tasks_in_create()
    local printed
    local of_tasks = sandbox.create_workspace_manager({
        gc_interval_ms = 0,
        provider = {
            name = "tasks",
            create = function(_, request)
                local results = sandbox.all({
                    function()
                        return from_task("create"):join()
                    end,
                })
                printed = results[1][1]
                return provider:create(request)
            end,
            collect_garbage = function()
                return 0
            end,
        },
    })
    assert(of_tasks:acquire("run"))
    assert(of_tasks:close())
    ngx.say(printed)
end

local lost

--- The request ends while a task of it waits.
function app.lose_task()
    lost = sandbox.spawn(function()
        sandbox.sleep(60000)
    end)
    ngx.exit(200)
end

function app.join_lost()
    ngx.say(said(lost:join()))
end

--- The request ends while it is in with_run.
function app.lose_run()
    ngx.thread.spawn(function()
        ngx.sleep(0.2)
        ngx.exit(200)
    end)
    manager:with_run("lost", function(run)
        assert(run:acquire()):exec({ "sleep", "60" })
    end)
end

function app.has_run()
    local workspace, err = manager:get("lost")
    ngx.say(workspace and "there" or err.code)
end

--- A program may have a table of its own as ngx.ctx.
function app.replace_context()
    local ended = 0
    local printed = sandbox.run(function()
        ngx.ctx = {}
        for _ = 1, 3 do
            sandbox.spawn(function()
                assert(sandbox.sleep(50))
                ended = ended + 1
            end)
        end
        return "ran"
    end)
    ngx.say(printed, " ", ended)
end

--- For exit_worker_by_lua, where nothing can be begun.
function app.exit()
    local _, waiting = pcall(manager.acquire, manager, "exit")
    local _, spawning = pcall(sandbox.spawn, function() end)
    write("exited", said(nil, waiting) .. "\n" .. said(nil, spawning) .. "\n")
end

return app
