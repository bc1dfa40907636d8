-- Random sequences of what can happen to a manager, done to a real one over the fake provider and to the model
-- (manager_model.lua), which are compared after each step.
--
-- A step is a name and some numbers, from which it picks what it acts on among what is there then. So a sequence still
-- means something when steps are left out of it, which is how a failing one is shrunk.

local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local fake_provider = require "spec.support.fake_provider"
local loop = require "chamvi.sandbox.loop"
local models = require "spec.support.manager_model"
local sandbox = require "chamvi.sandbox"
local task = require "chamvi.sandbox.task"

local sequence = {}

local START = 1700000000000
local LIFETIME_MS = 1000
local DENIED = "https://github.com/denied/repo.git"

-- Park and Miller's generator: the same numbers on every Lua.
local function generator(seed)
    local state = seed % 2147483646 + 1
    local function draw(n)
        state = state * 16807 % 2147483647
        return state % n
    end
    for _ = 1, 3 do
        draw(1) -- nearby seeds begin alike
    end
    return draw
end

-- --- What steps pick from ------------------------------------------------------------------------

local RUNS = { "run-a", "run-b" }

local A, B = "https://github.com/owner/a.git", "https://git.example.com/b"
local INPUTS = {
    {},
    {},
    {},
    { repo = A, given = "owner/a" },
    { repo = A, given = "owner/a" },
    { repo = A, given = "HTTPS://GitHub.com/owner/a/" },
    { repo = A, given = "owner/a", ref = "main" },
    { repo = A, given = "owner/a", ref = "main" },
    { repo = A, given = "owner/a", ref = "dev" },
    { repo = B, given = B },
    { repo = B, given = B, ref = "main" },
    { repo = B, given = B .. "/" },
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
local CREATE_FAILURES = { "checkout_failed", "image_unavailable", "raised", "nothing", "no_error", "no_workspace", "number" }

local DISPOSALS = {
    ok = { "succeed" },
    wait = { "wait" },
    failed = { "fail", errors.sandbox("remove_failed", "planned: disposal fails") },
    raised = { "raise", "planned: disposal raises" },
    nothing = { "give" },
}
local DISPOSAL_PLANS = { -- of one workspace, attempt by attempt; then they succeed
    {}, {}, {}, { "wait" }, { "wait" }, { "wait", "wait" }, { "failed" }, { "raised" }, { "nothing" }, { "failed", "failed" },
    { "wait", "failed" },
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

local function pick(list, number)
    return list[number % #list + 1]
end

-- --- Both sides ----------------------------------------------------------------------------------

---@class spec.World
local World = {}
World.__index = World

local function new_world(settings)
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
        open = {}, -- those that either side has not answered
        answers = {}, -- by call, of the real manager
        signals = {}, -- by call
        reported = {},
        collection = "ok",
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
        return ("workspace %d %s"):format(number_of(workspace), how == true and "reused" or how == false and "new" or "?")
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

function STEPS.acquire(world, step)
    local run_id, input = pick(RUNS, step[2]), pick(INPUTS, step[3])
    local signal
    if step[4] % 2 == 0 then
        signal = sandbox.signal()
    end
    -- Which of two reasons to refuse a call comes first is nobody's business.
    if step[4] % 20 == 0 and not input.wrong and not world.model.closed then
        signal:abort("planned")
    end
    if world.model.closed and input.wrong then
        input = INPUTS[1]
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

-- One of the workspaces that ever were there.
local function pick_workspace(world, number)
    local numbers = {}
    for index = 1, #world.model.creates do
        if world.model.workspaces[index] then
            table.insert(numbers, index)
        end
    end
    return #numbers > 0 and pick(numbers, number) or nil
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
    local run_id, workspace = pick(RUNS, step[2]), pick_workspace(world, step[3])
    note(world, "get %s %s", run_id, tostring(workspace))
    local id = id_of(world, workspace) or "unknown"
    world.model:get(call(world, "get", world.manager.get, world.manager, run_id, id), run_id, workspace or 0)
end

function STEPS.release_one(world, step)
    local run_id, workspace = pick(RUNS, step[2]), pick_workspace(world, step[3])
    note(world, "release %s %s", run_id, tostring(workspace))
    local id = id_of(world, workspace) or "unknown"
    world.model:release(call(world, "release", world.manager.release, world.manager, run_id, id), run_id, workspace or 0)
end

function STEPS.release_run(world, step)
    local run_id = pick(RUNS, step[2])
    note(world, "release %s", run_id)
    world.model:release_run(call(world, "release_run", world.manager.release, world.manager, run_id), run_id)
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
    local ms = pick({ 1, 400, 600, 1000 }, step[2])
    note(world, "advance %d", ms)
    world.clock.time = world.clock.time + ms
    world.model:advance(ms)
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

local function set_collection(world, outcome)
    world.collection = outcome
    world.model.next_collection = COLLECTION_COUNTS[outcome] or outcome
end

function STEPS.collect(world, step)
    set_collection(world, pick(COLLECTION_PLANS, step[2]))
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

function STEPS.close(world)
    note(world, "close")
    world.model:close(call(world, "close", world.manager.close, world.manager))
end

local WEIGHTS = {
    acquire = 34, get = 6, get_one = 8, release_one = 8, release_run = 5, abort = 8, finish_create = 18, finish_dispose = 10,
    advance = 6, lose = 5, dispose = 2, collect = 3, finish_collect = 4, close = 1,
}

local NAMES = {} -- each as often as its weight says
do
    local sorted = {}
    for name in pairs(WEIGHTS) do
        table.insert(sorted, name)
    end
    table.sort(sorted)
    for _, name in ipairs(sorted) do
        for _ = 1, WEIGHTS[name] do
            table.insert(NAMES, name)
        end
    end
end

-- --- Comparison ----------------------------------------------------------------------------------

-- In tasks, a wait that has ended goes on when the others had their turn.
local function settle(world)
    if world.settings.tasks then
        for _ = 1, 6 do
            coroutine.yield()
        end
    end
end

local function expect(what, wanted, got)
    if wanted ~= got then
        error({ mismatch = ("%s: the model says %s, the manager %s"):format(what, tostring(wanted), tostring(got)) }, 0)
    end
end

local function compare(world)
    local model, fake = world.model, world.fake
    local open = {}
    for _, number in ipairs(world.open) do
        local wanted, got = model.answers[number], world.answers[number]
        if wanted ~= got then
            expect(("answer of call %d"):format(number), wanted, got)
        end
        if wanted == nil then
            open[#open + 1] = number
        end
    end
    world.open = open

    if fake.created ~= #model.creates then
        expect("creates", #model.creates, fake.created)
    end
    for number, create in ipairs(model.creates) do
        local step = fake.creates[number]
        if not create.compared then
            create.compared = true
            expect("run of a create", create.run_id, step.request.run_id)
            expect("repo of a create", create.repo, step.request.repo)
            expect("ref of a create", create.ref, step.request.ref)
            expect("lifetime of a create", LIFETIME_MS, step.request.limits.timeout_ms)
        end
        if not create.ended and create.aborted ~= step.signal.aborted then
            expect(("create %d aborted"):format(number), create.aborted, step.signal.aborted)
        end
        local workspace, account = model.workspaces[number], fake.accounts[number]
        if workspace or account then
            if not (workspace and account) then
                expect(("workspace %d there"):format(number), workspace ~= nil, account ~= nil)
            end
            if workspace.alive ~= account.alive then
                expect(("workspace %d alive"):format(number), workspace.alive, account.alive)
            end
            if workspace.disposed ~= account.workspace.disposed then
                expect(("workspace %d disposed"):format(number), workspace.disposed, account.workspace.disposed)
            end
            if workspace.attempts ~= account.attempts then
                expect(("disposals of %d"):format(number), workspace.attempts, account.attempts)
            end
        end
    end
    if model.collections ~= #fake.collections then
        expect("collections", model.collections, #fake.collections)
    end
    if model.reported ~= #world.reported then
        expect("failures to on_error", model.reported, #world.reported)
    end
end

-- Ends all that is going on, closes, and looks for anything left.
local function wind_up(world)
    world.clock.time = world.clock.time + LIFETIME_MS
    world.model:advance(LIFETIME_MS)
    note(world, "the end")
    set_collection(world, "ok")
    local closed = false
    while true do
        for number, create in ipairs(world.model.creates) do
            if not create.ended then
                STEPS.finish_create(world, { "finish_create", 0, 0, 0 })
                settle(world)
                assert(world.model.creates[number].ended)
                compare(world)
            end
        end
        local busy = false
        for _, workspace in pairs(world.model.workspaces) do
            busy = busy or workspace.disposing
        end
        if busy then
            STEPS.finish_dispose(world, { "finish_dispose", 0, 0 })
        elseif next(world.model.collecting) then
            STEPS.finish_collect(world, { "finish_collect", 0, 0 })
        elseif not closed then
            closed = true
            STEPS.close(world)
        else
            break
        end
        settle(world)
        compare(world)
    end
    expect("calls without an answer", 0, #world.open)
    for number, signal in pairs(world.signals) do
        expect(("listeners on the signal of call %d"):format(number), 0, #signal._listeners)
    end
    for _, err in ipairs(world.reported) do
        expect("a reported failure is an error", true, errors.is_error(err))
    end
    -- What disposals have failed to remove is left for a collection.
    assert(world.fake:collect_garbage())
    world.fake:assert_nothing_left()
end

local function play(settings, steps, noting)
    local world = new_world(settings)
    world.noting = noting
    local function act()
        for _, step in ipairs(steps) do
            STEPS[step[1]](world, step)
            settle(world)
            compare(world)
        end
        wind_up(world)
    end
    local ok, err = pcall(settings.tasks and sandbox.run or task.wait, settings.tasks and act or task.start(act))
    loop.pump(0) -- what close has started for its time limit
    if ok then
        return nil
    end
    return type(err) == "table" and err.mismatch or tostring(err), world.log
end

-- --- For specs -----------------------------------------------------------------------------------

--- A random sequence.
---@param seed integer
---@return table settings
---@return table[] steps
function sequence.generate(seed)
    local draw = generator(seed)
    local settings = {
        cap = draw(3) + 1,
        gc_interval_ms = draw(4) == 0 and 500 or 0,
        tasks = draw(8) == 0,
    }
    local steps = {}
    for index = 1, 3 + draw(12) do
        local step = { NAMES[draw(#NAMES) + 1] }
        for position = 2, 7 do
            step[position] = draw(10000)
        end
        steps[index] = step
    end
    return settings, steps
end

--- Plays a sequence.
---@return string|nil mismatch nil when manager and model agreed to the end and nothing was left
function sequence.play(settings, steps)
    return (play(settings, steps, false))
end

--- Leaves steps out of a failing sequence as long as it still fails, and describes what is left.
---@return string
function sequence.explain(settings, steps)
    local function without(list, index)
        local rest = {}
        for position, step in ipairs(list) do
            if position ~= index then
                table.insert(rest, step)
            end
        end
        return rest
    end

    local index = #steps
    while index > 0 do
        local rest = without(steps, index)
        if play(settings, rest) then
            steps = rest
        end
        index = math.min(index - 1, #steps)
    end
    local mismatch, log = play(settings, steps, true)
    return ("%s\nsettings: cap %d, gc_interval_ms %d, %s\n%s"):format(tostring(mismatch), settings.cap,
        settings.gc_interval_ms, settings.tasks and "tasks" or "jobs", table.concat(log or {}, "\n"))
end

return sequence
