-- How runs end: the release of one, and the close of a manager.

local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local loop = require "chamvi.sandbox.loop"
local task = require "chamvi.sandbox.task"

local endings = {}

local TIMER_MAX_MS = 2 ^ 52 -- what the core takes; longer than any program runs

local function wait_for(left)
    for _, future in ipairs(left) do
        task.wait(future)
    end
end

-- Runs as a job.
local function release(runs, run_id)
    local run = runs:find(run_id)
    if run then
        wait_for(runs:finish(run, errors.sandbox("released", "the run was released")))
    end
    return true
end

--- Aborts the creates of a run, disposes its workspaces, and waits until that is done.
---@param runs chamvi.Runs
---@param run_id string
---@return true
function endings.release(runs, run_id)
    return task.wait(task.start(release, runs, run_id))
end

--- The same in the background. Never waits, never raises.
---@param runs chamvi.Runs
---@param run_id string
function endings.release_in_background(runs, run_id)
    task.start(function()
        local released, err = pcall(release, runs, run_id)
        if not released then
            runs.on_error(err)
        end
    end)
end

local function releaser(runs, run_id)
    return function()
        endings.release_in_background(runs, run_id)
    end
end

--- Calls `fn(run)` and releases the run however that ends; also when the coroutine is closed or the host
--- ends the task, then in the background.
---@param runs chamvi.Runs
---@param run_id string
---@param fn function
---@param run table what fn gets
---@return any ... the results of fn; what it raised is raised again
function endings.with_run(runs, run_id, fn, run)
    local closed = releaser(runs, run_id)
    local forget = task.guard(closed)
    local function finish(ok, ...)
        forget()
        endings.release(runs, run_id)
        if not ok then
            error((...), 0)
        end
        return ...
    end
    return finish(compat.call_until_closed(closed, pcall, fn, run))
end

-- Runs as a job: waits for all that the runs have left and for a collection under way.
local function wait_for_all(collection, lefts)
    for _, left in ipairs(lefts) do
        wait_for(left)
    end
    collection:wait()
end

-- Waits for the future, but not longer than that. Returns whether it is done.
local function wait_at_most(future, timeout_ms, on_error)
    if future.done then
        return true
    end
    local core, err = loop.core()
    if not core then
        on_error(err)
        return false
    end
    local either, wake = task.wakeable()
    local timer = core:timer(math.min(timeout_ms, TIMER_MAX_MS))
    loop.expect(timer, wake)
    future:subscribe(wake)
    task.wait(either)
    core:abort(timer, "aborted", "no longer needed")
    return future.done
end

-- One error for each disposal and create that is not over.
local function report_unfinished(runs)
    local function report(...)
        runs.on_error(errors.sandbox("closed", string.format(...)))
    end

    for _, run in ipairs(runs:all()) do
        for id, disposal in pairs(run.disposals) do
            if not disposal.attempt.done then
                report("the manager was closed while the workspace %s was still being disposed", id)
            end
        end
        for _ in pairs(run.ending) do
            report("the manager was closed while a workspace of the run %s was still being made", run.id)
        end
    end
end

--- Ends all runs, and waits for that, for disposals and creates that were ending before and for the collection.
---@param runs chamvi.Runs
---@param collection chamvi.Collection
---@param err chamvi.Error what waiters get
---@param timeout_ms integer how long to wait at most; what then goes on is reported to `on_error`
function endings.close(runs, collection, err, timeout_ms)
    local lefts = {}
    for _, run in ipairs(runs:all()) do
        table.insert(lefts, runs:finish(run, err))
    end
    local all = task.start(wait_for_all, collection, lefts)
    if wait_at_most(all, timeout_ms, runs.on_error) then
        task.wait(all)
    else
        report_unfinished(runs)
    end
end

return endings
