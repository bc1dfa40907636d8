-- Runs out of descriptors, of processes or of the size that files may have, and prints a line for each thing that it
-- tries then.
--
--   limits_program.lua folder descriptors
--   limits_program.lua folder processes       as a user who has no other process
--   limits_program.lua folder sizes

local folder, what = arg[1], arg[2]
local sandbox = require "chamvi.sandbox"
local root = folder .. "/workspaces"
local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = root })

local function outcome(value, err)
    if type(value) == "table" then
        return value.exit_code and "exit " .. value.exit_code or "made"
    end
    return value and "ok" or err.code .. ": " .. err.message
end

local function report(name, ...)
    print(name .. "\t" .. outcome(...))
end

local CROWD = 60

-- Many commands at once, of which none ends before all have begun that can: how each ended, each kind once.
local function crowd(workspace)
    assert(workspace:exec({ "mkfifo", "gate" }))
    local gate = assert(io.open(assert(workspace:exec({ "pwd" })).stdout:match("[^\n]+") .. "/gate", "r+"))
    local kinds, tasks, known = {}, {}, 0
    local function has_begun_or_failed()
        known = known + 1
        if known == CROWD then
            gate:write(("\n"):rep(CROWD))
            gate:flush()
        end
    end
    for index = 1, CROWD do
        tasks[index] = sandbox.spawn(function()
            local result, err = workspace:exec({ "sh", "-c", "echo begun; read -r _ <gate" }, {
                on_output = has_begun_or_failed,
            })
            if not result then
                has_begun_or_failed()
            end
            kinds[outcome(result, err)] = true
        end)
    end
    for _, task in ipairs(tasks) do
        assert(task:join() == nil)
    end
    gate:close()
    local list = {}
    for kind in pairs(kinds) do
        table.insert(list, kind)
    end
    table.sort(list)
    for _, kind in ipairs(list) do
        print("crowd\t" .. kind)
    end
end

local tries = {}

-- The supervisor has as many as the host may have at most; the host itself has none left.
function tries.descriptors()
    local workspace = assert(provider:create({ run_id = "spec" }))
    sandbox.run(crowd, workspace)
    report("exec", workspace:exec({ "true" }))

    local files = {}
    repeat
        local file = io.open("/dev/null")
        table.insert(files, file)
    until not file
    report("exec", workspace:exec({ "true" }, { stdin = "x" }))
    report("write_file", workspace:write_file("f", "x"))
    report("read_file", workspace:read_file("f"))
    report("create", provider:create({ run_id = "spec" }))
    report("collect_garbage", provider:collect_garbage())
    report("dispose", workspace:dispose())
end

-- Fewer from one try to the next.
function tries.processes()
    local pid = io.open("/proc/self/stat"):read("*n")
    for limit = 6, 1, -1 do
        assert(os.execute(("exec prlimit --pid %d --nproc=%d"):format(pid, limit)))
        local workspace, err = provider:create({ run_id = "spec" })
        report(limit .. " create", workspace, err)
        if workspace then
            sandbox.run(crowd, workspace)
            report(limit .. " dispose", workspace:dispose())
        end
    end
end

-- No file may be larger than some blocks, then none than 0 bytes.
function tries.sizes()
    local pid = io.open("/proc/self/stat"):read("*n")
    local function limit(bytes)
        assert(os.execute(("exec prlimit --pid %d --fsize=%d:"):format(pid, bytes)))
    end
    limit(4096)
    local workspace = assert(provider:create({ run_id = "spec" }))
    report("write_file", workspace:write_file("f", ("x"):rep(4096)))
    report("write_file", workspace:write_file("f", ("y"):rep(4097)))
    report("exec", workspace:exec({ "grep", "-q", "x", "f" }))
    report("exec", workspace:exec({ "sh", "-c", "head -c 5000 /dev/zero > g" }))
    report("dispose", workspace:dispose())
    limit(0)
    report("create", provider:create({ run_id = "spec" }))
    report("create", provider:create({ run_id = "spec" }))
end

tries[what]()
