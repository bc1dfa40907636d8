-- What the nginx of spec/hosts/nginx_spec.lua runs: a manager in each worker, and a function for each location.

local local_sandbox = require "chamvi.sandbox.local"
local ngx = require "ngx"
local sandbox = require "chamvi.sandbox"
local semaphore = require "ngx.semaphore"

local app = {}

local folder = ngx.config.prefix()

local manager = sandbox.create_workspace_manager({
    provider = local_sandbox.create_local_sandbox({ root = folder .. "workspaces" }),
    max_workspaces_per_run = 4,
})

local function write(name, text)
    local file = assert(io.open(folder .. name, "w"))
    file:write(text)
    file:close()
end

local function acquire(run_id)
    return assert(manager:acquire(run_id))
end

-- A run with one command, whose output it gives.
local function one_command(script)
    return manager:with_run(sandbox.uuid(), function(run)
        local workspace = assert(run:acquire())
        return assert(workspace:exec({ "sh", "-c", script })).stdout
    end)
end

local function answer(text)
    ngx.header["X-Worker"] = ngx.worker.pid()
    ngx.status = 200
    ngx.say(text)
    ngx.exit(200)
end

--- In any phase that may wait.
function app.answer()
    answer(one_command("echo from $((20 + 22))"))
end

function app.in_timer()
    local over, printed = semaphore.new(), nil
    assert(ngx.timer.at(0, function()
        local ok, result = pcall(one_command, "echo from a timer")
        printed = tostring(result)
        over:post()
        assert(ok, result)
    end))
    assert(over:wait(60))
    answer(printed)
end

--- What the error is where nothing may wait.
---@return string
function app.refused()
    local ok, err = pcall(one_command, "echo no")
    return ok and "not refused" or tostring(err)
end

--- Where nothing may wait, a task can be spawned; it writes a file.
function app.spawned(name)
    sandbox.spawn(function()
        local ok, printed = pcall(one_command, "echo spawned")
        write(name, ok and printed or tostring(printed))
    end)
end

--- Leaves a process running in a workspace that is kept.
function app.hold()
    local workspace = acquire(ngx.var.arg_run)
    assert(workspace:exec({ "sh", "-c", "sleep 600 >/dev/null 2>&1 &" }))
    answer(workspace.id)
end

function app.acquire()
    answer(acquire(ngx.var.arg_run).id)
end

--- For the log phase.
function app.completed()
    manager:hooks().completed(ngx.var.arg_run)
end

function app.until_aborted()
    local signal = sandbox.signal()
    assert(ngx.on_abort(function()
        signal:abort("the client has gone")
    end))
    local workspace = acquire(ngx.var.arg_run)
    local _, err = workspace:exec({ "sh", "-c", "touch begun; exec sleep 600" }, { signal = signal })
    manager:release(ngx.var.arg_run)
    write("aborted", ("%s: %s"):format(err.code, err.message))
    ngx.exit(499)
end

--- nginx ends the request when its client goes, since nothing here would be told.
function app.until_gone()
    acquire(ngx.var.arg_run):exec({ "sh", "-c", "touch begun; exec sleep 600" })
end

--- As many commands as the argument says, one after the other, and four at a time.
function app.many()
    local count = tonumber(ngx.var.arg_count)
    local workspace = acquire(ngx.var.arg_run)
    local sum = 0
    local function some()
        for index = 1, count / 4 do
            local printed = assert(workspace:exec({ "echo", tostring(index) })).stdout
            sum = sum + tonumber(printed)
        end
    end
    for _, results in ipairs(sandbox.all({ some, some, some, some })) do
        assert(results.n == 0, results[2])
    end
    assert(manager:release(ngx.var.arg_run))
    answer(tostring(sum))
end

--- One command after the other, the first a second long.
function app.slow()
    local workspace = acquire(ngx.var.arg_run)
    local printed = {}
    for index = 1, 3 do
        local script = index == 1 and "touch begun; sleep 1; echo out" or "echo out"
        printed[index] = assert(workspace:exec({ "sh", "-c", script })).stdout:match("%S+")
    end
    assert(manager:release(ngx.var.arg_run))
    answer(table.concat(printed, " "))
end

-- Runs a command as often at a time, and for as many seconds, as the arguments say. Gives how much they printed.
local function commands(argv)
    local workspace = acquire(ngx.var.arg_run)
    local functions, bytes = {}, 0
    for index = 1, tonumber(ngx.var.arg_commands) do
        functions[index] = function()
            local result = assert(workspace:exec(argv, { timeout_ms = ngx.var.arg_seconds * 1000 }))
            bytes = bytes + result.stdout_bytes
        end
    end
    for _, results in ipairs(sandbox.all(functions)) do
        assert(results.n == 0, results[2])
    end
    assert(manager:release(ngx.var.arg_run))
    return bytes
end

--- Commands that print at full speed for a time, and how much that was.
function app.loud()
    answer(("%.0f MB"):format(commands({ "yes", "a line of some length" }) / 1e6))
end

--- Commands that only wait.
function app.quiet()
    answer(tostring(commands({ "sleep", "600" })))
end

--- How many KiB of Lua's memory are in use after ten thousand tasks, one after the other, beyond those before.
function app.tasks()
    local function work()
        return true
    end
    assert(sandbox.spawn(work):join())
    collectgarbage()
    local before = collectgarbage("count")
    for _ = 1, 10000 do
        assert(sandbox.spawn(work):join())
    end
    collectgarbage()
    answer(("%d"):format(collectgarbage("count") - before))
end

--- A coroutine has spawned a task that has ended, and is never resumed again.
function app.suspended()
    local generator = coroutine.wrap(function()
        coroutine.yield(sandbox.spawn(function()
            return "from a task"
        end):join())
    end)
    ngx.say(generator())
end

--- Removes what has expired in an hour.
function app.collect()
    local provider = local_sandbox.create_local_sandbox({
        root = folder .. "workspaces",
        clock = {
            now = function()
                return ngx.now() * 1000 + 3600000
            end,
        },
    })
    answer("removed " .. assert(provider:collect_garbage()))
end

function app.environment()
    answer(("%s %s %s"):format(tostring(os.getenv("PATH")), tostring(os.getenv("HOME")),
        one_command("echo $PATH ${HOME##*/workspaces/*} $(git --version | cut -c1-3)")))
end

return app
