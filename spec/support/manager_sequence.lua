-- Random sequences of steps (manager_world.lua), after each of which manager and model are compared.

local errors = require "chamvi.sandbox.errors"
local loop = require "chamvi.sandbox.loop"
local sandbox = require "chamvi.sandbox"
local worlds = require "spec.support.manager_world"

local sequence = {}

-- After Park and Miller: the same numbers on every Lua.
--- A function `draw(n)` that gives a whole number from 0 to n - 1.
---@param seed integer
---@return fun(n: integer): integer
function sequence.generator(seed)
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

local WEIGHTS = {
    acquire = 36, get = 6, get_one = 6, release_one = 6, release_run = 4, abort = 6, finish_create = 24,
    finish_dispose = 8, advance = 9, lose = 3, dispose = 2, collect = 3, finish_collect = 3, close = 1,
}

--- The keys of a table, each as often as its value says, in an order that stays.
---@param weights table<string, integer>
---@return string[]
function sequence.names(weights)
    local sorted, names = {}, {}
    for name in pairs(weights) do
        table.insert(sorted, name)
    end
    table.sort(sorted)
    for _, name in ipairs(sorted) do
        for _ = 1, weights[name] do
            table.insert(names, name)
        end
    end
    return names
end

local NAMES = sequence.names(WEIGHTS)

-- --- Comparison ----------------------------------------------------------------------------------

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
            expect("lifetime of a create", worlds.LIFETIME_MS, step.request.limits.timeout_ms)
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

-- Ends all that is going on, closes, collects what disposals have failed to remove, and looks for anything left.
local function wind_up(world)
    local model = world.model
    local function take(...)
        world:take({ ... })
        compare(world)
    end

    world:advance(worlds.LIFETIME_MS)
    world:set_collection("ok")
    local last = { { "close", 1 }, { "collect", 0 } }
    while true do
        local busy = false
        for _, create in ipairs(model.creates) do
            if not create.ended then
                take("finish_create", 0, 0, 0)
            end
        end
        for _, workspace in pairs(model.workspaces) do
            busy = busy or workspace.disposing
        end
        if busy then
            take("finish_dispose", 0, 0)
        elseif next(model.collecting) then
            take("finish_collect", 0, 0)
        elseif #last > 0 then
            world:take(table.remove(last, 1))
            compare(world)
        else
            break
        end
    end

    expect("calls without an answer", 0, #world.open)
    for number, signal in pairs(world.signals) do
        expect(("listeners on the signal of call %d"):format(number), 0, #signal._listeners)
    end
    for _, err in ipairs(world.reported) do
        expect("a reported failure is an error", true, errors.is_error(err))
    end
    expect("runs still known", nil, next(world.manager._state.runs.by_id))
    world.fake:assert_nothing_left()
end

local function play(settings, steps, noting)
    local world = worlds.new(settings)
    world.noting = noting
    local function act()
        for _, step in ipairs(steps) do
            world:take(step)
            compare(world)
        end
        wind_up(world)
    end
    local ok, err
    if settings.tasks then
        ok, err = pcall(sandbox.run, act)
    else
        ok, err = pcall(act)
    end
    loop.pump(0) -- the timers that closes have given up
    if not ok then
        return type(err) == "table" and err.mismatch or tostring(err), world.log
    end
end

-- --- For specs -----------------------------------------------------------------------------------

--- A random sequence.
---@param seed integer
---@return table settings
---@return table[] steps
function sequence.generate(seed)
    local draw = sequence.generator(seed)
    local settings = {
        cap = draw(3) + 1,
        gc_interval_ms = draw(4) == 0 and 300 or 0,
        tasks = draw(8) == 0,
    }
    local steps = {}
    for index = 1, 3 + draw(20) do
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

local function without(list, index)
    local rest = {}
    for position, step in ipairs(list) do
        if position ~= index then
            table.insert(rest, step)
        end
    end
    return rest
end

--- Leaves steps out of a failing sequence as long as it still fails, and describes what is left.
---@return string
function sequence.explain(settings, steps)
    local index = #steps
    while index > 0 do
        local rest = without(steps, index)
        if play(settings, rest, false) then
            steps = rest
        end
        index = math.min(index - 1, #steps)
    end
    local mismatch, log = play(settings, steps, true)
    return ("%s\nsettings: cap %d, gc_interval_ms %d, %s\n%s"):format(mismatch, settings.cap, settings.gc_interval_ms,
        settings.tasks and "tasks" or "jobs", table.concat(log, "\n"))
end

return sequence
