-- What only cqueues can show: cqueues_cases.lua CASE FOLDER. Each case prints what came of it.

local cqueues = require "cqueues"
local host = require "chamvi.sandbox.host"
local local_sandbox = require "chamvi.sandbox.local"
local sandbox = require "chamvi.sandbox"

local folder = arg[2]
local provider = local_sandbox.create_local_sandbox({ root = folder .. "/workspaces" })

local cases = {}

function cases.readme()
    dofile(folder .. "/readme.lua")
end

-- The last operation ends while a coroutine that is no task blocks, at once or after some turns of the loop; then
-- nothing keeps the loop.
function cases.ends_when_idle()
    for turns = 1, 3 do
        local controller, begun = cqueues.new(), false
        controller:wrap(function()
            sandbox.async(function()
                begun = true
                return sandbox.sleep(100)
            end, print)
            repeat
                cqueues.sleep(0)
            until begun
            for _ = 2, turns do
                cqueues.sleep(0)
            end
            coroutine.wrap(function()
                sandbox.sleep(200)
            end)()
        end)
        assert(controller:loop())
    end
    print("ended")
end

-- Began in a controller that nobody steps any more, and is waited for in another.
function cases.two_controllers()
    local manager = sandbox.create_workspace_manager({ provider = provider, gc_interval_ms = 0 })
    local left, used = cqueues.new(), cqueues.new()
    left:wrap(function()
        manager:acquire("run")
        print("not reached")
    end)
    assert(left:step(0))
    used:wrap(function()
        local workspace = assert(manager:acquire("run"))
        print((assert(workspace:exec({ "echo", "used" })).stdout:gsub("\n", "")))
        assert(manager:release("run"))
        manager:close()
    end)
    assert(used:loop())
end

-- The library's loop as an object that cqueues polls, with the tasks of plain Lua.
function cases.pollable()
    host.use("script")
    local controller, result = cqueues.new(), nil
    sandbox.async(function()
        local workspace = assert(provider:create({ run_id = "pollable" }))
        local stdout = assert(workspace:exec({ "echo", "polled" })).stdout
        assert(workspace:dispose())
        return stdout
    end, function(...)
        result = { ... }
    end)
    controller:wrap(function()
        local loop = sandbox.loop()
        repeat
            cqueues.poll(loop)
            assert(loop:step())
        until result
    end)
    assert(controller:loop())
    io.write(result[1])
end

-- A join of what waits for the one that joins, by `all` and by `run`; and a failed task that nobody holds any more.
function cases.tasks()
    local controller = cqueues.new()
    controller:wrap(function()
        local waiting
        local function join()
            return waiting:join()
        end
        waiting = sandbox.spawn(function()
            return sandbox.all({ join })[1][2]
        end)
        print((waiting:join():match("deadlock")))
        waiting = sandbox.spawn(function()
            return sandbox.run(function()
                sandbox.sleep(1)
                return select(2, pcall(join)):match("deadlock"), select(2, sandbox.spawn(join):join()):match("deadlock")
            end)
        end)
        print(waiting:join())
        waiting = nil
        sandbox.spawn(error, "lost", 0)
    end)
    assert(controller:loop())
    io.stdout:flush()
    collectgarbage()
    collectgarbage()
end

-- Outside of a controller, where the host was picked by name.
function cases.picked()
    host.use("cqueues")
    local begun, result = false, nil
    local task = sandbox.spawn(function()
        begun = true
        return sandbox.sleep(1) and "spawned"
    end)
    print(begun, task:join())
    sandbox.async(function()
        return sandbox.sleep(1) and "called back"
    end, function(value)
        result = value
    end)
    repeat
        assert(sandbox.loop():step(1000))
    until result
    print(result)
end

-- LuaJIT only: a child that goes on with the loop. What waits in it is told.
function cases.forked()
    local ffi = require "ffi"
    ffi.cdef("int fork(void); int waitpid(int, int *, int); void _exit(int);")
    local controller = cqueues.new()
    local in_child
    controller:wrap(function()
        local ok, err = pcall(sandbox.sleep, 100)
        io.write(in_child and "child: " or "parent: ", tostring(ok), " ", tostring(err), "\n")
        io.flush()
        if in_child then
            ffi.C._exit(0)
        end
    end)
    assert(controller:step(0))
    local pid = ffi.C.fork()
    in_child = pid == 0
    if not in_child then
        ffi.C.waitpid(pid, nil, 0)
    end
    assert(controller:loop())
end

cases[arg[1]]()
