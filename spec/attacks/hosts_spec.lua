-- Several host programs on one root: side by side, and killed at any moment.

local core = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local LUA = jit and "luajit" or "lua5.4"
local KILLED = 50
local LIVING = 3
local LATE_MS = 1800001 -- past the lifetime of every workspace here

describe("hosts that share a root", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    before_each(function()
        scratch.shell(("rm -f %s/kept-* %s/answer-* %s/*.log %s/*.status"):format(
            place.folder, place.folder, place.folder, place.folder))
    end)

    -- Starts spec/support/shared_host.lua; its pid. It reads lines from the file `in-<seed>`, a fifo.
    local function start(seed, rounds, keep)
        local command = ("%s spec/support/shared_host.lua %s %d %d %s"):format(LUA, place.folder, seed, rounds,
            keep and ("keep <>%s/in-%d"):format(place.folder, seed) or "")
        if keep then
            scratch.shell(("mkfifo %s/in-%d"):format(place.folder, seed))
        end
        local text = scratch.shell(("exec %s >%s/%d.log 2>&1 & echo $!"):format(command, place.folder, seed))
        return tonumber(text:match("%d+"))
    end

    local function wait_for(what, limit_ms, condition)
        local deadline = core.monotonic_ms() + limit_ms
        local value = condition()
        while not value do
            assert(core.monotonic_ms() < deadline, "too late: " .. what)
            sandbox.sleep(20)
            value = condition()
        end
        return value
    end

    local function log(seed)
        return scratch.read(("%s/%d.log"):format(place.folder, seed))
    end

    -- Processes that have the root in their environment.
    local function commands()
        return scratch.shell(("grep -lsaF -- %s/ /proc/[0-9]*/environ || true"):format(place.root))
    end

    it("create, run, dispose and collect at the same time and never meet", function()
        local pids = {}
        for seed = 1, 3 do
            pids[seed] = start(seed, 12)
        end
        -- This one takes part.
        local provider = place.provider()
        sandbox.run(function()
            for round = 1, 12 do
                local workspace = assert(provider:create({ run_id = "spec" }))
                assert.equal(round .. "\n", assert(workspace:exec({ "echo", tostring(round) })).stdout)
                assert.equal(0, provider:collect_garbage())
                assert(workspace:dispose())
            end
        end)
        for seed, pid in ipairs(pids) do
            wait_for("the end of a host", 120000, function()
                return not scratch.is_alive(pid)
            end)
            assert.equal("", log(seed))
        end
        assert.same({}, scratch.list(place.root))
    end)

    it("collect the same expired workspaces at the same time: each goes once, and none fails", function()
        local program = place.folder .. "/collect.lua"
        scratch.write(program, ([[
            local core = require "chamvi.sandbox.core"
            local clock = { now = function() return core.now_ms() + %d end }
            local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = %q, clock = clock })
            print(assert(provider:collect_garbage()))
        ]]):format(LATE_MS, place.root))
        for _ = 1, 3 do
            for index = 10, 29 do
                local path = ("%s/000000%d-0000-4000-8000-000000000000"):format(place.root, index)
                scratch.shell(("mkdir -p %s/a/b/c %s.home %s.tmp; touch %s/a/f"):format(path, path, path, path))
                scratch.write(path .. ".json", '{"expires_at":1}')
            end
            local counts = scratch.shell(([[
                for i in 1 2 3 4; do %s %s & done; wait
            ]]):format(LUA, program))
            local sum = 0
            for count in counts:gmatch("%d+") do
                sum = sum + tonumber(count)
            end
            assert.is_nil(counts:find("[^%d\n]"), counts)
            assert.equal(20, sum) -- each is counted by the one that removed it
            -- One that saw another at work has left it to that one.
            assert.same({}, scratch.list(place.root))
        end
    end)

    it(("are killed, %d of them at any moment: what is left is what was alive"):format(KILLED), function()
        local living = {}
        for seed = 1, LIVING do
            living[seed] = start(seed, 1, true)
        end
        for seed = 1, LIVING do
            wait_for("a host that lives on", 60000, function()
                assert(scratch.is_alive(living[seed]), log(seed))
                return scratch.read(("%s/kept-%d"):format(place.folder, seed))
            end)
        end

        -- Five at a time, each killed up to 400 ms after its start.
        local batch = {}
        for index = 1, KILLED do
            local seed = 100 + index
            table.insert(batch, { seed = seed, pid = start(seed, 0) })
            if #batch == 5 then
                for _, host in ipairs(batch) do
                    sandbox.sleep(math.random(0, 80))
                    assert(scratch.is_alive(host.pid), log(host.seed))
                    scratch.shell("kill -KILL " .. host.pid)
                end
                batch = {}
            end
        end

        -- Its processes are dead without any collection; those of the living are not.
        local kept = {}
        for seed = 1, LIVING do
            local id = scratch.read(("%s/kept-%d"):format(place.folder, seed)):match("^%S+")
            for _, suffix in ipairs({ "", ".home", ".json", ".tmp" }) do
                table.insert(kept, id .. suffix)
            end
        end
        table.sort(kept)
        local function wait_for_death()
            wait_for("the death of what the killed hosts ran", 30000, function()
                return commands() == ""
            end)
        end
        wait_for_death()

        -- On a slow machine none had got as far as a workspace.
        local more = 0
        while more < 20 and #scratch.list(place.root) == #kept do
            more = more + 1
            local pid = start(200 + more, 0)
            wait_for("a workspace of a host", 60000, function()
                assert(scratch.is_alive(pid), log(200 + more))
                return #scratch.list(place.root) > #kept
            end)
            scratch.shell("kill -KILL " .. pid)
            wait_for_death()
        end

        -- Time has passed for the killed ones. For the living it has not: their records are renewed.
        assert.is_true(#scratch.list(place.root) > #kept)
        assert.equal(0, place.provider():collect_garbage())
        local later = ("{\"expires_at\":%d}"):format(core.now_ms() + 2 * LATE_MS)
        for _, name in ipairs(kept) do
            if name:find("%.json$") then
                scratch.write(place.root .. "/" .. name, later)
            end
        end
        local provider = place.provider({
            clock = {
                now = function()
                    return core.now_ms() + LATE_MS
                end,
            },
        })
        assert.is_true(assert(provider:collect_garbage()) > 0)
        assert.same(kept, scratch.list(place.root))

        for seed = 1, LIVING do
            local input = ("%s/in-%d"):format(place.folder, seed)
            scratch.shell(("echo again >%s"):format(input))
            wait_for("an answer of a host that lives on", 60000, function()
                return scratch.read(("%s/answer-%d"):format(place.folder, seed)) == "again"
            end)
            scratch.shell("kill -TERM " .. living[seed])
            wait_for("its end", 30000, function()
                return not scratch.is_alive(living[seed])
            end)
            os.remove(input)
        end
        wait_for("the end of everything", 30000, function()
            return commands() == ""
        end)
        scratch.shell(("rm -rf %s/*"):format(place.root))
    end)
end)
