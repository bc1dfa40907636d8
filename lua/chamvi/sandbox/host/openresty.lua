-- OpenResty, or nginx with lua-nginx-module: the light threads of a worker are the tasks.
--
-- nginx watches no foreign descriptor, so in each worker in which operations are under way one timer, the driver,
-- reads from the core's bell (bell/bell.h) by a cosocket and runs the core whenever it rings. Tasks wait on
-- semaphores, which work across requests.

local callback = require "chamvi.sandbox.callback"
local jobs = require "chamvi.sandbox.task"
local loop = require "chamvi.sandbox.loop"
local compat = require "chamvi.sandbox.compat"
local native_tasks = require "chamvi.sandbox.host.native_tasks"
local ngx = require "ngx"
local scheduler = require "chamvi.sandbox.host.scheduler"
local semaphore = require "ngx.semaphore"

local host = {}

-- The driver looks so often whether it is needed, and goes when it was not for that long: the next operation of a
-- request finds it there.
local LOOK_MS = 250
local TRY_AGAIN_S = 0.01 -- after the bell failed; the core is run so often then
local WAIT_S = 10 -- at most, before a task looks whether there is a driver
local NO_TIMEOUT_MS = 2 ^ 31 - 1

-- Where nginx lets Lua wait: "context" of ngx.sleep in the manual of lua-nginx-module.
local MAY_WAIT = {
    access = true,
    content = true,
    rewrite = true,
    server_rewrite = true,
    ssl_cert = true,
    ssl_client_hello = true,
    ssl_session_fetch = true,
    timer = true,
}

local driving = false -- there is a driver, or one will begin
local began = false -- an operation has begun since the driver looked
local waiting = setmetatable({}, { __mode = "k" }) -- one key for each task that waits; only its stack refers to it

function host.running()
    return true
end

-- nginx uses coroutines again after their end, also when it has ended them itself: the keys tell one use from another.
local keys = setmetatable({}, { __mode = "k" })

local function key_of(thread)
    local key = keys[thread]
    if not key or key.request ~= ngx.ctx then
        key = setmetatable({ request = ngx.ctx }, { __mode = "v" })
        keys[thread] = key
    end
    return key
end

-- What hinders the caller from waiting, or nil.
local function hindrance()
    if scheduler.in_task() and compat.is_yieldable() then
        return nil
    end
    local phase = ngx.get_phase()
    if not MAY_WAIT[phase] then
        return ("nginx's phase %s"):format(phase)
    elseif not compat.is_yieldable() then
        return "what a C function has called"
    elseif jobs.in_job() or callback.current() or coroutine.status(coroutine.running()) ~= "running" then
        -- nginx knows only its own, and may take one of ours for one of its own that has ended.
        return "a coroutine that is not nginx's"
    end
end

function host.current()
    return not scheduler.in_task() and not hindrance() and key_of(coroutine.running()) or nil
end

function host.start(body)
    if host.current() then
        -- nginx keeps a thread that has ended until its parent waits for it or ends. One whose parent has ended already
        -- is let go at once.
        ngx.thread.wait(ngx.thread.spawn(function()
            ngx.thread.spawn(body)
        end))
        return
    end
    local started, err = ngx.timer.at(0, body)
    if not started then
        error("chamvi.sandbox: no task can be started: ngx.timer.at: " .. err, 0)
    end
end

local function log(line)
    ngx.log(ngx.ERR, line)
end

local function temporary_folder()
    local folder = os.getenv("TMPDIR") -- nginx clears it, but for `env TMPDIR;`
    return folder and folder:sub(1, 1) == "/" and folder or "/tmp"
end

local last_failure

-- Once, since what fails now is tried again and again.
local function failed(what, err)
    local line = ("chamvi.sandbox: %s: %s; trying again"):format(what, err)
    if line ~= last_failure then
        last_failure = line
        log(line)
    end
end

-- A connection to the core's bell, or nil.
local function connect(core)
    local path, _, message = core:bell(temporary_folder())
    if not path then
        return failed("the host can't be woken", message)
    end
    local line = ngx.socket.tcp()
    line:settimeouts(NO_TIMEOUT_MS, NO_TIMEOUT_MS, NO_TIMEOUT_MS)
    local connected, err = line:connect("unix:" .. path)
    if not connected then
        return failed("nginx can't connect to the core", err)
    end
    local answered
    answered, _, message = core:bell_answer()
    if not answered then
        line:close()
        return failed("the core does not answer", message)
    end
    return line
end

-- Whether the driver may go. A worker that shuts down need not stay for what nobody waits for: its end ends that too.
local function is_needed()
    if not loop.idle() then
        if not ngx.worker.exiting() then
            return true
        end
        collectgarbage() -- tasks of requests that are over
        return next(waiting) ~= nil
    end
    return began and not ngx.worker.exiting()
end

-- Runs the core until the driver may go, or the core can't be used.
local function drive(core)
    local look, line = false, nil
    local function look_later()
        loop.expect_aside(core:timer(LOOK_MS), function()
            look = true
        end)
    end

    look_later()
    local usable, over
    repeat
        line = line or connect(core)
        if not line or not line:receive(1) then
            line = nil
            ngx.sleep(TRY_AGAIN_S)
        end
        usable = native_tasks.pump()
        if line and not line:send(".") then
            line = nil
        end
        if look then
            look, over = false, not is_needed()
            began = false
            if not over then
                look_later()
            end
        end
    until over or not usable
    if line then
        line:close()
    end
    core:bell_close()
end

function host.serve()
    began = true
    if driving then
        return
    end
    local core = loop.core()
    if not core then -- as in a forked child; the operation that began will say so
        return
    end
    local started, err = ngx.timer.at(0, function()
        local ok, raised = pcall(drive, core)
        driving = false
        if not ok then
            failed("the driver has failed", tostring(raised))
        end
    end)
    driving = started ~= nil and started ~= false
    if not driving then
        failed("no driver can be started: ngx.timer.at", err)
    end
end

function host.park(turn)
    local woken, here = semaphore.new(), {}
    turn:subscribe(function()
        woken:post()
    end)
    waiting[here] = true
    repeat
        local posted, err = woken:wait(WAIT_S)
        if not posted and err ~= "timeout" then
            error("chamvi.sandbox: ngx.semaphore: " .. err, 0)
        elseif not turn.done then
            host.serve()
        end
    until turn.done
    waiting[here] = nil
end

local openresty = native_tasks.adapter(host)

openresty.forbids_waiting = hindrance
openresty.log = log

function openresty.can_wait()
    return not hindrance()
end

local wait = openresty.wait

function openresty.wait(future)
    local inside = hindrance()
    if inside then
        error(("chamvi.sandbox: %s must not wait: use sandbox.spawn there"):format(inside), 0)
    end
    wait(future)
end

return openresty
