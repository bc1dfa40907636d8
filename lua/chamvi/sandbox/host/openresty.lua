-- OpenResty, or nginx with lua-nginx-module: the light threads of a worker are the tasks.
--
-- nginx watches no foreign descriptor, so in each worker in which operations are under way one timer, the driver,
-- reads from the core's bell (bell/bell.h) by a cosocket and runs the core whenever it rings. Tasks wait on
-- semaphores, which work across requests.

local base = require "resty.core.base"
local callback = require "chamvi.sandbox.callback"
local compat = require "chamvi.sandbox.compat"
local jobs = require "chamvi.sandbox.task"
local loop = require "chamvi.sandbox.loop"
local native_tasks = require "chamvi.sandbox.host.native_tasks"
local ngx = require "ngx"
local scheduler = require "chamvi.sandbox.host.scheduler"
local semaphore = require "ngx.semaphore"

local host = {}

-- The driver looks so often whether it is needed, and goes when it was not for that long: the next operation of a
-- request finds it there.
local LOOK_MS = 250
local TRY_AGAIN_S = 0.01 -- after the bell failed; the core is run so often then
local WAIT_S = 1 -- at most, before a task looks whether there is a driver
local BEGIN_S = 0.25 -- a timer has begun by then, or tasks help themselves
local LOST_S = 1 -- a timer that has not begun by then was dropped: nginx does that beyond its limits, without a word
local NO_TIMEOUT_MS = 2 ^ 31 - 1
local PULSE_S = 10 ^ 6

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

-- Phases of no request, in which there are no timers either.
local NO_TIMERS = { init = true, exit_worker = true }

local driver -- the newest: `at`, when its timer was made, and `pulse`, once it has begun
local began = false -- an operation has begun since the driver looked
local bodies = {} -- of the tasks whose timers have not begun, as keys; when the newest timer was made
local parked = 0 -- how many tasks are, or were when they were counted

function host.running()
    return true
end

-- nginx uses coroutines again after their end, also when it has ended them itself, and the memory of requests too: the
-- keys tell one use from another. `wait` is there while the task is parked.
local keys = setmetatable({}, { __mode = "k" })

local function key_of(thread)
    local key, request, since = keys[thread], base.get_request(), ngx.req.start_time()
    if not key or key.request ~= request or key.since ~= since or key.wait and key.wait.asleep then
        key = { request = request, since = since }
        keys[thread] = key
    end
    return key
end

-- What hinders the caller from waiting, or nil.
function host.forbids_waiting()
    if scheduler.in_task() and compat.is_yieldable() then
        return nil
    end
    local phase = ngx.get_phase()
    if not MAY_WAIT[phase] then
        return ("nginx's phase %s"):format(phase), NO_TIMERS[phase]
    elseif not compat.is_yieldable() then
        return "what a C function has called"
    elseif jobs.in_job() or callback.current() or coroutine.status(coroutine.running()) ~= "running" then
        -- nginx knows only its own, and may take one of ours for one of its own that has ended.
        return "a coroutine that is not nginx's"
    end
end

function host.current()
    return not scheduler.in_task() and not host.forbids_waiting() and key_of(coroutine.running()) or nil
end

-- Has `fn()` called by a timer. Outside of requests ngx.timer.at raises.
local function by_timer(fn)
    local called, made, err = pcall(ngx.timer.at, 0, fn)
    if not called then
        return nil, made
    end
    return made, err
end

local watch

-- nginx may drop the timer of a task without a word: then it gets another one, until it has begun.
local function begin(body)
    bodies[body] = ngx.now()
    return by_timer(function()
        if bodies[body] then
            bodies[body] = nil
            body()
        end
    end)
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
    local made, err = begin(body)
    if not made then
        bodies[body] = nil
        error("chamvi.sandbox: no task can be started: ngx.timer.at: " .. err, 0)
    end
    watch()
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
    if not line:connect("unix:" .. path) then
        -- What nginx gives as the error is that of an earlier call, when it had no connection left.
        return failed("nginx can't connect to the core", "its own lines tell why; worker_connections may be used up")
    end
    local answered
    answered, _, message = core:bell_answer()
    if not answered then
        line:close()
        return failed("the core does not answer", message)
    end
    return line
end

local sweep

-- What nginx has ended or dropped meanwhile.
local function look_around()
    parked = sweep()
    local now = ngx.now()
    for body, at in pairs(bodies) do
        if now - at >= LOST_S then
            begin(body) -- if that fails: the next time
        end
    end
end

-- Whether the driver may go. A worker that shuts down need not stay for what nobody waits for: its end ends that too.
local function is_needed()
    if not loop.idle() then
        if not ngx.worker.exiting() then
            return true
        end
        return parked > 0
    end
    return began and not ngx.worker.exiting()
end

local function look_later(driven)
    loop.expect_aside(driven.core:timer(LOOK_MS), function()
        driven.look = true
    end)
end

-- Runs the core until the driver may go, the core can't be used, or there is another driver.
local function drive(driven)
    local core, line = driven.core, nil
    look_later(driven)
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
        if driven.look then
            look_around()
            driven.look, over = false, not is_needed()
            began = false
            if not over then
                look_later(driven)
            end
        end
    until over or not usable or driver ~= driven
    if line then
        line:close()
    end
    if driver == driven then
        core:bell_close()
    end
end

-- A light thread beside the driver: when nginx has ended both, as for an `ngx.exit` in a callback, it waits no longer.
local function beat(pulse)
    repeat
        local over = pulse:wait(PULSE_S)
    until over
end

-- Whether there is a driver, or its timer was made so lately.
local function is_driven(limit_s)
    if driver and driver.pulse then
        return driver.pulse:count() < 0
    end
    return driver ~= nil and ngx.now() - driver.at < limit_s
end

local function start_driver(core)
    local driven = { core = core, at = ngx.now() }
    driver = driven
    local made, err = by_timer(function()
        if driver ~= driven then
            return -- it began too late
        end
        driven.pulse = semaphore.new()
        ngx.thread.spawn(beat, driven.pulse)
        local ok, raised = pcall(drive, driven)
        if driver == driven then
            driver = nil
        end
        driven.pulse:post()
        if not ok then
            failed("the driver has failed", tostring(raised))
        end
    end)
    if not made then
        driver = nil
        failed("no driver can be started: ngx.timer.at", err)
    end
end

-- Begun once in a worker, by the first operation or task: of this kind of timers nginx drops only one at a time.
local watching

function watch()
    if watching then
        return
    end
    local called, made = pcall(ngx.timer.every, LOST_S, function(premature)
        if premature then
            return
        end
        look_around()
        if not loop.idle() then
            host.serve()
        end
    end)
    watching = called and made
end

function host.serve()
    began = true
    watch()
    if is_driven(LOST_S) then
        return
    end
    local core = loop.core()
    if core then -- not in a forked child; the operation that began will say so
        start_driver(core)
    end
end

function host.is_gone(turn)
    local wait = turn.wait
    return wait ~= nil and wait.asleep and wait.woken:count() ~= (turn.done and 0 or -1)
end

-- Apart from the wait: see native_tasks.lua.
local function wait_for(turn)
    local wait = { woken = semaphore.new(), asleep = false }
    turn.wait = wait
    turn:subscribe(function()
        wait.woken:post()
    end)
    return wait
end

local helped = 0 -- when a task has run the core, for want of a driver

-- How long a task may wait before it looks again. Without a driver the tasks run the core, together as often as a
-- driver without a bell does.
local function patience()
    if not is_driven(BEGIN_S) then
        return math.min(TRY_AGAIN_S * math.max(parked, 1), WAIT_S)
    end
    return driver.pulse and WAIT_S or BEGIN_S
end

local function help()
    if is_driven(BEGIN_S) then
        return
    end
    if ngx.now() - helped >= TRY_AGAIN_S then
        helped = ngx.now()
        native_tasks.pump()
        look_around()
    end
    host.serve()
end

function host.park(turn)
    local wait, key = wait_for(turn), keys[coroutine.running()]
    key.wait, parked = wait, parked + 1
    repeat
        wait.asleep = true
        local posted, err = wait.woken:wait(patience())
        wait.asleep = false
        if not posted and err ~= "timeout" then
            error("chamvi.sandbox: ngx.semaphore: " .. err, 0)
        elseif not turn.done then
            help()
        end
    until turn.done
    key.wait, parked = nil, math.max(parked - 1, 0)
end

local adapter
adapter, sweep = native_tasks.adapter(host)

adapter.log = log

function adapter.can_wait()
    return not host.forbids_waiting()
end

local wait = adapter.wait

function adapter.wait(future)
    local inside = host.forbids_waiting()
    if inside then
        error(("chamvi.sandbox: %s must not wait: use sandbox.spawn there"):format(inside), 0)
    end
    wait(future)
end

return adapter
