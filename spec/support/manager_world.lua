-- A manager over the fake provider beside the model of it (manager_model.lua), and the steps that are done to both.
--
-- A step is a name and some numbers, from which it picks what it acts on among what is there then. So a sequence of
-- steps still means something when some are left out, which is how a failing one is shrunk.

local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local fake_provider = require "spec.support.fake_provider"
local loop = require "chamvi.sandbox.loop"
local models = require "spec.support.manager_model"
local sandbox = require "chamvi.sandbox"
local task = require "chamvi.sandbox.task"

local worlds = {}

local START = 1700000000000
local LIFETIME_MS = 1000 -- of workspaces
local DENIED = "https://github.com/denied/repo.git"

-- --- What steps pick from ------------------------------------------------------------------------

local RUNS = { "run-a", "run-b" }

local A, B, C = "https://github.com/owner/a.git", "https://git.example.com/b", "https://gitlab.com/c/c.git"
local INPUTS = {
    {},
    {},
    {},
    { repo = A, given = "owner/a" },
    { repo = A, given = "HTTPS://GitHub.com/owner/a/" },
    { repo = A, given = "owner/a", ref = "main" },
    { repo = A, given = "owner/a", ref = "main" },
    { repo = A, given = "owner/a", ref = "dev" },
    { repo = B, given = B },
    { repo = B, given = B .. "/", ref = "main" },
    { repo = C, given = "https://gitlab.com/c/c" },
}
local WRONG_INPUTS = {
    { given = "no repository", wrong = "invalid_repo" },
    { repo = A, given = "owner/a", ref = "a..b", wrong = "invalid_ref" },
    { ref = "main", wrong = "invalid_input" },
    { repo = DENIED, given = "denied/repo", wrong = "repo_not_allowed" },
}

-- The outcomes of creates: for the model, and for the fake provider.
local CREATES = {
    ok = { "succeed" },
    lost = { "succeed", gone = true },
    wait = { "wait" },
    checkout_failed = { "fail", errors.sandbox("checkout_failed", "planned: no such ref") },
    image_unavailable = { "fail", errors.sandbox("image_unavailable", "planned: no image") },
    raised = { "raise", "planned: create raises" },
    nothing = { "give" },
    no_error = { "give", n = 3, nil, "planned: no error" },
    no_workspace = { "give", {} },
    number = { "give", 42 },
}
local CREATE_CODES = { -- where the model knows the outcome by another name
    raised = "create_failed",
    nothing = "create_failed",
    no_error = "create_failed",
    no_workspace = "create_failed",
    number = "create_failed",
}
local CREATE_FAILURES = {
    "checkout_failed", "image_unavailable", "raised", "nothing", "no_error", "no_workspace", "number",
}

local DISPOSALS = {
    ok = { "succeed" },
    wait = { "wait" },
    failed = { "fail", errors.sandbox("remove_failed", "planned: disposal fails") },
    raised = { "raise", "planned: disposal raises" },
    nothing = { "give" },
}
local DISPOSAL_PLANS = { -- of one workspace, attempt by attempt; then they succeed
    {}, {}, {}, { "wait" }, { "wait" }, { "wait", "wait" }, { "failed" }, { "raised" }, { "nothing" },
    { "failed", "failed" }, { "wait", "failed" },
}
local DISPOSAL_ENDS = { "ok", "ok", "ok", "failed", "raised" }

local COLLECTIONS = {
    ok = { "succeed" },
    wait = { "wait" },
    gc_failed = { "fail", errors.sandbox("gc_failed", "planned: collection fails", { count = 1 }) },
    raised = { "raise", "planned: collection raises" },
    nonsense = { "give", "many" },
}
local COLLECTION_COUNTS = { gc_failed = 1, raised = 0, nonsense = 0 } -- of those that fail
local COLLECTION_PLANS = { "ok", "ok", "ok", "wait", "wait", "gc_failed", "raised", "nonsense" }
local COLLECTION_ENDS = { "ok", "ok", "gc_failed", "raised" }

worlds.LIFETIME_MS = LIFETIME_MS

local function pick(list, number)
    return list[number % #list + 1]
end

-- --- Both sides ----------------------------------------------------------------------------------

---@class spec.World
---@field manager chamvi.WorkspaceManager
---@field model spec.ManagerModel
---@field fake spec.FakeProvider
---@field open integer[] calls that have no answer from both sides yet
---@field answers table<integer, string> by call, of the real manager
---@field signals table<integer, chamvi.Signal> by call
---@field reported any[] what `on_error` was told
---@field log string[] what was done, if `noting`
local World = {}
World.__index = World

--- A manager that has not been used, and its model.
---@param settings { cap: integer, gc_interval_ms: integer, tasks: boolean } `tasks`: calls are made in tasks of the
---   host, of which the caller is one; else in jobs of the library
---@return spec.World
function worlds.new(settings)
    local clock = { time = START }
    function clock.now()
        return clock.time
    end
    local fake = fake_provider.new({ clock = clock })
    local world = setmetatable({
        settings = settings,
        clock = clock,
        fake = fake,
        calls = 0, -- how many there were
        open = {},
        answers = {},
        signals = {},
        reported = {},
        collection = "ok", -- what becomes of the next one at the provider
        noting = false,
        log = {},
    }, World)
    world.manager = sandbox.create_workspace_manager({
        provider = fake,
        max_workspaces_per_run = settings.cap,
        gc_interval_ms = settings.gc_interval_ms,
        limits = { timeout_ms = LIFETIME_MS },
        clock = clock,
        allow_repo = function(url)
            return url ~= DENIED
        end,
        on_error = function(err)
            table.insert(world.reported, err)
        end,
    })
    world.model = models.new({
        cap = settings.cap,
        gc_interval_ms = settings.gc_interval_ms,
        lifetime_ms = LIFETIME_MS,
        now = START,
    })
    function fake.plan_create(step)
        local plan = world.plan
        if not plan then
            return CREATES.ok -- one that the model does not know of
        end
        world.plan = nil
        step.disposals = plan.disposals
        if plan.outcome == "wait" then
            return { "wait", on_abort = plan.on_abort }
        end
        return CREATES[plan.outcome]
    end
    function fake.plan_dispose(step)
        local disposals = fake.creates[step.account.number].disposals
        return disposals and DISPOSALS[disposals[step.attempt]]
    end
    function fake.plan_collect()
        return COLLECTIONS[world.collection]
    end
    return world
end

local function note(world, format, ...)
    if world.noting then
        table.insert(world.log, format:format(...))
    end
end

local function number_of(workspace)
    return tonumber(workspace.id:sub(1, 8), 16)
end

local function code_of(err)
    return errors.is_error(err) and err.code or ("no error but " .. tostring(err))
end

-- What a disposal failed with is the provider's business.
local function disposal_code(err)
    local code = code_of(err)
    return code == "workspace_not_found" and code or errors.is_error(err) and "dispose_failed" or code
end

local function workspace_answer(workspace, err)
    if not workspace then
        return code_of(err)
    end
    return ("workspace %d"):format(number_of(workspace))
end

local ANSWERS = {
    acquire = function(workspace, how)
        if not workspace then
            return code_of(how)
        end
        local reused = how == true and "reused" or how == false and "new" or tostring(how)
        return ("workspace %d %s"):format(number_of(workspace), reused)
    end,
    get = workspace_answer,
    release = function(ok, err)
        return ok == true and "true" or disposal_code(err)
    end,
    release_run = function(ok, err)
        return ok == true and "true" or code_of(err)
    end,
    collect = function(count, err)
        return count and ("count %d"):format(count) or ("%s %d"):format(code_of(err), err.count)
    end,
    close = function(ok, err)
        return ok == true and "true" or code_of(err)
    end,
    dispose = function(ok)
        return ok == true and "true" or "dispose_failed"
    end,
}

-- Calls the real manager, where the call may wait. The model gets the number of the call.
local function call(world, kind, fn, ...)
    world.calls = world.calls + 1
    local number = world.calls
    world.open[#world.open + 1] = number
    local arguments = compat.pack(...)
    local function act()
        local results = compat.pack(pcall(fn, compat.unpack(arguments, 1, arguments.n)))
        if not results[1] and kind ~= "dispose" then
            world.answers[number] = "raised " .. tostring(results[2])
        else
            world.answers[number] = ANSWERS[kind](compat.unpack(results, 2, results.n))
        end
    end
    if world.settings.tasks then
        sandbox.spawn(act)
    else
        task.start(act)
    end
    note(world, "  call %d", number)
    return number
end

-- --- Steps ---------------------------------------------------------------------------------------

local STEPS = {}

--- Time passes.
---@param ms integer
function World:advance(ms)
    self.clock.time = self.clock.time + ms
    self.model:advance(ms)
end

--- Says what becomes of the collections that the provider is asked for from now on.
---@param outcome string
function World:set_collection(outcome)
    self.collection = outcome
    self.model.next_collection = COLLECTION_COUNTS[outcome] or outcome
end

function STEPS.acquire(world, step)
    local run_id, input = pick(RUNS, step[2]), pick(INPUTS, step[3])
    local signal = step[4] % 2 == 0 and sandbox.signal() or nil
    -- Which of two reasons to refuse a call comes first is nobody's business.
    if not world.model.closed then
        if step[4] % 20 == 0 then
            signal:abort("planned")
        elseif step[4] % 20 == 1 then
            input = pick(WRONG_INPUTS, step[3])
        end
    end
    local outcome = step[5] % 10 < 7 and "wait" or step[5] % 10 < 9 and "ok" or pick(CREATE_FAILURES, step[6])
    local plan = {
        outcome = outcome,
        on_abort = step[6] % 2 == 0 and "ignore" or "end",
        disposals = pick(DISPOSAL_PLANS, step[7]),
    }
    note(world, "acquire %s %s %s%s: %s, on abort %s, disposals %s", run_id, tostring(input.given), tostring(input.ref),
        signal and (signal.aborted and " aborted" or " signal") or "", outcome, plan.on_abort,
        table.concat(plan.disposals, "+"))
    world.plan = plan
    local asked = { repo = input.given, ref = input.ref, signal = signal }
    local number = call(world, "acquire", world.manager.acquire, world.manager, run_id, asked)
    world.signals[number] = signal
    local disposals = {}
    for index, name in ipairs(plan.disposals) do
        disposals[index] = name == "wait" and "wait" or "failed"
    end
    world.model:acquire(number, {
        run_id = run_id,
        repo = input.repo,
        ref = input.ref,
        wrong = input.wrong,
        aborted = signal and signal.aborted,
        outcome = CREATE_CODES[outcome] or outcome,
        on_abort = plan.on_abort,
        disposals = disposals,
    })
end

-- One of the workspaces that ever were there, and a run, which mostly is the one that has it.
local function pick_workspace(world, number, other_run)
    local numbers = {}
    for index = 1, #world.model.creates do
        if world.model.workspaces[index] then
            table.insert(numbers, index)
        end
    end
    local workspace = #numbers > 0 and pick(numbers, number) or nil
    if not workspace or other_run and other_run % 10 == 0 then
        return workspace, pick(RUNS, number)
    end
    return workspace, world.model.creates[workspace].run_id
end

local function id_of(world, number)
    return number and world.fake.accounts[number].workspace.id
end

function STEPS.get(world, step)
    local run_id = pick(RUNS, step[2])
    note(world, "get %s", run_id)
    world.model:get(call(world, "get", world.manager.get, world.manager, run_id), run_id)
end

function STEPS.get_one(world, step)
    local workspace, run_id = pick_workspace(world, step[2], step[3])
    note(world, "get %s %s", run_id, tostring(workspace))
    local id = id_of(world, workspace) or "unknown"
    world.model:get(call(world, "get", world.manager.get, world.manager, run_id, id), run_id, workspace or 0)
end

function STEPS.release_one(world, step)
    local workspace, run_id = pick_workspace(world, step[2], step[3])
    note(world, "release %s %s", run_id, tostring(workspace))
    local id = id_of(world, workspace) or "unknown"
    local number = call(world, "release", world.manager.release, world.manager, run_id, id)
    world.model:release(number, run_id, workspace or 0)
end

function STEPS.release_run(world, step)
    local run_id = pick(RUNS, step[2])
    if step[3] % 3 == 0 then -- in the background
        note(world, "%s is completed", run_id)
        world.manager:hooks().completed(run_id)
        world.model:release_run(nil, run_id)
    else
        note(world, "release %s", run_id)
        world.model:release_run(call(world, "release_run", world.manager.release, world.manager, run_id), run_id)
    end
end

function STEPS.abort(world, step)
    local calls = {}
    for _, number in ipairs(world.open) do
        if world.signals[number] then
            table.insert(calls, number)
        end
    end
    if #calls > 0 then
        local number = pick(calls, step[2])
        note(world, "abort call %d", number)
        world.signals[number]:abort("planned")
        world.model:abort(number)
    end
end

function STEPS.finish_create(world, step)
    local numbers = {}
    for number, create in ipairs(world.model.creates) do
        if not create.ended then
            table.insert(numbers, number)
        end
    end
    if #numbers == 0 then
        return
    end
    local number = pick(numbers, step[2])
    local chance = step[3] % 10
    local outcome = chance < 7 and "ok" or chance < 8 and "lost" or pick(CREATE_FAILURES, step[4])
    note(world, "create %d: %s", number, outcome)
    local create = world.fake.creates[number]
    if create and create.waiting then
        create:finish(CREATES[outcome])
    end
    world.model:create_ends(number, CREATE_CODES[outcome] or outcome)
end

function STEPS.finish_dispose(world, step)
    local numbers = {}
    for number = 1, #world.model.creates do
        local workspace = world.model.workspaces[number]
        if workspace and workspace.disposing then
            table.insert(numbers, number)
        end
    end
    if #numbers == 0 then
        return
    end
    local number, outcome = pick(numbers, step[2]), pick(DISPOSAL_ENDS, step[3])
    note(world, "disposal of %d: %s", number, outcome)
    local account = world.fake.accounts[number]
    if account and account.disposal and account.disposal.waiting then
        account.disposal:finish(DISPOSALS[outcome])
    end
    world.model:dispose_ends(number, outcome == "ok")
end

function STEPS.advance(world, step)
    local ms = pick({ 1, 300, 700, 1000, 1000 }, step[2])
    note(world, "advance %d", ms)
    world:advance(ms)
end

function STEPS.lose(world, step)
    local workspace = pick_workspace(world, step[2])
    if workspace then
        note(world, "lose %d", workspace)
        world.fake:lose(workspace)
        world.model:lose(workspace)
    end
end

function STEPS.dispose(world, step)
    local number = pick_workspace(world, step[2])
    if number then
        note(world, "dispose %d", number)
        local workspace = world.fake.accounts[number].workspace
        world.model:dispose(call(world, "dispose", workspace.dispose, workspace), number)
    end
end

function STEPS.collect(world, step)
    world:set_collection(pick(COLLECTION_PLANS, step[2]))
    note(world, "collect: %s", world.collection)
    world.model:collect_garbage(call(world, "collect", world.manager.collect_garbage, world.manager))
end

function STEPS.finish_collect(world, step)
    local numbers = {}
    for number = 1, world.model.collections do
        if world.model.collecting[number] then
            table.insert(numbers, number)
        end
    end
    if #numbers == 0 then
        return
    end
    local number, outcome = pick(numbers, step[2]), pick(COLLECTION_ENDS, step[3])
    note(world, "collection %d: %s", number, outcome)
    local collection = world.fake.collections[number]
    if collection and collection.waiting then
        collection:finish(COLLECTIONS[outcome])
    end
    world.model:collection_ends(number, COLLECTION_COUNTS[outcome] or outcome)
end

function STEPS.close(world, step)
    if step[2] % 3 > 0 then
        note(world, "close")
        world.model:close(call(world, "close", world.manager.close, world.manager))
        return
    end
    note(world, "close at once")
    local number = call(world, "close", world.manager.close, world.manager, { timeout_ms = 0 })
    world:settle()
    for _ = 1, 100 do
        if not world.answers[number] then -- the time limit is a timer of the core
            loop.pump(10)
            world:settle()
        end
    end
    world.model:close(number, true)
end

--- Does one step.
---@param step table a name and numbers
function World:take(step)
    STEPS[step[1]](self, step)
    self:settle()
end

--- Has everything go on that can.
function World:settle()
    if self.settings.tasks then
        -- A wait that has ended goes on when the other tasks had their turn.
        for _ = 1, 6 do
            coroutine.yield()
        end
    end
end

return worlds
