-- A host program that shares its root with others: makes workspaces, runs commands in them, checks every result,
-- disposes them and collects, all at random; for specs that kill it, or run several at the same time.
--
--   shared_host.lua folder seed rounds keep
--
-- Works for `rounds` rounds in each of four tasks, or without end when it is 0. With `keep` it then holds one
-- workspace, whose id is written to `<folder>/kept-<seed>`, and proves that it works for each line on stdin. A
-- wrong result is an error, exit code 1.

local folder, seed, rounds, keep = arg[1], tonumber(arg[2]), tonumber(arg[3]), arg[4]
local sandbox = require "chamvi.sandbox"
local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = folder .. "/workspaces" })

math.randomseed(seed)

local function work(task)
    local round = 0
    while rounds == 0 or round < rounds do
        round = round + 1
        local text = ("%d %d %d"):format(seed, task, round)
        local workspace = assert(provider:create({ run_id = text }))
        for _ = 1, math.random(0, 3) do
            assert(workspace:write_file("a/b/f", text))
            local result = assert(workspace:exec({
                "sh",
                "-c",
                "sleep 1000 >/dev/null 2>&1 & cat a/b/f; cat; mkdir -p $HOME/x $TMPDIR/y; exit 7",
            }, { stdin = text }))
            assert(result.stdout == text .. text and result.exit_code == 7, result.stdout)
            assert(assert(workspace:read_file("a/b/f")) == text)
        end
        if math.random(3) == 1 then
            assert(provider:collect_garbage() == 0) -- nothing of anybody is over
        end
        assert(workspace:dispose())
    end
end

local function write(path, text)
    local file = assert(io.open(path .. ".new", "w"))
    assert(file:write(text))
    assert(file:close())
    assert(os.rename(path .. ".new", path))
end

sandbox.run(function()
    local tasks = {}
    for task = 1, 4 do
        tasks[task] = sandbox.spawn(work, task)
    end
    for _, task in ipairs(tasks) do
        local _, err = task:join()
        assert(err == nil, err)
    end
end)
if keep then
    local workspace = assert(provider:create({ run_id = "kept" }))
    assert(workspace:write_file("f", "kept"))
    write(("%s/kept-%d"):format(folder, seed), workspace.id .. "\n")
    for line in io.lines() do
        assert(assert(workspace:exec({ "cat", "f" })).stdout == "kept")
        write(("%s/answer-%d"):format(folder, seed), line)
    end
    assert(workspace:dispose())
end
