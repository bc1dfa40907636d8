-- Of the model of a manager (manager_model.lua): what goes on at the provider, and who waits for its end. `self` is the
-- model.

local works = {}

-- --- Calls that wait -----------------------------------------------------------------------------

--- Something begins that others may wait for.
function works.begin(self, run_id)
    local work = { run_id = run_id, done = false }
    table.insert(self.works, work)
    return work
end

local function all_done(list)
    for _, work in ipairs(list) do
        if not work.done then
            return false
        end
    end
    return true
end

--- It is over: who waited for that goes on.
function works.finish(self, work)
    work.done = true
    for index = #self.works, 1, -1 do
        if self.works[index] == work then
            table.remove(self.works, index)
        end
    end
    local ready = {}
    for index = #self.waits, 1, -1 do
        if all_done(self.waits[index].works) then
            table.insert(ready, 1, table.remove(self.waits, index))
        end
    end
    for _, wait in ipairs(ready) do
        wait.go_on()
    end
end

--- Calls `go_on()` as soon as all of them are over.
function works.when_done(self, list, go_on)
    if all_done(list) then
        go_on()
    else
        table.insert(self.waits, { works = list, go_on = go_on })
    end
end

--- What is going on, of a run or of all.
function works.works_under_way(self, run_id)
    local list = {}
    for _, work in ipairs(self.works) do
        if not run_id or work.run_id == run_id then
            table.insert(list, work)
        end
    end
    return list
end

-- --- Disposals -----------------------------------------------------------------------------------

--- Calls a workspace's `dispose`, which joins one that is under way; `ended(ok)` when that is over.
function works.dispose(workspace, ended)
    workspace.disposed = true
    if not workspace.alive then
        return ended(true)
    end
    table.insert(workspace.waiting, ended)
    if workspace.disposing then
        return
    end
    workspace.disposing = true
    workspace.attempts = workspace.attempts + 1
    local outcome = workspace.disposals[workspace.attempts] or "ok"
    if outcome ~= "wait" then
        works.dispose_ends(workspace, outcome == "ok")
    end
end

--- A removal is what is left in a run of a workspace that it no longer holds, until it has been disposed.
function works.try_removal(self, removal)
    removal.failed, removal.told, removal.work = false, false, works.begin(self, removal.run_id)
    local waiting = {}
    removal.waiting = waiting
    works.dispose(removal.workspace, function(ok)
        removal.failed = not ok
        removal.waiting = nil
        if ok then
            self.removals[removal.workspace.number] = nil
        end
        for _, ended in ipairs(waiting) do
            ended(ok)
        end
        works.finish(self, removal.work)
    end)
end

--- Starts the disposal of a workspace that its run no longer holds.
function works.remove(self, workspace)
    local removal = { workspace = workspace, run_id = workspace.run_id }
    self.removals[workspace.number] = removal
    works.try_removal(self, removal)
    return removal
end

--- Calls `ended(ok)` as soon as the attempt is over.
function works.when_removed(removal, ended)
    if removal.waiting then
        table.insert(removal.waiting, ended)
    else
        ended(not removal.failed)
    end
end

--- A failure is reported unless a caller is told of it.
function works.report(self, removal)
    works.when_removed(removal, function(ok)
        if not ok and not removal.told then
            removal.told = true
            self.reported = self.reported + 1
        end
    end)
end

--- Starts a disposal that nobody waits for.
function works.remove_in_background(self, workspace)
    local removal = works.remove(self, workspace)
    works.report(self, removal)
    return removal
end

--- The disposals of a run that are under way or have failed.
function works.removals_of(self, run_id)
    local list = {}
    for _, removal in pairs(self.removals) do
        if removal.run_id == run_id then
            table.insert(list, removal)
        end
    end
    return list
end

--- The provider has removed the workspace, or failed to.
---@param ok boolean
function works.dispose_ends(workspace, ok)
    workspace.disposing = false
    if ok then
        workspace.alive = false
    end
    local waiting = workspace.waiting
    workspace.waiting = {}
    for _, ended in ipairs(waiting) do
        ended(ok)
    end
end

return works
