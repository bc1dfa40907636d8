-- What only copas can show: copas_cases.lua CASE FOLDER. Each case prints what came of it.

local copas = require "copas"
local socket = require "socket"

local folder = arg[2]

local function new_provider()
    return require("chamvi.sandbox.local").create_local_sandbox({ root = folder .. "/workspaces" })
end

local function run_until(condition)
    while not condition() do
        copas.step(1)
    end
end

local cases = {}

function cases.readme()
    dofile(folder .. "/readme.lua")
end

-- A handler whose last wait was for a command: its client is closed as after any other.
function cases.handler()
    require "chamvi.sandbox"
    local provider, closed = new_provider(), nil
    local server = assert(socket.bind("127.0.0.1", 0))
    local address, port = server:getsockname()
    copas.addserver(server, function(client)
        local workspace = assert(provider:create({ run_id = "handler" }))
        local line = copas.receive(client)
        copas.send(client, assert(workspace:exec({ "echo", line })).stdout)
        assert(workspace:dispose())
    end)
    copas.addthread(function()
        local client = assert(socket.tcp4())
        assert(copas.connect(client, address, port))
        copas.send(client, "line\n")
        print(copas.receive(client, "*a"))
        closed = true
    end)
    run_until(function()
        return closed
    end)
end

-- A thread that was made by the program.
function cases.thread()
    local sandbox = require "chamvi.sandbox"
    local turns, over = 0, false
    copas.addthread(coroutine.create(function()
        assert(sandbox.sleep(20))
        over = true
    end))
    run_until(function()
        turns = turns + 1
        return over
    end)
    print(turns > 1 and "parked" or "blocked")
end

-- A thread that began before the library was loaded is no task, and blocks.
function cases.too_early()
    local parked, ran
    copas.addthread(function()
        local sandbox = require "chamvi.sandbox"
        parked = true
        assert(sandbox.sleep(20))
        parked, ran = false, true
    end)
    print(parked and "parked" or "blocked", ran)
end

-- What is spawned before the loop runs goes on there, or while somebody joins.
function cases.outside()
    local sandbox = require "chamvi.sandbox"
    local provider = new_provider()
    local function work(word)
        local workspace = assert(provider:create({ run_id = word }))
        local stdout = assert(workspace:exec({ "echo", word })).stdout
        assert(workspace:dispose())
        return (stdout:gsub("\n", ""))
    end
    local joined, stepped = sandbox.spawn(work, "joined"), sandbox.spawn(work, "stepped")
    print(joined:join())
    run_until(function()
        return stepped.done
    end)
    print(stepped:join())
    print(sandbox.run(function()
        return sandbox.spawn(work, "in run"):join()
    end))
    local outer = sandbox.spawn(work, "joined in run")
    print(sandbox.run(function()
        return outer:join()
    end))
end

-- With descriptors in use up to what select can watch. (To be run with a higher limit.)
function cases.descriptors()
    local sandbox = require "chamvi.sandbox"
    local files = {}
    for index = 1, socket._SETSIZE do
        files[index] = assert(io.open("/dev/null"))
    end
    local _, err = pcall(sandbox.sleep, 1)
    print(sandbox.is_error(err, "SandboxError"), err.code, (err.message:gsub("descriptor %d+", "descriptor N")))
    _, err = pcall(sandbox.spawn, print)
    print(err.code, #files)
end

-- LuaJIT only: a child that goes on with the loop. What waits in it is told.
function cases.forked()
    local sandbox = require "chamvi.sandbox"
    local ffi = require "ffi"
    ffi.cdef("int fork(void); int waitpid(int, int *, int); void _exit(int);")
    local in_child, over
    copas.addthread(function()
        local ok, err = pcall(sandbox.sleep, 100)
        io.write(in_child and "child: " or "parent: ", tostring(ok), " ", tostring(err), "\n")
        io.flush()
        if in_child then
            ffi.C._exit(0)
        end
        over = true
    end)
    local pid = ffi.C.fork()
    in_child = pid == 0
    if not in_child then
        ffi.C.waitpid(pid, nil, 0)
    end
    run_until(function()
        return over
    end)
end

cases[arg[1]]()
