-- A provider in plain Lua that can delay, fail and lose workspaces at every step, as its spec says, and keeps account
-- of what it made and what is left.
--
-- Each create, disposal and collection is a step; what becomes of it is its outcome, a list:
--
--   { "succeed" }             also nil; a create with `gone = true` delivers a workspace that is lost already, and a
--                             collection with `count` claims to have removed so many more
--   { "fail", err }           returns nil, err
--   { "raise", value }        raises the value
--   { "give", ... }           returns whatever is listed, up to the index `n` if that is there
--   { "turns", n, outcome }   goes to the end of the loop's queue n times, then the outcome
--   { "wait" }                waits for `step:finish(outcome)`; a create with `on_abort = "ignore"` goes on when its
--                             signal is aborted, else it ends with `aborted` at once

local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local sandbox = require "chamvi.sandbox"
local task = require "chamvi.sandbox.task"

local fake_provider = {}

local LIFETIME_MS = 1800000

---@class spec.FakeStep
---@field number integer counts the steps of its kind
---@field waiting boolean it waits for `finish`
---@field done boolean
local Step = {}
Step.__index = Step

--- Lets a step go on that waits.
---@param outcome? table
function Step:finish(outcome)
    assert(self.waiting, "the step does not wait")
    self.waiting = false
    self.future:set(outcome or { "succeed" })
end

local function new_step(fields)
    fields.waiting, fields.done = false, false
    return setmetatable(fields, Step)
end

-- Runs a step to its outcome; `succeed(outcome)` gives the results of a success.
local function take(step, outcome, succeed)
    outcome = outcome or { "succeed" }
    while outcome[1] == "wait" or outcome[1] == "turns" do
        if outcome[1] == "turns" then
            for _ = 1, outcome[2] do
                assert(sandbox.sleep(0))
            end
            outcome = outcome[3] or { "succeed" }
        else
            step.waiting, step.future = true, task.future()
            local forget
            if step.signal and outcome.on_abort ~= "ignore" then
                forget = step.signal:on_abort(function()
                    if step.waiting then
                        step:finish({ "fail", task.aborted(step.signal) })
                    end
                end)
            end
            outcome = task.wait(step.future)
            if forget then
                forget()
            end
        end
    end
    step.done = true
    local kind = outcome[1]
    if kind == "succeed" then
        return succeed(outcome)
    elseif kind == "fail" then
        return nil, outcome[2]
    elseif kind == "raise" then
        error(outcome[2], 0)
    end
    assert(kind == "give", kind)
    return compat.unpack(outcome, 2, outcome.n or #outcome)
end

---@class spec.FakeWorkspace: chamvi.Workspace
local Workspace = {}
Workspace.__index = Workspace

local function check_usable(self)
    local account = self._account
    if account.closed then
        return nil, errors.sandbox("disposed", "the workspace was disposed")
    end
    if self.disposed then
        return nil, errors.sandbox("gone", "the workspace is gone")
    end
    return true
end

--- Echoes its arguments.
function Workspace:exec(argv)
    local usable, err = check_usable(self)
    if not usable then
        return nil, err
    end
    local stdout = table.concat(argv, " ") .. "\n"
    return {
        status = "exited",
        exit_code = 0,
        stdout = stdout,
        stderr = "",
        stdout_truncated = false,
        stderr_truncated = false,
        stdout_bytes = #stdout,
        stderr_bytes = 0,
        streams_held = false,
        timed_out = false,
        duration_ms = 0,
    }
end

function Workspace:read_file(path)
    local usable, err = check_usable(self)
    if not usable then
        return nil, err
    end
    local text = self._account.files[path]
    if not text then
        return nil, errors.sandbox("file_not_found", "there is no such file")
    end
    return text
end

function Workspace:write_file(path, content)
    local usable, err = check_usable(self)
    if not usable then
        return nil, err
    end
    self._account.files[path] = content
    return true
end

--- Removes the workspace. One removal at a time: a second call joins it; after a failure the next call tries again.
function Workspace:dispose()
    local account = self._account
    self.disposed, account.closed = true, true
    account.calls = account.calls + 1
    if not account.alive then
        return true
    end
    if not account.disposal or account.disposal.done then
        local fake = account.fake
        account.attempts = account.attempts + 1
        fake.disposals_started = fake.disposals_started + 1
        local step = new_step({ number = fake.disposals_started, account = account, attempt = account.attempts })
        account.disposal = step
        account.removal = task.start(take, step, fake.plan_dispose(step), function()
            account.alive = false
            if fake.forgetful then
                fake.accounts[account.number], fake.creates[account.number] = nil, nil
            end
            return true
        end)
    end
    return task.wait(account.removal)
end

---@class spec.FakeAccount what the provider knows of one workspace
---@field number integer that of its create
---@field workspace spec.FakeWorkspace
---@field alive boolean something of it is left at the provider
---@field closed boolean `dispose` was called
---@field calls integer of `dispose`
---@field attempts integer disposals that were started
---@field disposal? spec.FakeStep the latest

---@class spec.FakeProvider
---@field name string
---@field created integer how many creates there were
---@field creates table<integer, spec.FakeStep> by number, each with `request`, and `account` once it has delivered
---@field accounts table<integer, spec.FakeAccount> by the number of the create
---@field collections spec.FakeStep[]
---@field plan_create fun(step: spec.FakeStep): table? the outcome of a create
---@field plan_dispose fun(step: spec.FakeStep): table? of a disposal; `step.account`, `step.attempt`
---@field plan_collect fun(step: spec.FakeStep): table?
local Fake = {}
Fake.__index = Fake

local function succeed() end

--- A provider.
---@param options? { clock?: { now: fun(): integer }, forgetful?: boolean } without a clock, time stands at 0; a
---   forgetful one keeps nothing about a workspace that was disposed, for specs that make very many
---@return spec.FakeProvider
function fake_provider.new(options)
    options = options or {}
    return setmetatable({
        name = "fake",
        forgetful = options.forgetful,
        clock = options.clock or { now = function() return 0 end },
        created = 0,
        creates = {},
        accounts = {},
        collections = {},
        disposals_started = 0,
        plan_create = succeed,
        plan_dispose = succeed,
        plan_collect = succeed,
    }, Fake)
end

-- The form of a UUID, told apart by the first group.
local function id_of(number)
    return ("%08x-0000-4000-8000-000000000000"):format(number)
end

local function deliver(fake, step, gone)
    local request = step.request
    local lifetime_ms = request.limits and request.limits.timeout_ms or LIFETIME_MS
    local workspace = setmetatable({
        id = id_of(step.number),
        disposed = gone == true,
        info = {
            run_id = request.run_id,
            provider = fake.name,
            repo = request.repo,
            ref = request.ref,
            commit = request.repo and ("c"):rep(40) or nil,
            created_at = step.started_at,
            expires_at = step.started_at + lifetime_ms,
        },
    }, Workspace)
    local account = {
        fake = fake,
        number = step.number,
        workspace = workspace,
        alive = true,
        closed = false,
        calls = 0,
        attempts = 0,
        files = {},
    }
    workspace._account = account
    fake.accounts[step.number] = account
    step.account = account
    return workspace
end

--- As a manager calls it.
function Fake:create(request)
    self.created = self.created + 1
    local step = new_step({
        number = self.created,
        request = request,
        signal = request.signal,
        started_at = self.clock.now(),
    })
    self.creates[step.number] = step
    return take(step, self.plan_create(step), function(outcome)
        return deliver(self, step, outcome.gone)
    end)
end

--- Removes what is expired, but what is being disposed: such a workspace is gone then.
function Fake:collect_garbage()
    local step = new_step({ number = #self.collections + 1 })
    self.collections[step.number] = step
    return take(step, self.plan_collect(step), function(outcome)
        local count, now = outcome.count or 0, self.clock.now()
        for _, account in pairs(self.accounts) do
            local disposing = account.disposal and not account.disposal.done
            if account.alive and not disposing and account.workspace.info.expires_at <= now then
                account.alive = false
                account.workspace.disposed = true
                count = count + 1
            end
        end
        return count
    end)
end

--- Loses a workspace, as when somebody stops its container: what is left of it goes with `dispose`.
---@param number integer of its create
function Fake:lose(number)
    self.accounts[number].workspace.disposed = true
end

--- The numbers of what is left.
---@return integer[] sorted
function Fake:alive()
    local numbers = {}
    for number, account in pairs(self.accounts) do
        if account.alive then
            table.insert(numbers, number)
        end
    end
    table.sort(numbers)
    return numbers
end

--- Everything that waits: `creates`, `disposals` and `collections`, in the order of their numbers.
---@return { creates: spec.FakeStep[], disposals: spec.FakeStep[], collections: spec.FakeStep[] }
function Fake:waiting()
    local waiting = { creates = {}, disposals = {}, collections = {} }
    for number = 1, self.created do
        local step = self.creates[number]
        if step and step.waiting then
            table.insert(waiting.creates, step)
        end
        local account = self.accounts[number]
        if account and account.disposal and account.disposal.waiting then
            table.insert(waiting.disposals, account.disposal)
        end
    end
    for _, step in ipairs(self.collections) do
        if step.waiting then
            table.insert(waiting.collections, step)
        end
    end
    return waiting
end

--- Raises unless nothing is left and nothing waits.
function Fake:assert_nothing_left()
    local waiting = self:waiting()
    local left = {}
    for what, steps in pairs(waiting) do
        if #steps > 0 then
            table.insert(left, ("%d waiting %s"):format(#steps, what))
        end
    end
    local alive = self:alive()
    if #alive > 0 then
        local first = table.concat(alive, ", ", 1, math.min(#alive, 10))
        table.insert(left, ("%d workspaces: %s"):format(#alive, first))
    end
    table.sort(left)
    assert(#left == 0, "left at the provider: " .. table.concat(left, "; "))
end

return fake_provider
