-- What a manager holds: for each run its workspaces, the creates under way, and the disposals.
--
-- A slot is one workspace of a run from the first acquire on. While its create is under way it has waiters; once
-- that has ended well it has a workspace. A slot that is dropped leaves its run at once; what is then left of it, a
-- create that ends or a disposal, stays known until it is over, so that release and close can wait for it.

local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local options = require "chamvi.sandbox.options"
local printed = require "chamvi.sandbox.printed"
local signals = require "chamvi.sandbox.signal"
local task = require "chamvi.sandbox.task"

local runs = {}

---@class chamvi.Slot
---@field run chamvi.Run
---@field key string the repository, "" for none
---@field ref? string
---@field waiters integer how many wait for the create
---@field signal chamvi.Signal aborts the create
---@field answer chamvi.Future workspace, or nil and the error, for the waiters
---@field ended chamvi.Future the create is over, and so is the disposal of what came too late
---@field aborted? chamvi.Error why the create was given up
---@field workspace? chamvi.Workspace
---@field id? string of the workspace
---@field expires_at? integer epoch milliseconds

---@class chamvi.Disposal
---@field workspace chamvi.Workspace
---@field id string
---@field expires_at integer
---@field attempt chamvi.Future true, or nil and the error, of the latest attempt
---@field err? chamvi.Error that attempt failed
---@field reported? boolean somebody was told

---@class chamvi.Run
---@field id string
---@field slots table<string, chamvi.Slot> by key
---@field ending table<chamvi.Slot, chamvi.Slot> given up, and the create is not over yet
---@field disposals table<string, chamvi.Disposal> under way or failed, by workspace id

---@class chamvi.Runs
local Runs = {}
Runs.__index = Runs

--- Nothing held yet.
---@param provider table with `create`
---@param on_error fun(err: chamvi.Error) told of failures that no caller is told of
---@return chamvi.Runs
function runs.new(provider, on_error)
    return setmetatable({ provider = provider, on_error = on_error, by_id = {} }, Runs)
end

--- The run of that id, if it holds or waits for anything.
---@return chamvi.Run|nil
function Runs:find(run_id)
    return self.by_id[run_id]
end

--- The run of that id.
---@return chamvi.Run
function Runs:open(run_id)
    local run = self.by_id[run_id]
    if not run then
        run = { id = run_id, slots = {}, ending = {}, disposals = {} }
        self.by_id[run_id] = run
    end
    return run
end

--- All runs, as a list of its own: what is done to one may add or remove others.
---@return chamvi.Run[]
function Runs:all()
    local list = {}
    for _, run in pairs(self.by_id) do
        table.insert(list, run)
    end
    return list
end

-- Forgets a run of which nothing is left.
local function forget_empty(self, run)
    local empty = not (next(run.slots) or next(run.ending) or next(run.disposals))
    if empty and self.by_id[run.id] == run then -- not one of the same id that came after it
        self.by_id[run.id] = nil
    end
end

local function values(map)
    local list = {}
    for _, value in pairs(map) do
        table.insert(list, value)
    end
    return list
end

-- ---- Disposal ----------------------------------------------------------------------------------

-- The workspace may be anybody's code, and so may its error be anything.
local function call_dispose(workspace, id)
    local called, disposed, err = pcall(function()
        return workspace:dispose()
    end)
    if called and disposed then
        return true
    end
    if called and errors.is_error(err) then
        return nil, err
    end
    local cause
    if called then
        cause = err
    else
        cause = disposed
    end
    return nil, errors.sandbox("remove_failed",
        ("the workspace %s could not be disposed: %s"):format(id, printed(cause)), { cause = cause })
end

local function try_disposal(self, run, disposal)
    local attempt = task.future()
    disposal.attempt, disposal.err, disposal.reported = attempt, nil, nil
    task.start(function()
        local disposed, err = call_dispose(disposal.workspace, disposal.id)
        if disposed then
            if run.disposals[disposal.id] == disposal then -- not another one, of a provider that gives an id twice
                run.disposals[disposal.id] = nil
            end
            forget_empty(self, run)
        else
            disposal.err = err
        end
        attempt:set(disposed, err)
    end)
end

local function dispose(self, run, workspace, id, expires_at)
    local disposal = { workspace = workspace, id = id, expires_at = expires_at }
    run.disposals[id] = disposal
    try_disposal(self, run, disposal)
    return disposal
end

--- Takes a workspace from its run and starts its disposal.
---@param slot chamvi.Slot with a workspace
---@return chamvi.Disposal
function Runs:drop(slot)
    slot.run.slots[slot.key] = nil
    return dispose(self, slot.run, slot.workspace, slot.id, slot.expires_at)
end

--- Tries a disposal again if it has failed.
---@param run chamvi.Run
---@param disposal chamvi.Disposal
function Runs:retry(run, disposal)
    if disposal.err then
        try_disposal(self, run, disposal)
    end
end

--- Gives a failed disposal up for good.
---@param run chamvi.Run
---@param disposal chamvi.Disposal
function Runs:give_up(run, disposal)
    if run.disposals[disposal.id] == disposal and disposal.err then
        run.disposals[disposal.id] = nil
        forget_empty(self, run)
    end
end

--- Waits for the disposal, and tells `on_error` when it failed, once for each attempt.
---@param disposal chamvi.Disposal
---@return boolean disposed
function Runs:wait_and_report(disposal)
    local disposed, err = task.wait(disposal.attempt)
    if not disposed and not disposal.reported then
        disposal.reported = true
        self.on_error(err)
    end
    return disposed or false
end

--- Takes a workspace from its run; its disposal runs in the background, failures go to `on_error`.
---@param slot chamvi.Slot with a workspace
function Runs:drop_in_background(slot)
    local disposal = self:drop(slot)
    task.start(self.wait_and_report, self, disposal)
end

--- Drops, in the background, what a run can't use any more: what is gone or has expired.
---@param run chamvi.Run
---@param now integer epoch milliseconds
function Runs:drop_dead(run, now)
    for _, slot in ipairs(values(run.slots)) do
        if slot.workspace and (slot.workspace.disposed or slot.expires_at <= now) then
            self:drop_in_background(slot)
        end
    end
end

-- ---- Creation ----------------------------------------------------------------------------------

local function create_failed(message, cause)
    return nil, errors.sandbox("create_failed", message, { cause = cause })
end

-- What is wrong with a workspace, or nil.
local function complaint(workspace)
    if type(workspace) ~= "table" then
        return "it is a " .. type(workspace)
    elseif type(workspace.id) ~= "string" then
        return "it has no `id`"
    elseif type(workspace.dispose) ~= "function" then
        return "it has no function `dispose`"
    end
    local expires_at = type(workspace.info) == "table" and workspace.info.expires_at
    if type(expires_at) ~= "number" or expires_at ~= expires_at then
        return "it has no `info.expires_at`"
    end
end

local function has_dispose(value)
    return type(value) == "table" and type(value.dispose) == "function"
end

-- Asks the provider, which may be anybody's code. The third result is what it returned instead of a workspace, if
-- that can be disposed.
local function call_create(provider, request)
    local called, workspace, err = pcall(function()
        return provider:create(request)
    end)
    if not called then
        return create_failed("the provider's create raised: " .. printed(workspace), workspace)
    end
    if workspace then
        local checked, wrong = pcall(complaint, workspace)
        if checked and not wrong then
            return workspace
        end
        local _, failure = create_failed("the provider's create returned what is no workspace: " .. printed(wrong))
        local readable, disposable = pcall(has_dispose, workspace)
        return nil, failure, readable and disposable and workspace or nil
    end
    if errors.is_error(err) then
        return nil, err
    end
    return create_failed("the provider's create failed: " .. printed(err), err)
end

-- Runs as a job.
local function create(self, slot, request)
    local run = slot.run
    run.slots[slot.key] = slot -- by the job itself: one that finds no stack to begin on must not be waited for
    local workspace, err, malformed = call_create(self.provider, request)
    if malformed then
        local disposed, failure = call_dispose(malformed, "that create returned")
        if not disposed then
            self.on_error(failure)
        end
    end
    if slot.aborted then
        if workspace then -- it came too late
            local disposal = dispose(self, run, workspace, workspace.id, workspace.info.expires_at)
            run.ending[slot] = nil
            self:wait_and_report(disposal)
        else
            run.ending[slot] = nil
            if err.code ~= "aborted" then
                self.on_error(err) -- all its waiters were told something else
            end
        end
    elseif workspace then
        slot.workspace, slot.id, slot.expires_at = workspace, workspace.id, workspace.info.expires_at
    else
        run.slots[slot.key] = nil
    end
    forget_empty(self, run)
    slot.ended:set()
    slot.answer:set(workspace, err)
end

--- Starts the create of a run's workspace.
---@param run_id string
---@param key string
---@param request table for provider:create, without `run_id` and `signal`
---@return chamvi.Slot
function Runs:create(run_id, key, request)
    local run = self:open(run_id)
    local slot = {
        run = run,
        key = key,
        ref = request.ref,
        waiters = 0,
        signal = signals.new(),
        answer = task.future(),
        ended = task.future(),
    }
    request.run_id, request.signal = run_id, slot.signal
    request.env, request.limits = options.copy(request.env), options.copy(request.limits)
    local job = task.start(create, self, slot, request)
    if job.done and not slot.answer.done then
        task.wait(job) -- raises why it has not begun
    end
    return slot
end

--- Gives up a create that is under way; its waiters get the error.
---@param slot chamvi.Slot without a workspace
---@param err chamvi.Error
function Runs:abort(slot, err)
    local run = slot.run
    slot.aborted = err
    run.slots[slot.key] = nil
    run.ending[slot] = slot
    slot.answer:set(nil, err)
    slot.signal:abort(err.message)
end

-- One more waiter of a slot: the future of what it gets, and what makes it leave. Apart from the wait, as in task.lua.
local function join_slot(self, slot, signal)
    local mine, forget = task.future(), nil
    slot.waiters = slot.waiters + 1

    local function leave(err)
        if mine.done then
            return
        end
        mine:set(nil, err)
        slot.waiters = slot.waiters - 1
        if slot.waiters == 0 and not slot.answer.done then
            self:abort(slot, err)
        end
    end

    slot.answer:subscribe(function()
        if forget then
            forget()
        end
        if not mine.done then
            mine:set(task.wait(slot.answer))
        end
    end)
    if signal then
        forget = signal:on_abort(function()
            leave(task.aborted(signal))
        end)
    end

    local function give_up(why)
        leave(errors.sandbox("aborted", "the wait for the workspace failed: " .. why))
        if forget then
            forget()
        end
    end
    return mine, give_up, function()
        give_up("its coroutine was closed")
    end
end

--- Waits for the create of a slot. When the signal is aborted this waiter alone leaves; the last one to leave
--- takes the create along.
---@param slot chamvi.Slot
---@param signal? chamvi.Signal
---@return chamvi.Workspace|nil
---@return chamvi.Error? err
function Runs:wait(slot, signal)
    if slot.answer.done then
        return task.wait(slot.answer)
    end
    local mine, give_up, closed = join_slot(self, slot, signal)
    local unguard = task.guard(closed)
    local waited, workspace, err = compat.call_until_closed(closed, pcall, task.wait, mine)
    unguard()
    if not waited then -- the core can't be used, or nothing could ever end this wait
        give_up(printed(workspace))
        error(workspace, 0)
    end
    return workspace, err
end

-- ---- The end of a run --------------------------------------------------------------------------

--- Ends all that a run has: aborts its creates, disposes its workspaces and tries failed disposals again.
---@param run chamvi.Run
---@param err chamvi.Error what waiters get
---@return chamvi.Future[] # what is not over yet. Failures of disposals go to `on_error`, each as soon as it is there
function Runs:finish(run, err)
    local left = {}
    for slot in pairs(run.ending) do
        table.insert(left, slot.ended)
    end
    local disposals = values(run.disposals)
    for _, disposal in ipairs(disposals) do
        self:retry(run, disposal)
    end
    for _, slot in ipairs(values(run.slots)) do
        if slot.workspace then
            table.insert(disposals, self:drop(slot))
        else
            table.insert(left, slot.ended)
            self:abort(slot, err)
        end
    end
    for _, disposal in ipairs(disposals) do
        table.insert(left, task.start(self.wait_and_report, self, disposal))
    end
    return left
end

return runs
