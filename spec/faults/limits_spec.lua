-- No descriptors, no processes and no room for files left, by the limits of the host program.

local programs = require "spec.support.programs"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

describe("out of", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    -- The lines of a program's report as a list, without paths.
    local function lines(printed)
        local list = {}
        for line in printed:gmatch("[^\n]+") do
            line = line:gsub("no workspace could be made in [^:]*", "ROOT")
            table.insert(list, (line:gsub("/%S*/chamvi%-supervisor", "PROGRAM")))
        end
        return list
    end

    it("descriptors, each call says so, those that need none work, and nothing is left", function()
        local printed = scratch.shell(("ulimit -n 40; %s spec/support/limits_program.lua %s descriptors"):format(
            programs.LUA, place.folder))
        assert.same({
            "crowd\texit 0",
            "crowd\tstart_failed: making the command's pipes: Too many open files",
            "exec\texit 0",
            "exec\texit 0",
            "write_file\tok",
            "read_file\tok",
            "create\tcreate_failed: ROOT: opening the folder of the workspaces: Too many open files",
            "collect_garbage\tgc_failed: opening the folder of the workspaces: Too many open files",
            "dispose\tok",
        }, lines(printed))
        assert.same({}, scratch.list(place.root))
    end)

    it("sizes of files, each call says so, the program is not ended by the signal, and nothing is left", function()
        local command = "%s spec/support/limits_program.lua %s sizes"
        local printed = scratch.shell(command:format(programs.LUA, place.folder))
        assert.same({
            "write_file\tok",
            "write_file\tfile_failed: \"f\" can't be written: writing the file: File too large",
            "exec\texit 0",
            "exec\texit 153",
            "dispose\tok",
            "create\tcreate_failed: ROOT: writing the workspace's record: File too large",
            "create\tcreate_failed: ROOT: writing the workspace's record: File too large",
        }, lines(printed))
        assert.same({}, scratch.list(place.root))
    end)

    it("processes, at any step of a create or in a crowd of commands: each says so, and nothing is left", function()
        if scratch.shell("id -u") ~= "0\n" then
            pending("needs root, to run as a user of whom nothing else runs")
            return
        end
        local folder = scratch.folder()
        -- A user of whom nothing else runs. LeakSanitizer would need a process at the end.
        local uid = 1000000 + scratch.pid()
        local printed = programs.run_as(uid, "limits_program.lua", folder, {
            arguments = "processes",
            before = scratch.unclosed,
        })
        if not printed then
            scratch.remove(folder)
            pending("needs setpriv")
            return
        end
        local none = "Resource temporarily unavailable"
        local expected = {}
        for limit = 6, 4, -1 do
            table.insert(expected, limit .. " create\tmade")
            table.insert(expected, "crowd\texit 0")
            table.insert(expected, "crowd\tstart_failed: starting a process: " .. none)
            table.insert(expected, limit .. " dispose\tok")
        end
        table.insert(expected, "3 create\tcreate_failed: ROOT: starting a process: " .. none)
        table.insert(expected, "2 create\tcreate_failed: ROOT: starting the workspace's supervisor: " .. none)
        table.insert(expected, "1 create\tcreate_failed: ROOT: can't start PROGRAM: " .. none)
        assert.same(expected, lines(printed))
        assert.same({}, scratch.list(folder .. "/workspaces"))
        assert.equal("", scratch.shell(("ps -o comm= -u %d || true"):format(uid)))
        scratch.remove(folder)
    end)
end)
