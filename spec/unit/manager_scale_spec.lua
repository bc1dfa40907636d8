-- What many runs cost a manager: work in proportion to their number, and no memory once they are over.

local fake_provider = require "spec.support.fake_provider"
local sandbox = require "chamvi.sandbox"

local RUNS = 10000

-- Counts the instructions of the virtual machine in `fn`, in tens, those of the coroutines that it makes included.
-- luacheck: globals coroutine.create
local function work_of(fn)
    local create, count = coroutine.create, 0
    local function hook()
        count = count + 1
    end
    local compiling = jit and jit.status()
    if compiling then
        jit.off() -- compiled code calls no hook, also what earlier specs have left
        jit.flush()
    end
    coroutine.create = function(body)
        local thread = create(body)
        debug.sethook(thread, hook, "", 10)
        return thread
    end
    debug.sethook(hook, "", 10)
    local ok, err = pcall(fn)
    debug.sethook()
    coroutine.create = create
    if compiling then
        jit.on()
    end
    assert(ok, err)
    return count
end

-- In bytes, without compiled code, of which there may be more at any time; tables and strings that are left with much
-- room give it up over several rounds.
local function memory()
    if jit then
        jit.flush()
    end
    for _ = 1, 8 do
        collectgarbage()
    end
    return collectgarbage("count") * 1024
end

local function new_manager()
    local fake = fake_provider.new({ forgetful = true })
    return sandbox.create_workspace_manager({ provider = fake, clock = fake.clock }), fake
end

local function acquire(manager, index)
    local run_id = "run-" .. index
    local workspace = assert(manager:acquire(run_id))
    assert.equal(workspace, manager:acquire(run_id))
    assert.equal(workspace, manager:get(run_id, workspace.id))
    assert(manager:acquire(run_id, { repo = "owner/name" }))
end

local function release(manager, index)
    assert.is_true(manager:release("run-" .. index))
end

-- Much plain Lua, and memory that a sanitizer keeps for a while.
describe("many runs of a manager #unsanitized", function()
    it("cost work in proportion to their number", function()
        -- All are held at once before the first is released.
        local function work(runs)
            local manager, fake = new_manager()
            local count = work_of(function()
                for index = 1, runs do
                    acquire(manager, index)
                end
                for index = 1, runs do
                    release(manager, index)
                end
            end)
            assert.equal(2 * runs, fake.created)
            fake:assert_nothing_left()
            return count / runs
        end
        local few, many = work(RUNS / 10), work(RUNS)
        assert.is_true(few > 10)
        assert.is_true(many < few * 1.2, ("%.1f for each of %d runs, %.1f for each of %d"):format(
            few, RUNS / 10, many, RUNS))
    end)

    it("leave no memory behind", function()
        local ended = 0

        -- All runs side by side, twice; then the manager is closed. Gives what the second time has added.
        local function use_manager()
            local manager, fake = new_manager()
            function fake.plan_dispose()
                return { "turns", 1 }
            end
            local function use(index)
                assert(manager:acquire("run-" .. index))
                sandbox.sleep(0)
                release(manager, index)
                ended = ended + 1
            end
            local before, after
            for wave = 1, 2 do
                sandbox.run(function()
                    for index = 1, RUNS do
                        sandbox.spawn(use, wave * RUNS + index)
                    end
                end)
                fake:assert_nothing_left()
                before, after = after, memory()
            end
            assert.is_true(manager:close())
            return after - before
        end

        use_manager() -- the library's own tables have the room that they need now
        local start = memory()
        local grown = use_manager()
        local left = memory() - start
        assert.equal(4 * RUNS, ended)
        -- An empty table for each run and its entry in another one would be more.
        assert.is_true(grown < 64 * RUNS, ("%.1f bytes more for each further run"):format(grown / RUNS))
        assert.is_true(left < 16 * RUNS, ("%.1f bytes left for each run"):format(left / RUNS))
    end)
end)
