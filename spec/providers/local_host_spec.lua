local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local LUA = jit and "luajit" or "lua5.4"

describe("a host program", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })
    local report_file = place.folder .. "/report"

    before_each(function()
        os.remove(report_file)
    end)

    -- Whether a process is left that has the folder of the workspaces in its environment or arguments.
    local function is_anything_alive()
        return scratch.shell(("grep -lsaF -- %s/workspaces/ /proc/[0-9]*/environ || true"):format(place.folder)) ~= ""
    end

    local function command(ending)
        return ("%s spec/support/host_program.lua %s %s"):format(LUA, place.folder, ending)
    end

    -- Starts the program in the background and waits for its report; gives its pid.
    local function start(ending)
        local pid = tonumber(scratch.shell(command(ending) .. " >/dev/null 2>&1 & echo $!"))
        support.wait_until(function()
            return scratch.read(report_file)
        end, "a report")
        return pid
    end

    describe("leaves nothing alive within 2 s, and no folder, when it ends", function()
        local endings = { "dispose", "finish", "raise", "close", "parked", "launching", "writing" }
        if not jit then
            for _, where in ipairs({ "task", "callback", "finalizer" }) do
                table.insert(endings, "close_in_" .. where)
            end
        end
        for _, ending in ipairs(endings) do
            it("by " .. ending, function()
                scratch.shell(command(ending) .. " >/dev/null 2>&1 || true")
                assert.is_string(scratch.read(report_file))
                support.wait_until(function()
                    return not is_anything_alive() and #scratch.list(place.root) == 0
                end, "the end of everything")
            end)
        end
    end)

    describe("leaves nothing alive within 2 s", function()
        after_each(function()
            scratch.shell(("rm -rf %s/*"):format(place.root))
        end)

        it("by os.exit, which closes nothing", function()
            scratch.shell(scratch.unclosed .. command("exit") .. " >/dev/null 2>&1")
            support.wait_until(function()
                return not is_anything_alive()
            end, "the end of everything")
        end)

        it("killed while a command runs", function()
            scratch.shell("kill -KILL " .. start("killed"))
            support.wait_until(function()
                return not is_anything_alive()
            end, "the end of everything")
        end)

        if jit then
            it("killed after it forked, while the child holds all that it had; which the child can't use", function()
                local pid, child = start("forked"), nil
                support.wait_until(function()
                    child = scratch.read(report_file):match("^child (%d+) nil SandboxError: ")
                    return child
                end, "the child's report")
                scratch.shell("kill -KILL " .. pid)
                support.wait_until(function()
                    return not is_anything_alive()
                end, "the end of everything")
                scratch.shell("kill -KILL " .. child)
            end)
        end
    end)

    it("may have signals ignored and blocked, umask 0 and closed stdio: its commands see none of it", function()
        scratch.shell(("env --ignore-signal=PIPE --ignore-signal=HUP --ignore-signal=CHLD --block-signal=TERM "
            .. "sh -c 'umask 0; exec %s <&- >&- 2>&-'"):format(command("dispose")))
        local zeros = ("0"):rep(16)
        assert.equal(("0022\nSigBlk:%s\nSigIgn:%s\n0 1 2 3 \n"):format(zeros, zeros), scratch.read(report_file))
    end)

    it("that runs out of descriptors gets a clear error, and nothing is left half-way", function()
        scratch.shell("ulimit -n 40; exec " .. command("descriptors"))
        local report = scratch.read(report_file)
        for line in report:gmatch("[^\n]+") do
            assert.is_truthy(line:find("^%d+ made$") or line:find("^%d+ create_failed: .+$"), line)
        end
        assert.matches("^0 create_failed: ", report)
        assert.is_false(is_anything_alive())
        assert.same({}, scratch.list(place.root))
    end)
end)
