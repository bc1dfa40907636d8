-- What becomes of tasks, whoever runs them.
--
-- Every task belongs to a scope: the `run` in which it was spawned and which lasts until all its tasks have
-- ended, or the ambient one.

local compat = require "chamvi.sandbox.compat"
local jobs = require "chamvi.sandbox.task"
local printed = require "chamvi.sandbox.printed"
local report = require "chamvi.sandbox.report"

local newproxy = rawget(_G, "newproxy") -- of LuaJIT

local scopes = {}

---@class chamvi.Task
---@field done boolean it has ended
local Task = {} -- what `spawn` gives; all else about a task is kept apart from it
Task.__index = Task

--- Waits until the task has ended. Raises when that could never be: tasks that join each other.
---@return any ... what its function returned, or nil and what it raised
function Task:join()
    local task = self._task
    task.joined = true
    if not task.done then
        jobs.check_may_wait("task:join")
        task.await(task)
    end
    return compat.unpack(task.results, 1, task.results.n)
end

--- What `spawn` gives for the task.
---@param task table
---@param await fun(task: table) waits until it has ended, or raises at level 3 when that could never be
---@return chamvi.Task
function scopes.handle(task, await)
    task.await = await
    task.handle = setmetatable({ done = task.done, _task = task }, Task)
    return task.handle
end

--- A scope of its own. `empty` is done when no task is left in it, `live` has those that are, as keys and as values.
---@return table scope
function scopes.new()
    return { live = {}, count = 0, failed = {}, empty = jobs.future() }
end

--- The scope of tasks that no `run` waits for.
scopes.ambient = scopes.new()

--- A new task of the scope. `ended` is done when it has ended, `ok` and `results` tell how; `waits_for` is for the
--- tasks that it waits for, as values.
---@return table task
function scopes.enter(scope)
    local task = { done = false, scope = scope, ended = jobs.future() }
    scope.live[task] = task
    scope.count = scope.count + 1
    return task
end

local function leave(task)
    local scope = task.scope
    scope.live[task] = nil
    scope.count = scope.count - 1
    if scope.count == 0 and scope ~= scopes.ambient then
        scope.empty:set()
    end
end

-- Calls fn when the returned value is garbage, or the state closes.
local function when_collected(fn)
    if newproxy then
        local proxy = newproxy(true)
        getmetatable(proxy).__gc = fn
        return proxy
    end
    return setmetatable({}, { __gc = fn })
end

local function report_failure(task)
    if not task.joined then
        report(("a task failed and nobody joined it: %s"):format(printed(task.results[2])))
    end
end

--- The task has ended: with its results, or with what it raised.
---@param task table
---@param ok boolean
---@param ... any
function scopes.finish(task, ok, ...)
    task.ok, task.done = ok, true
    if task.handle then
        task.handle.done = true
    end
    if ok then
        task.results = compat.pack(...)
    else
        task.results = { n = 2, nil, (...) }
        if not task.joined then
            if task.scope == scopes.ambient or task.scope.abandoned then
                -- Who holds the task may still join it.
                task.unreported = when_collected(function()
                    report_failure(task)
                end)
            else
                table.insert(task.scope.failed, task)
            end
        end
    end
    leave(task)
    task.ended:set()
end

--- Calls `fn` for the task, then `finish(task, ok, ...)`. Under xpcall inside the coroutine, so that to-be-closed
--- variables are closed by the task itself.
---@param finish fun(task: table, ok: boolean, ...)
---@param task table
---@param fn function
---@param arguments table packed with `n`
function scopes.call(finish, task, fn, arguments)
    local function on_error(err)
        if type(err) == "string" then
            task.traceback = debug.traceback(err, 2)
        end
        return err
    end
    local function closed()
        finish(task, false, "the coroutine of the task was closed")
    end
    finish(task, compat.call_until_closed(closed, xpcall, function()
        return fn(compat.unpack(arguments, 1, arguments.n))
    end, on_error))
end

--- A future that is done when all the tasks have ended.
---@param tasks table[]
---@return chamvi.Future
function scopes.end_of(tasks)
    local left, all_ended = #tasks + 1, jobs.future()
    local function ended()
        left = left - 1
        if left == 0 then
            all_ended:set()
        end
    end
    for _, task in ipairs(tasks) do
        if task.done then
            ended()
        else
            task.ended:subscribe(ended)
        end
    end
    ended() -- of none is done at once
    return all_ended
end

--- What `all` gives for tasks that have ended.
---@param tasks table[]
---@return table[]
function scopes.outcomes(tasks)
    local outcomes = {}
    for index, task in ipairs(tasks) do
        outcomes[index] = task.results
    end
    return outcomes
end

--- Whether the task is the other one, or waits for it, directly or not.
---@return boolean
function scopes.depends_on(task, other)
    local left, seen = { task }, { [task] = true } -- each once: many may wait for the same ones
    while #left > 0 do
        local one = table.remove(left)
        if one == other then
            return true
        end
        for _, awaited in pairs(one.waits_for or {}) do
            if not seen[awaited] then
                seen[awaited] = true
                table.insert(left, awaited)
            end
        end
    end
    return false
end

--- Reports the scope's tasks that failed and that nobody joined.
function scopes.report(scope)
    for _, task in ipairs(scope.failed) do
        report_failure(task)
    end
end

--- Nobody will take the results of the task, whose `run` or `all` was interrupted.
function scopes.disown(task)
    task.joined = false
    if task.done and not task.ok then
        report_failure(task)
    end
end

--- The `run` of the scope was interrupted: its tasks go on like ambient ones.
function scopes.abandon(scope)
    scope.abandoned = true
    scopes.report(scope)
end

--- The results of a task that has ended; raises again what it raised, a string with its traceback.
---@return any ...
function scopes.results(task)
    if not task.ok then
        local err = task.results[2]
        -- A run inside this one may have put the traceback there already.
        local traced = type(err) == "string" and err:find("\nstack traceback:\n", 1, true)
        error(not traced and task.traceback or err, 0)
    end
    return compat.unpack(task.results, 1, task.results.n)
end

return scopes
