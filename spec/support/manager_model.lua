-- What a workspace manager must do, as a model that never waits: it is told what is called and what happens at the
-- provider, and says what the calls answer and what the provider must have been asked to do by then.
--
-- An answer is a text: "workspace 3 reused", "true", "count 2", or the code of an error. Workspaces go by the number
-- of their create.

local works = require "spec.support.manager_model_works"

---@class spec.ManagerModel
---@field answers table<any, string> by call, as soon as it has one
---@field creates table[] `run_id`, `repo`, `ref`, `aborted`, `ended`, `outcome` to come
---@field workspaces table<integer, table> `alive`, `disposed`, `attempts`, `disposing`
---@field collections integer how many the provider was asked for
---@field next_collection string|integer
---@field reported integer how many failures went to `on_error`
local Model = {}
Model.__index = Model

local model = {}

--- A manager that has not been used.
---@param settings { cap: integer, lifetime_ms: integer, gc_interval_ms: integer, now: integer }
---@return spec.ManagerModel
function model.new(settings)
    return setmetatable({
        cap = settings.cap,
        lifetime_ms = settings.lifetime_ms,
        gc_interval_ms = settings.gc_interval_ms,
        now = settings.now,
        collected_at = nil, -- when `acquire` last started a collection
        closed = false,
        runs = {}, -- by id: lists of what the run holds, with `repo`, `ref`, and `create` or `workspace`
        creates = {},
        workspaces = {},
        collections = 0,
        collecting = {}, -- by number: who waits for the provider's collection
        next_collection = "ok", -- what becomes of the next one: "wait" or as in `collection_ends`
        removals = {}, -- by workspace: its disposal by the manager, under way or failed
        works = {}, -- creates and disposals under way, and the collection in the background
        waits = {}, -- calls that wait for works
        answers = {},
        reported = 0,
    }, Model)
end

-- --- What a run holds ----------------------------------------------------------------------------

local function holdings(self, run_id)
    self.runs[run_id] = self.runs[run_id] or {}
    return self.runs[run_id]
end

local function drop(self, run_id, holding)
    local list = holdings(self, run_id)
    for index, other in ipairs(list) do
        if other == holding then
            table.remove(list, index)
            return
        end
    end
end

-- Why a held workspace is of no use any more, if it is.
local function end_of(self, workspace)
    if workspace.disposed then
        return "gone"
    end
    if workspace.expires_at <= self.now then
        return "workspace_expired"
    end
end

-- Drops what is expired or gone.
local function drop_dead(self, run_id)
    local list = holdings(self, run_id)
    for index = #list, 1, -1 do
        local workspace = list[index].workspace
        if workspace and end_of(self, workspace) then
            table.remove(list, index)
            works.remove_in_background(self, workspace)
        end
    end
end

-- --- acquire -------------------------------------------------------------------------------------

local function answer(self, call, text)
    if call then -- else nobody waits
        self.answers[call] = text
    end
end

local function answer_waiters(self, create, text)
    local waiters = create.waiters
    create.waiters = {}
    for _, call in ipairs(waiters) do
        answer(self, call, text)
    end
end

-- Aborts a create that is under way: nobody joins it any more, nobody waits for it.
local function abort_create(self, create)
    drop(self, create.run_id, create.holding)
    create.aborted = true
    if create.outcome == "wait" and create.on_abort == "end" then
        self:create_ends(create.number, "aborted")
    end
end

local function start_create(self, call, asked)
    local create = {
        number = #self.creates + 1,
        run_id = asked.run_id,
        repo = asked.repo,
        ref = asked.ref,
        outcome = asked.outcome,
        on_abort = asked.on_abort,
        disposals = asked.disposals,
        started_at = self.now,
        waiters = { call },
        creator = call,
        aborted = false,
        ended = false,
        work = works.begin(self, asked.run_id),
    }
    create.holding = { repo = asked.repo, ref = asked.ref, create = create }
    table.insert(self.creates, create)
    table.insert(holdings(self, asked.run_id), create.holding)
    if create.outcome ~= "wait" then
        self:create_ends(create.number, create.outcome)
    end
end

---@param call any
---@param asked { run_id: string, repo?: string, ref?: string, wrong?: string, aborted?: boolean, outcome: string,
---   on_abort: "end"|"ignore", disposals: string[] } `repo` normalized; `wrong`: the code of what is wrong with the
---   input; `aborted`: its signal is; the rest is what will become of a create: "wait" or as in `create_ends`
function Model:acquire(call, asked)
    if asked.wrong then
        return answer(self, call, asked.wrong)
    elseif asked.aborted then
        return answer(self, call, "aborted")
    elseif self.closed then
        return answer(self, call, "closed")
    end
    self:collect_if_due()
    drop_dead(self, asked.run_id)

    local list = holdings(self, asked.run_id)
    for _, holding in ipairs(list) do
        if holding.repo == asked.repo then
            if asked.ref and asked.ref ~= holding.ref then
                return answer(self, call, "ref_conflict")
            elseif holding.workspace then
                return answer(self, call, ("workspace %d reused"):format(holding.workspace.number))
            end
            table.insert(holding.create.waiters, call)
            return
        end
    end
    if #list >= self.cap then
        return answer(self, call, "cap_reached")
    end
    start_create(self, call, asked)
end

--- The signal of an `acquire` was aborted.
---@param call any
function Model:abort(call)
    for _, create in ipairs(self.creates) do
        for index, waiter in ipairs(create.waiters) do
            if waiter == call then
                table.remove(create.waiters, index)
                answer(self, call, "aborted")
                if #create.waiters == 0 then
                    abort_create(self, create)
                end
                return
            end
        end
    end
end

local function deliver(self, create, gone)
    local workspace = {
        number = create.number,
        run_id = create.run_id,
        alive = true,
        disposed = gone,
        expires_at = create.started_at + self.lifetime_ms,
        attempts = 0,
        disposing = false,
        disposals = create.disposals,
        waiting = {},
    }
    self.workspaces[create.number] = workspace
    return workspace
end

--- The provider has answered a create.
---@param number integer
---@param outcome string "ok", "lost" (ok, but the workspace is gone already), or the code of an error
function Model:create_ends(number, outcome)
    local create = self.creates[number]
    create.ended = true
    local workspace
    if outcome == "ok" or outcome == "lost" then
        workspace = deliver(self, create, outcome == "lost")
    end

    if create.aborted then -- too late
        if workspace then
            works.when_removed(works.remove_in_background(self, workspace), function()
                works.finish(self, create.work)
            end)
            return
        elseif outcome ~= "aborted" then
            self.reported = self.reported + 1
        end
    elseif workspace then
        create.holding.create, create.holding.workspace = nil, workspace
        local waiters = create.waiters
        create.waiters = {}
        for _, call in ipairs(waiters) do
            local how = call == create.creator and "new" or "reused"
            answer(self, call, ("workspace %d %s"):format(number, how))
        end
    else
        drop(self, create.run_id, create.holding)
        answer_waiters(self, create, outcome)
    end
    works.finish(self, create.work)
end

-- --- get and release -----------------------------------------------------------------------------

local function find(self, run_id, number)
    for _, holding in ipairs(holdings(self, run_id)) do
        if holding.workspace and holding.workspace.number == number then
            return holding
        end
    end
end

---@param call any
---@param run_id string
---@param number? integer
function Model:get(call, run_id, number)
    if number then
        local holding = find(self, run_id, number)
        if not holding then
            return answer(self, call, "workspace_not_found")
        end
        local why = end_of(self, holding.workspace)
        if why then
            drop(self, run_id, holding)
            works.remove_in_background(self, holding.workspace)
            return answer(self, call, why)
        end
        return answer(self, call, ("workspace %d"):format(number))
    end

    drop_dead(self, run_id)
    local live = {}
    for _, holding in ipairs(holdings(self, run_id)) do
        if holding.workspace then
            table.insert(live, holding.workspace)
        end
    end
    if #live == 0 then
        return answer(self, call, "no_workspace")
    elseif #live > 1 then
        return answer(self, call, "workspace_required")
    end
    answer(self, call, ("workspace %d"):format(live[1].number))
end

--- One workspace. When its disposal failed before, it is tried again.
---@param call any
---@param run_id string
---@param number integer
function Model:release(call, run_id, number)
    local holding, removal = find(self, run_id, number), self.removals[number]
    if holding then
        drop(self, run_id, holding)
        removal = works.remove(self, holding.workspace)
    elseif not removal or removal.run_id ~= run_id then
        return answer(self, call, "workspace_not_found")
    elseif removal.failed then
        works.try_removal(self, removal)
    end
    removal.told = true
    works.when_removed(removal, function(ok)
        answer(self, call, ok and "true" or "dispose_failed")
    end)
end

-- Aborts and disposes all that a run has.
local function end_run(self, run_id, code)
    for _, removal in ipairs(works.removals_of(self, run_id)) do
        if removal.failed then
            works.try_removal(self, removal)
        end
        works.report(self, removal)
    end
    local list = holdings(self, run_id)
    self.runs[run_id] = nil
    for _, holding in ipairs(list) do
        if holding.create then
            answer_waiters(self, holding.create, code)
            abort_create(self, holding.create)
        else
            works.remove_in_background(self, holding.workspace)
        end
    end
end

--- All of a run. Waits for what it aborts and disposes, and for what of the run was going on before.
---@param call any nil: nobody waits
---@param run_id string
function Model:release_run(call, run_id)
    end_run(self, run_id, "released")
    works.when_done(self, works.works_under_way(self, run_id), function()
        answer(self, call, "true")
    end)
end

-- --- Collection ----------------------------------------------------------------------------------

-- Starts the disposal of what is expired, of every run; a failed one is tried for the last time.
local function remove_expired(self)
    local list = {}
    for _, removal in pairs(self.removals) do
        if removal.failed and removal.workspace.expires_at <= self.now then
            removal.last = true
            table.insert(list, removal)
        end
    end
    for _, removal in ipairs(list) do
        works.try_removal(self, removal)
    end
    for _, held in pairs(self.runs) do
        for index = #held, 1, -1 do
            local workspace = held[index].workspace
            if workspace and workspace.expires_at <= self.now then
                table.remove(held, index)
                table.insert(list, works.remove(self, workspace))
            end
        end
    end
    return list
end

-- Disposes what is expired, then has the provider collect; `ended(count, ok)`.
local function collect(self, ended)
    local disposals, count, all_ok = {}, 0, true
    for _, removal in ipairs(remove_expired(self)) do
        removal.told = true
        table.insert(disposals, removal.work)
        works.when_removed(removal, function(ok)
            if ok then
                count = count + 1
            else
                all_ok = false
                if removal.last then
                    self.removals[removal.workspace.number] = nil
                end
            end
        end)
    end
    works.when_done(self, disposals, function()
        self.collections = self.collections + 1
        self.collecting[self.collections] = function(removed, ok)
            ended(count + removed, all_ok and ok)
        end
        if self.next_collection ~= "wait" then
            self:collection_ends(self.collections, self.next_collection)
        end
    end)
end

--- The provider has collected: what is expired and not being disposed is removed, or it failed.
---@param number integer
---@param outcome string|integer "ok", or how many the provider says went, although it failed
function Model:collection_ends(number, outcome)
    local ended = self.collecting[number]
    self.collecting[number] = nil
    if outcome ~= "ok" then
        return ended(outcome, false)
    end
    local removed = 0
    for _, workspace in pairs(self.workspaces) do
        if workspace.alive and not workspace.disposing and workspace.expires_at <= self.now then
            workspace.alive, workspace.disposed = false, true
            removed = removed + 1
        end
    end
    ended(removed, true)
end

-- What `acquire` starts now and then.
function Model:collect_if_due()
    local last = self.collected_at
    if self.gc_interval_ms == 0 or self.collecting_in_background or last and self.now - last < self.gc_interval_ms then
        return
    end
    self.collected_at, self.collecting_in_background = self.now, true
    local work = works.begin(self)
    collect(self, function(_, ok)
        self.collecting_in_background = false
        if not ok then
            self.reported = self.reported + 1
        end
        works.finish(self, work)
    end)
end

---@param call any
function Model:collect_garbage(call)
    collect(self, function(count, ok)
        answer(self, call, (ok and "count %d" or "gc_failed %d"):format(count))
    end)
end

-- --- The rest ------------------------------------------------------------------------------------

---@param call any
---@param at_once? boolean without time to wait: what is not over is reported
function Model:close(call, at_once)
    self.closed = true
    local run_ids = {}
    for run_id in pairs(self.runs) do
        run_ids[run_id] = true
    end
    for _, removal in pairs(self.removals) do
        run_ids[removal.run_id] = true
    end
    for run_id in pairs(run_ids) do
        end_run(self, run_id, "closed")
    end
    if not at_once then
        return works.when_done(self, works.works_under_way(self), function()
            answer(self, call, "true")
        end)
    end
    for _, removal in pairs(self.removals) do
        if removal.waiting then
            self.reported = self.reported + 1
        end
    end
    for _, create in ipairs(self.creates) do
        if not create.ended then
            self.reported = self.reported + 1
        end
    end
    answer(self, call, "true")
end

--- Time passes.
---@param ms integer
function Model:advance(ms)
    self.now = self.now + ms
end

--- A workspace was found gone: what is left of it stays until it is disposed.
---@param number integer
function Model:lose(number)
    self.workspaces[number].disposed = true
end

--- The provider has removed a workspace, or failed to.
---@param number integer
---@param ok boolean
function Model:dispose_ends(number, ok)
    works.dispose_ends(self.workspaces[number], ok)
end

--- A user disposes a workspace without the manager.
---@param call any
---@param number integer
function Model:dispose(call, number)
    works.dispose(self.workspaces[number], function(ok)
        answer(self, call, ok and "true" or "dispose_failed")
    end)
end

return model
