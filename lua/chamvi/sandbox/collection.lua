-- Collection by a manager: its own expired workspaces first, then whatever the provider finds expired.

local errors = require "chamvi.sandbox.errors"
local printed = require "chamvi.sandbox.printed"
local task = require "chamvi.sandbox.task"

local collection = {}

---@class chamvi.Collection
local Collection = {}
Collection.__index = Collection

--- Nothing is started yet.
---@param runs chamvi.Runs
---@param provider table with `collect_garbage`
---@param now fun(): integer
---@param interval_ms integer between the starts of `start_when_due`; 0: it never starts one
---@return chamvi.Collection
function collection.new(runs, provider, now, interval_ms)
    return setmetatable({
        runs = runs,
        provider = provider,
        now = now,
        interval_ms = interval_ms,
        started_at = nil, -- the last one that was due
        background = nil, -- its future
    }, Collection)
end

-- Waits for a disposal; `entry` gets its result.
local function wait_for(self, entry)
    local disposal = entry.disposal
    disposal.reported = true -- in the result of the collection
    entry.disposed, entry.err = task.wait(disposal.attempt)
    if not entry.disposed and entry.again then
        self.runs:give_up(entry.run, disposal) -- from here on it is the provider's
    end
end

-- Disposes all that has expired, also what failed before, and waits for that.
local function dispose_expired(self, now)
    local started = {}
    for _, run in ipairs(self.runs:all()) do
        for _, disposal in pairs(run.disposals) do
            if disposal.err and disposal.expires_at <= now then
                table.insert(started, { run = run, disposal = disposal, again = true })
            end
        end
        for _, slot in pairs(run.slots) do
            if slot.workspace and slot.expires_at <= now then
                table.insert(started, { run = run, slot = slot })
            end
        end
    end
    for _, entry in ipairs(started) do
        if entry.again then
            self.runs:retry(entry.run, entry.disposal)
        else
            entry.disposal = self.runs:drop(entry.slot)
        end
        entry.ended = task.start(wait_for, self, entry)
    end
    for _, entry in ipairs(started) do
        task.wait(entry.ended)
    end
    return started
end

-- Calls the provider, which may be anybody's code.
local function call_provider(provider)
    local called, count, err = pcall(function()
        return provider:collect_garbage()
    end)
    if not called then
        return 0, errors.sandbox("gc_failed", "the provider's collection raised: " .. printed(count), {
            cause = count,
        })
    end
    if type(count) == "number" and count >= 0 and count % 1 == 0 then -- no NaN, and nothing infinite
        return count
    end
    if count then
        return 0, errors.sandbox("gc_failed", "the provider's collection returned no count but a " .. type(count))
    end
    if not errors.is_error(err) then
        err = errors.sandbox("gc_failed", "the provider's collection failed: " .. printed(err), { cause = err })
    end
    return type(err.count) == "number" and err.count or 0, err
end

-- Runs as a job.
local function collect(self)
    local count, failures = 0, {}
    for _, entry in ipairs(dispose_expired(self, self.now())) do
        if entry.disposed then
            count = count + 1
        else
            table.insert(failures, entry.err)
        end
    end

    local more, err = call_provider(self.provider)
    count = count + more
    if #failures == 0 and not err then
        return count
    end
    table.insert(failures, err)
    local lines = {}
    for index, failure in ipairs(failures) do
        lines[index] = failure.detail or failure.message
    end
    return nil, errors.sandbox("gc_failed", "some expired workspaces could not be removed: " .. failures[1].message, {
        count = count,
        cause = failures[1],
        detail = table.concat(lines, "\n"),
    })
end

--- Collects. Waits.
---@return integer|nil count how many went
---@return chamvi.Error? err `gc_failed`, with `count`
function Collection:run()
    return task.wait(task.start(collect, self))
end

--- Starts a collection in the background unless one was started less than the interval ago, or still runs.
---@param on_error fun(err: any) told when it fails
function Collection:start_when_due(on_error)
    if self.interval_ms == 0 or self.background then
        return
    end
    local now, last = self.now(), self.started_at
    -- A clock that was set back does not stop collection.
    if last and now >= last and now - last < self.interval_ms then
        return
    end
    self.started_at = now
    self.background = task.future()
    task.start(function()
        local called, count, err = pcall(collect, self)
        local background = self.background
        self.background = nil
        if not called then
            on_error(count)
        elseif not count then
            on_error(err)
        end
        background:set()
    end)
end

--- Waits for a collection in the background, if there is one.
function Collection:wait()
    if self.background then
        task.wait(self.background)
    end
end

return collection
