-- Tasks in a host that has coroutine tasks of its own, such as light threads: the host starts, parks and resumes them;
-- here is what an adapter gives on top of that. What is called outside the host's tasks goes the way of plain Lua
-- (script.lua): it runs the core until the answer is there.

local arguments = require "chamvi.sandbox.host.arguments"
local callback = require "chamvi.sandbox.callback"
local compat = require "chamvi.sandbox.compat"
local jobs = require "chamvi.sandbox.task"
local loop = require "chamvi.sandbox.loop"
local scheduler = require "chamvi.sandbox.host.scheduler"
local scopes = require "chamvi.sandbox.host.scopes"
local script = require "chamvi.sandbox.host.script"

local native_tasks = {}

-- The tasks of what is no task of the host; whoever runs the core runs them.
local plain = scheduler.new({
    turn = function(_, at_once)
        loop.pump(at_once and 0 or nil)
    end,
})

--- What a host with tasks of its own gives.
---@class chamvi.NativeHost
---@field running fun(): boolean whether the caller is in that host; elsewhere what it spawns is a task of plain Lua
---@field current fun(): any the host's task that is running, as the same key each time; nil where none is, and where
---   it can't yield
---@field start fun(body: fun()) starts a task of the host that runs `body`, which never raises. Better when the
---   others had their turn than at once; never before it returns while `current` of chamvi.sandbox.callback tells of a
---   callback, in which nothing may wait. Raises where no task can be started
---@field park fun(turn: chamvi.Future) called in a task when `turn.done` is false: yields until it is true; `wake` of
---   `turn:subscribe(wake)` may be called from anywhere
---@field serve fun() see chamvi.HostAdapter; the host's loop calls `native_tasks.pump`
---@field forbids_waiting? fun(): string|nil, boolean? see chamvi.HostAdapter
---@field is_gone? fun(turn: chamvi.Future): boolean where the host may end a task that is parked: whether it has; asked
---   until it says so, or the task goes on
---@field drive? fun(future: chamvi.Future): boolean called outside the tasks: runs the host's loop until the future is
---   done; false at once where that can't be, as inside that loop

local turns = setmetatable({}, { __mode = "k" }) -- what the parked tasks of all hosts wait for

local ENDED = "the host has ended the task"

--- Runs the core, for the host's loop. When the core can't be used any more, as in a forked child, that is raised in
--- every task that waits.
---@return boolean ok false: there is no use in going on
function native_tasks.pump()
    local ok, err = pcall(loop.pump, 0)
    if not ok then
        local parked = {}
        for turn in pairs(turns) do
            table.insert(parked, turn)
        end
        for _, turn in ipairs(parked) do
            turn.failure = { err }
            turn:set()
        end
    end
    return ok
end

-- Apart from the wait: the closures outlive a task that is ended meanwhile, whose stack the host may use again.
local function turn_for(future, is_gone)
    local turn = jobs.future()
    future:subscribe(function()
        turn:set()
    end)
    if is_gone then
        future:abandon_when(function()
            return is_gone(turn)
        end)
    end
    return turn
end

--- Makes the functions of an adapter, all but its own.
---@param host chamvi.NativeHost
---@return chamvi.HostAdapter
---@return (fun(): integer)? sweep for a host with `is_gone`, to be called now and then: who joins a task that the host
---   has ended gets an error, and guards are told; it returns how many tasks are parked
function native_tasks.adapter(host)
    local adapter = {
        running = host.running,
        serve = host.serve,
        forbids_waiting = host.forbids_waiting,
        loop = script.loop,
        sleep = plain.sleep,
    }

    -- The tasks that were started here, by the host's key; one inside `run` is that run's.
    local tasks = setmetatable({}, { __mode = "k" })

    local started = setmetatable({}, { __mode = "k" }) -- by task: its key, in a table that does not keep it
    local parked = {} -- the keys of the tasks that wait here, by turn
    local guards = {} -- of adapter.guard, as keys: the key of the task, as in `started`

    local function weakly(key)
        return setmetatable({ key = key }, { __mode = "v" })
    end

    -- Parks the running task until the future is done. `on` has the tasks that it waits for, if any, as values.
    local function park(key, future, on)
        local task, turn = tasks[key], turn_for(future, host.is_gone)
        turns[turn], parked[turn] = true, key
        if not loop.idle() then
            host.serve() -- an operation may have begun where another loop served it
        end
        if task then
            task.waits_for = on
        end
        local ok, err = pcall(host.park, turn)
        if task then
            task.waits_for = nil
        end
        turns[turn], parked[turn] = nil, nil
        if not ok then
            error(err, 0)
        elseif not future.done then
            error(turn.failure[1], 0)
        end
    end

    function adapter.wait(future)
        local key = host.current()
        if key then
            park(key, future)
        else
            plain.wait(future)
        end
    end

    function adapter.can_wait()
        return host.current() ~= nil or plain.can_wait()
    end

    local function start(scope, fn, ...)
        local task, packed = scopes.enter(scope), compat.pack(...)
        local ok, err = pcall(host.start, function()
            local key = host.current()
            tasks[key], started[task] = task, weakly(key)
            scopes.call(function(_, ...)
                tasks[key] = nil
                scopes.finish(task, ...)
            end, task, fn, packed)
        end)
        if not ok then
            task.joined = true
            scopes.finish(task, false, err)
            error(err, 0)
        end
        return task
    end

    function adapter.owner()
        local key = host.current()
        if key then
            return tasks[key]
        end
        return plain.owner()
    end

    local function place(key)
        local task = key and tasks[key]
        if not key then
            task = callback.owner() -- of one of the host's own tasks, else the caller spawns in `plain`
        end
        return task and not task.done and task.scope or scopes.ambient
    end

    -- For `join`.
    local function await(task)
        local key = host.current()
        local caller = key and tasks[key]
        if caller and scopes.depends_on(task, caller) then
            error("task:join: deadlock: the task waits for the one that would join it", 3)
        end
        if key then
            park(key, task.ended, { task })
        elseif not (host.drive and host.drive(task.ended)) then
            error("task:join: deadlock: the host can't run the task while code that is no task of it waits", 3)
        end
    end

    local function spawn(fn, ...)
        local key = host.current()
        local owner = callback.owner()
        local is_plain = owner and owner.driver or not owner and scheduler.is_running()
        if not key and (is_plain or jobs.in_job() or not host.running()) then
            return plain.spawn(fn, ...)
        end
        local task = start(place(key), fn, ...)
        return scopes.handle(task, await)
    end

    function adapter.spawn(fn, ...)
        arguments.check_function(fn, 1, "spawn")
        return spawn(fn, ...)
    end

    function adapter.run(fn, ...)
        arguments.check_function(fn, 1, "run")
        jobs.check_may_wait("run")
        local key = host.current()
        if not key then
            return plain.run(fn, ...)
        end
        -- In the task that calls; what it spawns meanwhile belongs to this run.
        local outer, scope = tasks[key], scopes.new()
        local main = scopes.enter(scope)
        main.joined = true
        if outer then
            outer.waits_for = scope.live
        end
        tasks[key], started[main] = main, weakly(key)
        scopes.call(function(_, ...)
            tasks[key] = outer
            scopes.finish(main, ...)
        end, main, fn, compat.pack(...))
        if not scope.empty.done then
            park(key, scope.empty, scope.live)
        elseif outer then
            outer.waits_for = nil
        end
        scopes.report(scope)
        return scopes.results(main)
    end

    function adapter.all(functions)
        arguments.check_functions(functions)
        jobs.check_may_wait("all")
        local key = host.current()
        if not key then
            return plain.all(functions)
        end
        local children = {}
        for index = 1, #functions do
            local task = start(place(key), functions[index])
            task.joined = true
            children[index] = task
        end
        local all_ended = scopes.end_of(children)
        if not all_ended.done then
            park(key, all_ended, children)
        end
        return scopes.outcomes(children)
    end

    function adapter.async(fn, done)
        arguments.check_function(fn, 1, "async")
        arguments.check_function(done, 2, "async")
        spawn(arguments.with_callback(fn, done))
    end

    if not host.is_gone then
        return adapter
    end

    function adapter.guard(ended)
        local key = host.current()
        if not key then
            return function() end
        end
        local entry = { ended = ended }
        guards[entry] = weakly(key)
        return function()
            guards[entry] = nil
        end
    end

    -- A task that the host has ended while it waited for something else is noticed when its key is collected.
    local function sweep()
        local ended, count = {}, 0
        for turn, key in pairs(parked) do
            if host.is_gone(turn) then
                turns[turn], parked[turn] = nil, nil
                ended[key] = true
            else
                count = count + 1
            end
        end
        local lost, told = {}, {}
        for task, at in pairs(started) do
            if not task.done and (at.key == nil or ended[at.key]) then
                table.insert(lost, task)
            end
        end
        for entry, at in pairs(guards) do
            if at.key == nil or ended[at.key] then
                guards[entry] = nil
                table.insert(told, entry)
            end
        end
        for _, task in ipairs(lost) do
            task.joined = true -- it did not fail by itself
            scopes.finish(task, false, ENDED)
        end
        for _, entry in ipairs(told) do
            entry.ended()
        end
        return count
    end

    return adapter, sweep
end

return native_tasks
