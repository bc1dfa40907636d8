-- Commands that attack the two processes that look after their workspace, and each other. What holds: they can't
-- reach into them, so no frame is forged; one that is dead, stopped or starved is an error in time; and after
-- the disposal nothing is left.

local other_user = require "spec.support.other_user"
local scratch = require "spec.support.scratch"

-- Nobody's, so that limits for all processes of a user touch nobody.
local USER = 61234
-- The host's patience with a silent supervisor is 20 to 25 s; the rest is for a busy machine.
local LATE_MS = 50000
local SOON_MS = 19000

-- Of a user's host, and of one that runs as root too. $S: supervisor, $G: guard, $A: spec/support/attacker.c.
local REFUSED = {
    reach = "$A reach $S && $A reach $G",
    -- The same by a process that may: shows that the attempts are real.
    reach_own = "sleep 60 & $A reach $! | wc -l; kill $!",
    trace = "$A trace $S; $A trace $G; exit 3",
}
local HARMLESS = {
    stop_guard = "kill -STOP $G",
    turns = "$A starve $S turns && $A starve $G turns",
    guard_nofile = "$A starve $G nofile",
    guard_as = "$A starve $G as",
    guard_nproc = "$A starve $G nproc",
    other_signals = "for s in HUP INT TERM PIPE XCPU XFSZ ALRM; do kill -$s $S; done; kill -HUP $G; kill -ALRM $G",
}
local STARVING = {
    nofile = "$A starve $S nofile",
    nproc = "$A starve $S nproc",
    as = "$A starve $S as",
    data = "$A starve $S data",
    stack = "$A starve $S stack",
    fsize = "$A starve $S fsize",
}
local DEADLY = {
    kill_supervisor = "kill -KILL $S; sleep 60",
    stop_supervisor = "kill -STOP $S; sleep 60",
    kill_guard = "kill -KILL $G; sleep 60",
    term_guard = "kill -TERM $G; sleep 60",
}
-- At once when a second of a processor's time is used up, which takes what it takes.
local USING_UP = {
    cpu_used_up = "$A starve $S cpu; while :; do head -c 100000000 /dev/zero; done",
}
local SILENCING = {
    stop_both = "kill -STOP $G $S; sleep 60",
    keep_stopping = "$A stop $G $S",
    stop_and_kill = "kill -STOP $G; kill -KILL $S; sleep 60",
}
-- Commands of one workspace can disturb each other.
local NEIGHBOURLY = {
    write_to_other = "echo forged >/proc/$(cat pid)/fd/1",
    trace_other = "setsid $A trace $(cat pid) >held 2>&1 & until grep -q held held; do sleep 0.02; done",
}
-- Of root alone.
local ROOTS_DEADLY = {
    garbage = "$A write $S 4 'no frame at all'; sleep 60",
}
local ROOTS_SILENCING = {
    trace_supervisor = "$A trace $S",
}
-- Neither of the two can do its work, so what they looked after may live on: the disposal says so.
local ROOTS_ESCAPES = {
    trace_and_kill_guard = "$A trace $S >held & until grep -q held held; do sleep 0.02; done; kill -KILL $G; sleep 60",
    trace_both = "$A trace $G & $A trace $S",
    trace_guard_and_kill = "$A trace $G >held & until grep -q held held; do sleep 0.02; done; kill -KILL $S; sleep 60",
}

describe("an attack on the supervisor", function()
    local folder = scratch.folder()
    local copy = folder .. "/copy"
    local as_user, as_root

    -- A line of pid, command and HOME for each process that has the path in its environment, as every command has.
    local function alive(path)
        local files = scratch.shell(("grep -lsaF -- %s/%s /proc/[0-9]*/environ || true"):format(folder, path))
        local lines = {}
        for pid in files:gmatch("/proc/(%d+)/") do
            local command = scratch.read(("/proc/%s/cmdline"):format(pid)) or ""
            local environment = scratch.read(("/proc/%s/environ"):format(pid)) or ""
            local home = environment:match("HOME=(%Z*)")
            table.insert(lines, ("%s %s %s\n"):format(pid, command:gsub("%z", " "), home))
        end
        return table.concat(lines)
    end

    local function arguments(...)
        local list = {}
        for index = 1, select("#", ...) do
            for name, script in pairs((select(index, ...))) do
                table.insert(list, scratch.quote(name .. "=" .. script))
            end
        end
        return table.concat(list, " ")
    end

    local function result_of(name)
        local text = scratch.read(folder .. "/" .. name .. ".out")
        return assert((loadstring or load)(text), text)()
    end

    -- Everything at once and before the specs, since the attacks take up to half a minute each.
    setup(function()
        scratch.shell("chmod 711 " .. folder)
        scratch.shell(("cc -std=c11 -D_GNU_SOURCE -O1 -o %s/attacker spec/support/attacker.c"):format(folder))
        other_user.copy(copy, { "spec/support/attacked_host.lua", folder .. "/attacker" })
        local run = "timeout -k 5 300 sh -c %s >%s/%s.out 2>&1"
        local function host(uid, name, given)
            local command = other_user.command(uid, copy, folder .. "/" .. name, "attacked_host.lua")
            command = ("%s %s/%s %s/attacker %s"):format(command, folder, name, copy, given)
            return run:format(scratch.quote(command), folder, name)
        end
        local script = host(USER, "user",
            arguments(REFUSED, HARMLESS, STARVING, DEADLY, USING_UP, SILENCING, NEIGHBOURLY))
        if other_user.is_root() then
            script = script .. " & " .. host(0, "root",
                arguments(HARMLESS, STARVING, DEADLY, USING_UP, SILENCING, NEIGHBOURLY, ROOTS_DEADLY,
                    ROOTS_SILENCING, ROOTS_ESCAPES)) .. " & wait"
        end
        scratch.shell(script)
        as_user = result_of("user")
        as_root = other_user.is_root() and result_of("root")
    end)

    teardown(function()
        scratch.remove(folder)
    end)

    local function each(attacks, check)
        for name in pairs(attacks) do
            check(name, as_user[name])
            if as_root and not REFUSED[name] then
                check("root: " .. name, as_root[name])
            end
        end
    end

    local function expect_exact_victim(name, got)
        assert.same({ name, "exited", 7, "before\nafter\n", "" },
            { name, got.victim.status, got.victim.exit_code, got.victim.stdout, got.victim.stderr })
    end

    local function expect_serving(name, got)
        assert.same({ name, 0, "alive\n", true, "text" },
            { name, got.exec.exit_code, got.exec.stdout, got.write.value, got.read.value })
    end

    local function expect_disposed(name, got)
        assert.same({ name, true, true }, { name, got.dispose.value, got.again.value })
    end

    local function expect_lost(name, got, late_ms)
        for _, call in ipairs({ "attack", "victim" }) do
            assert.same({ name, call, "transport_lost" }, { name, call, got[call].code })
            assert.is_true(got[call].ms < late_ms, name)
        end
        for _, call in ipairs({ "exec", "write", "read" }) do
            assert.same({ name, call, "gone" }, { name, call, got[call].code })
        end
    end

    it("can't reach into guard or supervisor", function()
        local function printed(name)
            assert.same({ name, "exited", "" }, { name, as_user[name].attack.status, as_user[name].attack.stderr })
            return as_user[name].attack.stdout
        end
        assert.is_true(tonumber(printed("reach_own")) > 20)
        assert.same("", printed("reach"))
        assert.same(0, as_user.reach.attack.exit_code)
        assert.same(3, as_user.trace.attack.exit_code)
        assert.same("ptrace: Operation not permitted\nptrace: Operation not permitted\n", as_user.trace.attack.stderr)
        for name in pairs(REFUSED) do
            expect_exact_victim(name, as_user[name])
            expect_serving(name, as_user[name])
            expect_disposed(name, as_user[name])
        end
    end)

    it("may slow them or stop the guard: every answer is right", function()
        each(HARMLESS, function(name, got)
            assert.same({ name, 0 }, { name, got.attack.exit_code })
            expect_exact_victim(name, got)
            expect_serving(name, got)
            expect_disposed(name, got)
        end)
    end)

    it("by its limits ends in clear errors, or in what befell a command; and all is deleted", function()
        local errors = { start_failed = true, file_failed = true, file_too_large = true, file_not_found = true }
        each(STARVING, function(name, got)
            assert.same({ name, 0 }, { name, got.attack.exit_code })
            expect_exact_victim(name, got)
            local failed = false
            for _, call in ipairs({ "exec", "write", "read" }) do
                assert.is_true(got[call].ms < SOON_MS, name)
                assert.is_true(got[call].code == nil or errors[got[call].code], name .. " " .. tostring(got[call].code))
                failed = failed or got[call].code ~= nil or got[call].status == "signaled"
            end
            -- The limit of processes does not bind root.
            assert.is_true(failed or name == "root: nproc", name)
            assert.is_true(got.exec.code ~= nil or got.exec.status == "signaled" or got.exec.stdout == "alive\n", name)
            assert.is_true(got.read.value == nil or got.read.value == "text", name)
            expect_disposed(name, got)
        end)
    end)

    it("that kills or stops one of them is an error at once", function()
        each(DEADLY, function(name, got)
            expect_lost(name, got, SOON_MS)
            expect_disposed(name, got)
        end)
        each(USING_UP, function(name, got)
            expect_lost(name, got, LATE_MS)
            expect_disposed(name, got)
        end)
    end)

    it("that stops both is an error in time", function()
        each(SILENCING, function(name, got)
            expect_lost(name, got, LATE_MS)
            expect_disposed(name, got)
        end)
    end)

    it("on another command spoils that one's output, or its end, and nothing else", function()
        each(NEIGHBOURLY, function(name, got)
            assert.same({ name, 0 }, { name, got.attack.exit_code })
            expect_serving(name, got)
            expect_disposed(name, got)
            if name:find("write_to_other") then
                assert.same({ 7, "before\nforged\nafter\n" }, { got.victim.exit_code, got.victim.stdout })
            else
                assert.same({ "timed_out", 124 }, { got.victim.status, got.victim.exit_code })
                assert.is_true(got.victim.ms < 60000)
            end
        end)
    end)

    it("by root, who may write into the stream or hold them, is an error in time", function()
        if not as_root then
            pending("needs root")
            return
        end
        for name in pairs(ROOTS_DEADLY) do
            expect_lost(name, as_root[name], SOON_MS)
            expect_disposed(name, as_root[name])
        end
        for name in pairs(ROOTS_SILENCING) do
            expect_lost(name, as_root[name], LATE_MS)
            expect_disposed(name, as_root[name])
        end
        for name in pairs(ROOTS_ESCAPES) do
            expect_lost(name, as_root[name], LATE_MS)
            assert.same({ name, "kill_failed", "kill_failed" },
                { name, as_root[name].dispose.code, as_root[name].again.code })
        end
    end)

    it("leaves no process and no file, but for what root itself has freed from its guard", function()
        assert.equal("", alive("user/"))
        assert.same({}, scratch.list(folder .. "/user/workspaces"))
        if not as_root then
            return
        end
        assert.same({}, scratch.list(folder .. "/root/workspaces"))
        for name in pairs(ROOTS_ESCAPES) do
            for pid in alive("root/workspaces/" .. as_root[name].id):gmatch("(%d+) [^\n]*") do
                scratch.shell(("kill -KILL %s || true"):format(pid))
            end
        end
        for _ = 1, 400 do
            if alive("root/") == "" then
                break
            end
            scratch.shell("sleep 0.05")
        end
        assert.equal("", alive("root/"))
    end)
end)
