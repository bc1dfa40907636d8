-- A host program for specs of how it begins and ends: makes a workspace with a daemon in it, starts a
-- command, writes what it saw to `<folder>/report` and ends in the way that is asked for.
--
--   host_program.lua folder ending

local folder, ending = arg[1], arg[2]
local sandbox = require "chamvi.sandbox"
local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = folder .. "/workspaces" })

local function report(text)
    local file = assert(io.open(folder .. "/report.new", "w"))
    file:write(text)
    file:close()
    os.rename(folder .. "/report.new", folder .. "/report")
end

local function start()
    local workspace = assert(provider:create({ run_id = "host" }))
    local result = assert(workspace:exec({
        "sh",
        "-c",
        [[
            setsid sleep 1000 >/dev/null 2>&1 &
            umask
            grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\t'
            ls /proc/self/fd | tr '\n' ' '
        ]],
    }))
    report(result.stdout .. "\n")
    return workspace
end

local endings = {}

function endings.dispose()
    assert(start():dispose())
end

function endings.finish()
    start()
end

function endings.raise()
    start()
    error("on purpose")
end

function endings.exit()
    start()
    os.exit(0)
end

function endings.close()
    start()
    os.exit(0, true)
end

function endings.parked()
    local workspace = start()
    sandbox.spawn(function()
        return workspace:exec({ "sleep", "1000" })
    end)
end

-- Ends while a workspace is being made: its record is there, its supervisor may not have read a word yet.
function endings.launching()
    sandbox.spawn(function()
        provider:create({ run_id = "host" })
    end)
    report("launching\n")
end

-- Ends while more is on its way to the supervisor than a socket holds.
function endings.writing()
    local workspace = start()
    for _ = 1, 4 do
        sandbox.spawn(function()
            workspace:write_file("file", ("x"):rep(1000000))
        end)
    end
end

function endings.killed()
    assert(start():exec({ "sleep", "1000" }))
end

-- Lua 5.4 only: the state is closed while a variable of the program waits to be closed, by `by(workspace)`.
local function close_state(by)
    assert(load([[
        local workspace, by = ...
        local closed <close> = workspace
        by(workspace)
    ]]))(start(), by)
end

function endings.close_in_task()
    close_state(function()
        sandbox.run(os.exit, 0, true)
    end)
end

function endings.close_in_callback()
    close_state(function(workspace)
        workspace:exec({ "sh", "-c", "echo x; sleep 1000" }, {
            on_output = function()
                os.exit(0, true)
            end,
        })
    end)
end

function endings.close_in_finalizer()
    close_state(function(workspace)
        setmetatable({}, {
            __gc = function()
                getmetatable(workspace).__close(workspace)
            end,
        })
        os.exit(0, true)
    end)
end

-- LuaJIT only: a child that holds everything open outlives the host; its pid is the report's first word.
function endings.forked()
    local ffi = require "ffi"
    ffi.cdef("int fork(void); int getpid(void); unsigned sleep(unsigned);")
    local workspace = start()
    if ffi.C.fork() == 0 then
        local result, err = workspace:exec({ "true" })
        report(("child %d %s %s"):format(ffi.C.getpid(), tostring(result), tostring(err)))
        ffi.C.sleep(600)
        os.exit(0)
    end
    assert(workspace:exec({ "sleep", "1000" }))
end

-- To be run with a low limit: a create with 0, 1, 2, ... descriptors left, until it succeeds three times.
function endings.descriptors()
    local lines, successes, free = {}, 0, 0
    while successes < 3 do
        local files = {}
        local file = io.open("/dev/null")
        while file do
            table.insert(files, file)
            file = io.open("/dev/null")
        end
        for _ = 1, free do
            table.remove(files):close()
        end
        local workspace, err = provider:create({ run_id = "host" })
        if workspace then
            successes = successes + 1
            assert(workspace:dispose())
        end
        for _, opened in ipairs(files) do
            opened:close()
        end
        table.insert(lines, ("%d %s"):format(free, workspace and "made" or err.code .. ": " .. err.message))
        free = free + 1
    end
    report(table.concat(lines, "\n") .. "\n")
end

endings[ending]()
