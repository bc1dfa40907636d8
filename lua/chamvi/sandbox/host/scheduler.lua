-- Tasks for hosts that have none of their own, and who runs them.
--
-- A driver is a queue of tasks that one loop runs. A host has one for the program; a coroutine inside a task
-- that is no task itself can only block, so a `run` or `all` there gets a driver of its own: while it lasts
-- the outer tasks stand still, and a join on one of them would never end. What it leaves goes to the outer one.
--
-- What a job starts has a driver that whoever runs the core runs too, as it does the job.

local arguments = require "chamvi.sandbox.host.arguments"
local callback = require "chamvi.sandbox.callback"
local compat = require "chamvi.sandbox.compat"
local jobs = require "chamvi.sandbox.task"
local loop = require "chamvi.sandbox.loop"
local loop_object = require "chamvi.sandbox.host.loop_object"
local scopes = require "chamvi.sandbox.host.scopes"

---@class chamvi.SchedulerMeans what a host gives
---@field turn fun(is_over: (fun(): boolean), at_once: boolean) runs the core until something has happened, maybe that
---   `is_over()`; `at_once`: without waiting. Here a call blocks
---@field wake? fun() called when tasks of the program can go on and nobody runs them: `turn` has to be called soon, by
---   the host's own loop. Default: whoever runs the core runs them
---@field begins_later? fun(): boolean whether a task that is spawned here must not begin at once

---@class chamvi.Scheduler
local Scheduler = {}
Scheduler.__index = Scheduler

-- What a task yields that waits. Whatever else a task yields only lets the others run.
local WAIT = {}

local tasks = {} -- the tasks that have not ended, by coroutine

-- `pumped`: whoever runs the core runs it.
local function new_driver(means, pumped)
    return {
        means = means,
        pumped = pumped,
        tasks = {},
        ready = {},
        first = 1,
        last = 0,
        current = nil,
        running = false,
        woken = false, -- a timer will run it
    }
end

local active -- the innermost driver that is running

local run_soon

local function wake(driver)
    if driver.pumped then
        run_soon(driver)
    else
        driver.means.wake()
    end
end

local function make_ready(task)
    -- One that was left by a raise may still be subscribed to what it waited for.
    if not task.ready and not task.done then
        local driver = task.driver
        task.ready = true
        driver.last = driver.last + 1
        driver.ready[driver.last] = task
        if not driver.running then
            wake(driver)
        end
    end
end

local function has_ready(driver)
    return driver.first <= driver.last
end

local function end_task(task, ok, ...)
    tasks[task.thread] = nil
    task.driver.tasks[task] = nil
    task.thread = nil
    scopes.finish(task, ok, ...)
end

local function resume(task)
    if task.done then -- its coroutine was closed
        return
    end
    local ok, yielded = compat.resume(task.thread)
    if task.done then
        return
    end
    if not ok then -- only for want of memory or stack: `scopes.call` catches all else
        end_task(task, false, yielded)
    elseif yielded ~= WAIT then
        make_ready(task)
    end
end

local function new_task(scope, driver, fn, packed)
    local task = scopes.enter(scope)
    task.driver = driver
    task.thread = compat.create(function()
        scopes.call(end_task, task, fn, packed)
    end)
    tasks[task.thread] = task
    driver.tasks[task] = true
    make_ready(task)
    return task
end

local function run_ready(driver)
    -- Up to those that are ready now, so that the core gets its turn.
    for _ = driver.first, driver.last do
        local task = driver.ready[driver.first]
        driver.ready[driver.first] = nil
        driver.first = driver.first + 1
        task.ready = false
        driver.current = task
        resume(task)
        driver.current = nil
    end
end

-- Runs `step(driver)` with the driver as the active one.
local function as_active(driver, step, ...)
    local outer = active
    active, driver.running = driver, true
    local ok, err = pcall(step, driver, ...)
    active, driver.running, driver.current = outer, false, nil
    if has_ready(driver) then
        wake(driver)
    end
    if not ok then
        error(err, 0)
    end
end

-- Has the driver run by whoever runs the core next.
function run_soon(driver)
    local core = not driver.woken and loop.core()
    if core then -- else nothing goes on, as in a forked child; whoever waits is told
        driver.woken = true
        loop.expect(core:timer(0), function()
            driver.woken = false
            if not driver.running then
                as_active(driver, run_ready)
            end
        end)
    end
end

-- Gives the tasks of a driver that nobody runs any more to another.
local function hand_over(driver, heir)
    for task in pairs(driver.tasks) do
        task.driver, heir.tasks[task] = heir, true
    end
    for index = driver.first, driver.last do
        local task = driver.ready[index]
        task.ready = false
        make_ready(task)
    end
end

local function run_until(driver, future)
    local function is_over()
        return future.done or has_ready(driver)
    end
    while not future.done do
        run_ready(driver)
        if not future.done then
            driver.means.turn(is_over, has_ready(driver))
        end
    end
end

-- Runs the driver until the future is done. What is left then, as when the wait was interrupted, goes to the heir.
local function drive(driver, heir, future)
    if jobs.in_job() then
        jobs.wait(future)
        return
    end
    local ok, err = pcall(as_active, driver, run_until, future)
    if driver ~= heir then
        hand_over(driver, heir)
    end
    if not ok then
        error(err, 0)
    end
end

-- Blocks until the future is done. What others begin meanwhile is not the running task's.
local function block(means, future)
    local driver, task = active, active and active.current
    if driver then
        driver.current = nil
    end
    local function is_over()
        return future.done
    end
    local ok, err = true, nil
    while ok and not future.done do
        ok, err = pcall(means.turn, is_over, false)
    end
    if driver then
        driver.current = task
    end
    if not ok then
        error(err, 0)
    end
end

-- Parks the running task until the future is done. `on` has the tasks that it waits for, if any, as values.
local function park(task, future, on)
    task.waits_for = on
    future:subscribe(function()
        make_ready(task)
    end)
    repeat
        compat.yield(WAIT)
    until future.done
    task.waits_for = nil
end

local function current()
    local thread = coroutine.running()
    return thread and tasks[thread]
end

-- The running task, if it can yield: below a C function such as table.sort, and while its coroutine is
-- being closed, it can't, and has to block like a coroutine that is no task.
local function yieldable()
    local task = current()
    return task and compat.is_yieldable() and task
end

function Scheduler:wait(future)
    local task = yieldable()
    if task then
        park(task, future)
    else
        block(self._means, future)
    end
end

function Scheduler:can_wait()
    return not current() or compat.is_yieldable()
end

-- Where a task goes that is spawned here: to the scope and driver of the task that is running, also when
-- one of its coroutines calls, or whose callback is.
local function place(self)
    if jobs.in_job() then -- which may be the work of several tasks
        return scopes.ambient, self._jobs
    end
    local task = callback.owner()
    if not task or task.done or not task.driver then
        task = active and active.current
    end
    if task then
        return task.scope, task.driver
    end
    return scopes.ambient, self._program
end

--- The task that is running, also when one of its coroutines calls.
---@return table|nil
function Scheduler:owner()
    return not jobs.in_job() and active and active.current or nil
end

-- For a wait of what can't yield: a driver of its own, inside another.
local function nested_driver(self)
    if jobs.in_job() then
        return self._jobs
    end
    return active and new_driver(self._means) or self._program
end

-- For `join`.
local function await(task)
    local caller = current()
    if caller and scopes.depends_on(task, caller) then
        error("task:join: deadlock: the task waits for the one that would join it", 3)
    end
    caller = yieldable()
    if caller and caller.driver == task.driver then
        park(caller, task.ended, { task })
    elseif task.driver.pumped and (caller or jobs.in_job() or not task.driver.running) then
        jobs.wait(task.ended)
    elseif task.driver.running then
        error("task:join: deadlock: the task stands still while a coroutine that is no task waits", 3)
    else
        as_active(task.driver, run_until, task.ended)
    end
end

local function spawn(self, fn, ...)
    local packed, handle = compat.pack(...), nil
    local function begin(step)
        local scope, driver = place(self)
        handle = scopes.handle(new_task(scope, driver, fn, packed), await)
        if step then
            step(driver)
        end
    end
    local begins_later = self._means.begins_later
    if active or callback.current() or jobs.in_job() or begins_later and begins_later() then
        begin()
    else
        as_active(self._program, function()
            begin(run_ready)
        end)
    end
    return handle
end

--- Starts a task. In a task it begins when the others had their turn; elsewhere it runs at once up to its
--- first wait, and goes on while `run`, `all`, `join` or `loop():step()` run.
---@param fn function
---@param ... any its arguments
---@return chamvi.Task
function Scheduler:spawn(fn, ...)
    arguments.check_function(fn, 1, "spawn")
    return spawn(self, fn, ...)
end

--- Runs `fn(...)` as a task, with every task that it spawns, to the end.
--- A task that failed and that nobody joined is reported on stderr, one line each.
---@param fn function
---@param ... any its arguments
---@return any ... the results of fn; what fn raised is raised again, a string with its traceback
function Scheduler:run(fn, ...)
    arguments.check_function(fn, 1, "run")
    jobs.check_may_wait("run")
    local scope, caller = scopes.new(), yieldable()
    local _, outer = place(self)
    local driver = caller and outer or nested_driver(self)
    local main = new_task(scope, driver, fn, compat.pack(...))
    main.joined = true
    if caller then
        park(caller, scope.empty, scope.live)
    else
        local ok, err = pcall(drive, driver, outer, scope.empty)
        if not ok then
            scopes.disown(main)
            scopes.abandon(scope)
            error(err, 0)
        end
    end
    scopes.report(scope)
    return scopes.results(main)
end

--- Runs functions as tasks and waits for all of them.
---@param functions function[]
---@return table[] # for each function, in its place, a list with `n`: what it returned, or nil and what it raised
function Scheduler:all(functions)
    arguments.check_functions(functions)
    jobs.check_may_wait("all")

    local caller = yieldable()
    local scope, outer = place(self)
    local driver = caller and outer or nested_driver(self)
    local started = {}
    for index = 1, #functions do
        local task = new_task(scope, driver, functions[index], compat.pack())
        task.joined = true
        started[index] = task
    end
    local all_ended = scopes.end_of(started)
    if caller and not all_ended.done then
        park(caller, all_ended, started)
    elseif not all_ended.done then
        local ok, err = pcall(drive, driver, outer, all_ended)
        if not ok then
            for _, task in ipairs(started) do
                scopes.disown(task)
            end
            error(err, 0)
        end
    end
    return scopes.outcomes(started)
end

--- Waits.
---@param ms integer milliseconds, 0 or more
---@return true|nil
---@return chamvi.Error? err
function Scheduler:sleep(ms)
    arguments.check_time(ms)
    jobs.check_may_wait("sleep")
    return jobs.pause(ms)
end

--- Runs `fn()` as a task and calls `done` with its results, or with nil and what it raised. For programs
--- that work with callbacks; returns at once.
---@param fn function
---@param done function what it raises itself is reported on stderr
function Scheduler:async(fn, done)
    arguments.check_function(fn, 1, "async")
    arguments.check_function(done, 2, "async")
    spawn(self, arguments.with_callback(fn, done))
end

--- The library's loop as an object that another loop can serve: the protocol of cqueues, with `step`.
---@return chamvi.Loop
function Scheduler:loop()
    return self._loop
end

-- Runs the core and then, unless they are being run, the tasks of the program that can go on.
local function turn(self, pump)
    if active then
        pump()
    else
        as_active(self._program, function(program)
            pump()
            run_ready(program)
        end)
    end
end

local FUNCTIONS = { "wait", "can_wait", "owner", "run", "spawn", "all", "sleep", "async", "loop" }

local scheduler = {}

--- Whether tasks of some scheduler are being run, so that what is spawned now is theirs.
---@return boolean
function scheduler.is_running()
    return active ~= nil
end

--- Whether the caller is a task of some scheduler.
---@return boolean
function scheduler.in_task()
    return current() ~= nil
end

--- A host adapter, which the host may add to.
---@param means chamvi.SchedulerMeans
---@return chamvi.HostAdapter
---@return fun(pump: fun()) turn for the host's loop: runs the core by `pump()`, which must not wait, and then, unless
---   they are being run, the tasks of the program that can go on
function scheduler.new(means)
    local program = new_driver(means, not means.wake)
    local self = setmetatable({
        _means = means,
        _program = program,
        _jobs = new_driver(means, true),
        _loop = loop_object.new({
            has_ready = function()
                return has_ready(program)
            end,
            is_running = scheduler.is_running,
            turn = function(timeout_ms)
                as_active(program, function()
                    loop.pump(has_ready(program) and 0 or timeout_ms)
                    run_ready(program)
                end)
            end,
        }),
    }, Scheduler)
    local adapter = {}
    for _, name in ipairs(FUNCTIONS) do
        local method = Scheduler[name]
        adapter[name] = function(...)
            return method(self, ...)
        end
    end
    return adapter, function(pump)
        turn(self, pump)
    end
end

return scheduler
