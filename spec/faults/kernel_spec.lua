-- Kernels and filters that lack system calls.

local programs = require "spec.support.programs"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local NEWER = "close_range openat2 pidfd_open pidfd_send_signal"

describe("without system calls", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })
    local without_calls

    setup(function()
        without_calls = programs.compile("spec/support/without_calls.c", place.folder)
    end)

    -- Runs specs in a process where the calls fail, and in all that it starts.
    local function run_specs(errno, calls, names)
        local files = {}
        for _, name in ipairs(names) do
            table.insert(files, ("spec/providers/local_%s_spec.lua"):format(name))
        end
        local busted = "busted --output=plainTerminal --exclude-tags=unsanitized"
        local printed = scratch.shell(("timeout 300 %s %s %s -- %s --lua=\"$(command -v %s)\" %s"):format(without_calls,
            errno, calls, busted, programs.LUA, table.concat(files, " ")))
        assert.matches("\n%d+ successes / 0 failures / 0 errors / 0 pending", printed)
    end

    local all = { "create", "files", "collect", "host", "end", "close" }

    it("that came with Linux 5 everything works, on a kernel that is older", function()
        -- clone3 too, which glibc starts programs with where it is there.
        run_specs("ENOSYS", NEWER .. " clone3", all)
    end)

    -- The same fallbacks: once is enough under a sanitizer.
    it("that came with Linux 5 everything works, behind a filter that is older #unsanitized", function()
        run_specs("EPERM", NEWER, all)
    end)

    for _, errno in ipairs({ "ENOSYS", "EPERM" }) do
        it("that signal by pidfd, though there are pidfds, everything works: " .. errno, function()
            run_specs(errno, "pidfd_send_signal", { "collect", "host" })
        end)
    end

    it("that glibc starts programs with, a create says so", function()
        local file = place.folder .. "/program.lua"
        scratch.write(file, ([[
            local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = %q })
            local workspace, err = provider:create({ run_id = "spec" })
            print(workspace, err.code, err.message)
        ]]):format(place.root))
        local printed = scratch.shell(("%s EPERM clone3 -- %s %s"):format(without_calls, programs.LUA, file))
        assert.matches("^nil\tcreate_failed\t.*can't start .*chamvi%-supervisor: Operation not permitted\n$", printed)
        assert.same({}, scratch.list(place.root))
    end)
end)
