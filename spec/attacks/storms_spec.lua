-- Fork storms: processes that start others all the time and leave their parents, sessions and groups. However the
-- workspace ends meanwhile, all of it is dead in time. Every process of a storm inherits the lock of one file, so
-- that none can hide.

local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local LUA = jit and "luajit" or "lua5.4"

-- Each ends by itself after a minute or more, should nobody end it, and none grows past some hundred processes.
local STORMS = {
    daemons = [[for i in $(seq 6000); do setsid sh -c 'sleep 3 & sleep 3' & sleep 0.01; done]],
    double_fork = [[
        perl -MPOSIX -e '
            for (1 .. 6000) {
                if (fork() == 0) { setsid(); if (fork() == 0) { %ENV = (); sleep 3; exit } POSIX::_exit(0) }
                wait; select(undef, undef, undef, 0.01);
            }']],
    subshells = [[f() { if [ $1 -gt 0 ]; then (sleep 3 & sleep 0.02; (f $(($1 - 1))) &) & fi; }; f 3000; sleep 60]],
    chain = [[
        perl -MPOSIX -e '
            $SIG{$_} = "IGNORE" for qw(TERM HUP INT QUIT USR1 USR2 ALRM);
            my $end = time + 60;
            while (time < $end) { my $pid = fork(); if ($pid) { POSIX::_exit(0) } setsid() }']],
    chains = [[
        perl -MPOSIX -e '
            fork() for 1 .. 3;
            my $end = time + 60;
            while (time < $end) { my $pid = fork(); POSIX::_exit(0) if $pid }']],
    own_reaper = [[
        perl -MPOSIX -e '
            syscall(`uname -m` =~ /aarch64/ ? 167 : 157, 36, 1, 0, 0, 0); # prctl(PR_SET_CHILD_SUBREAPER)
            for (1 .. 6000) {
                if (fork() == 0) { setsid(); fork(); sleep 3; exit }
                select(undef, undef, undef, 0.01);
            }']],
}
-- 2 s are promised on a machine that has nothing else to do; less than a storm lasts by itself.
local DEAD_WITHIN_MS = 40000

describe("a fork storm", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })
    local lock = place.folder .. "/lock"

    -- The command line of a storm that holds the lock.
    local function storm(name)
        return { "sh", "-c", ("exec 9>>%s; flock -s 9; echo raging; %s"):format(lock, STORMS[name]) }
    end

    local function is_dead()
        return scratch.shell(("flock -xn %s true && echo dead || true"):format(lock)) == "dead\n"
    end

    local function expect_death()
        local core = require "chamvi.sandbox.core"
        local deadline = core.monotonic_ms() + DEAD_WITHIN_MS
        while not is_dead() do
            assert(core.monotonic_ms() < deadline, "the storm lives on")
            sandbox.sleep(10)
        end
    end

    -- Starts all the storms in one workspace, each as a task, and waits until they rage.
    local function rage(workspace, names)
        local tasks, raging = {}, 0
        for index, name in ipairs(names) do
            tasks[index] = sandbox.spawn(function()
                return workspace:exec(storm(name), {
                    on_output = function()
                        raging = raging + 1
                    end,
                })
            end)
        end
        support.wait_until(function()
            return raging >= #names
        end, "storms that rage")
        sandbox.sleep(300)
        assert.is_false(is_dead())
        return tasks
    end

    local function expect_all(tasks, code)
        for _, task in ipairs(tasks) do
            local result, err = task:join()
            assert.is_nil(result)
            assert.equal(code, err.code)
        end
    end

    local ALL = {}
    for name in pairs(STORMS) do
        table.insert(ALL, name)
        it("of " .. name .. " ends with the disposal", function()
            local workspace = assert(place.provider():create({ run_id = "storm" }))
            sandbox.run(function()
                local tasks = rage(workspace, { name })
                assert(workspace:dispose())
                assert.is_true(is_dead())
                expect_all(tasks, "disposed")
            end)
        end)
    end

    it("of all kinds at once ends with the disposal, and leaves the next workspace alone", function()
        place.with(function(other)
            local workspace = assert(place.provider():create({ run_id = "storm" }))
            sandbox.run(function()
                local tasks = rage(workspace, ALL)
                assert.equal("calm\n", assert(other:exec({ "echo", "calm" })).stdout)
                assert(workspace:dispose())
                assert.is_true(is_dead())
                expect_all(tasks, "disposed")
            end)
            assert.equal("calm\n", assert(other:exec({ "echo", "calm" })).stdout)
        end)
    end)

    local killers = { supervisor = "kill -KILL $PPID", guard = "kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat)" }
    for what, line in pairs(killers) do
        it("ends when it kills the " .. what, function()
            local workspace = assert(place.provider():create({ run_id = "storm" }))
            sandbox.run(function()
                local tasks = rage(workspace, ALL)
                table.insert(tasks, sandbox.spawn(workspace.exec, workspace, { "sh", "-c", line .. "; sleep 60" }))
                expect_all(tasks, "transport_lost")
            end)
            expect_death()
            assert(workspace:dispose())
        end)
    end

    it("ends with a collection", function()
        local workspace = assert(place.provider():create({ run_id = "storm" }))
        local late = place.provider({
            clock = {
                now = function()
                    return workspace.info.expires_at
                end,
            },
        })
        sandbox.run(function()
            local tasks = rage(workspace, ALL)
            assert.equal(1, late:collect_garbage())
            assert.is_true(is_dead())
            expect_all(tasks, "transport_lost")
        end)
        assert(workspace:dispose())
    end)

    describe("of a host that is killed", function()
        local program = place.folder .. "/host.lua"

        after_each(function()
            scratch.shell(("rm -rf %s/*"):format(place.root))
        end)

        -- Runs the storms in a program of their own and kills it `ms` after they have begun.
        local function kill_host(names, ms)
            local started = place.folder .. "/started"
            os.remove(started)
            local lines = {}
            for _, name in ipairs(names) do
                local line = storm(name)[3]:gsub("echo raging", "echo >>" .. started)
                table.insert(lines, ("sandbox.spawn(workspace.exec, workspace, { 'sh', '-c', %q })"):format(line))
            end
            scratch.write(program, ([[
                local sandbox = require "chamvi.sandbox"
                local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = %q })
                sandbox.run(function()
                    local workspace = assert(provider:create({ run_id = "storm" }))
                    %s
                    sandbox.sleep(60000)
                end)
            ]]):format(place.root, table.concat(lines, "\n")))
            local pid = scratch.shell(("%s %s >/dev/null 2>&1 & echo $!"):format(LUA, program)):match("%d+")
            support.wait_until(function()
                return #(scratch.read(started) or "") == #names
            end, "storms that rage")
            sandbox.sleep(ms)
            scratch.shell("kill -KILL " .. pid)
            expect_death()
        end

        for _, ms in ipairs({ 0, 50, 400 }) do
            it(("ends in time, %d ms old"):format(ms), function()
                kill_host(ALL, ms)
            end)
        end

        it("ends in time, of whatever kind", function()
            for _, name in ipairs(ALL) do
                kill_host({ name }, 150)
            end
        end)
    end)
end)
