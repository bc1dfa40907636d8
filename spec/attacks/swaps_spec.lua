-- Commands that swap folders and files for links that lead out, all the time, while files are read and written.
-- The rule itself has more of that in spec/c/file_race_test.c.

local core = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

-- Of each spec here.
local TRIES = tonumber(os.getenv("CHAMVI_FILE_TRIES")) or 1200
local TASKS = 6

-- Swaps pairs of names until there is a file `stop`: renameat2(2) with RENAME_EXCHANGE. No folder on the way to a
-- name may be swapped itself, or the swapper would be led out.
local SWAPPER = [[
    my ($number, @pairs) = (`uname -m` =~ /aarch64/ ? 276 : 316);
    push @pairs, [shift(@ARGV) . "\0", shift(@ARGV) . "\0"] while @ARGV;
    until (-e "stop") {
        for (1 .. 50) { syscall($number, -100, $_->[0], -100, $_->[1], 2) == 0 or die $! for @pairs }
    }
]]

describe("while names are swapped for links that lead out,", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })
    local outside = place.folder .. "/outside"

    before_each(function()
        scratch.shell(("mkdir -p %s/sub; echo outside >%s/f; echo outside >%s/sub/f"):format(outside, outside, outside))
    end)

    after_each(function()
        assert.same({ "f", "sub" }, scratch.list(outside))
        assert.same({ "f" }, scratch.list(outside .. "/sub"))
        assert.equal("outside\n", scratch.read(outside .. "/f"))
        assert.equal("outside\n", scratch.read(outside .. "/sub/f"))
        scratch.remove(outside)
    end)

    -- Runs `try(path, index)` TRIES times beside the swappers, or more often where these had no turn; gives how often
    -- it returned what.
    local function race(workspace, swaps, paths, try)
        local counts, deadline = {}, core.monotonic_ms() + 30000
        local function is_enough(index)
            return index >= TRIES / TASKS
                and (counts.done and counts.outside_workspace or core.monotonic_ms() > deadline)
        end
        sandbox.run(function()
            local swappers, tasks = {}, {}
            for index, pair in ipairs(swaps) do
                swappers[index] = sandbox.spawn(workspace.exec, workspace, { "perl", "-e", SWAPPER, pair[1], pair[2] })
            end
            for task = 1, TASKS do
                tasks[task] = sandbox.spawn(function()
                    local index = 0
                    repeat
                        index = index + 1
                        local outcome = try(paths[(index + task) % #paths + 1], index)
                        counts[outcome] = (counts[outcome] or 0) + 1
                    until is_enough(index)
                end)
            end
            local failure
            for _, task in ipairs(tasks) do
                failure = failure or select(2, task:join())
            end
            assert(workspace:write_file("stop", "")) -- first, or the swappers would go on
            for _, swapper in ipairs(swappers) do
                assert.equal("", assert(swapper:join()).stderr)
            end
            assert.is_nil(failure)
        end)
        return counts
    end

    -- Links that are swapped while they are followed can make a circle, which is a `file_failed`.
    local EXPECTED = { outside_workspace = true, file_not_found = true, not_a_file = true, file_failed = true }

    local function outcome_of(value, err)
        if value then
            return "done"
        end
        assert.is_true(EXPECTED[err.code] ~= nil, tostring(err))
        return err.code
    end

    local layouts = {
        ["a folder"] = {
            make = "mkdir -p d/sub; echo inside >d/f; echo inside >d/sub/f; ln -s OUT l; ln -s /workspace/d alias",
            swaps = { { "d", "l" } },
            paths = { "d/f", "d/sub/f", "alias/f", "alias/sub/f", "d/../d/f" },
        },
        ["a file"] = {
            make = "mkdir d; echo inside >d/f; ln -s OUT/f d/l; ln -s d/f alias; ln -s ../../outside/sub/f d/r",
            swaps = { { "d/f", "d/l" }, { "d/f", "d/r" } },
            paths = { "d/f", "d/l", "alias", "d/r" },
        },
        ["all of it"] = {
            make = "mkdir -p c/sub d; echo inside | tee d/f c/f c/sub/f >c/sub/g; "
                .. "ln -s OUT l; ln -s OUT/sub c/s; ln -s OUT/f c/g",
            swaps = { { "d", "l" }, { "c/sub", "c/s" }, { "c/f", "c/g" } },
            paths = { "d/f", "c/sub/f", "c/s/f", "c/f", "c/g", "l/f" },
        },
    }

    for what, layout in pairs(layouts) do
        it("reads and writes stay inside: " .. what, function()
            place.with(function(workspace)
                assert(workspace:exec({ "sh", "-c", (layout.make:gsub("OUT", outside)) }))
                local counts = race(workspace, layout.swaps, layout.paths, function(path, index)
                    if index % 2 == 0 then
                        return outcome_of(workspace:write_file(path, "inside\n"))
                    end
                    local text, err = workspace:read_file(path)
                    assert.is_true(text == nil or text == "inside\n", text)
                    return outcome_of(text, err)
                end)
                assert.is_truthy(counts.done and counts.outside_workspace)
            end)
        end)
    end

    it("new files and folders are made inside", function()
        place.with(function(workspace)
            assert(workspace:exec({ "sh", "-c", ("mkdir -p d/sub; ln -s %s l; ln -s /workspace/d a"):format(outside) }))
            local paths = { "d/new", "d/made/on/the/way", "d/sub/made/new", "a/new", "a/sub/../other" }
            local counts = race(workspace, { { "d", "l" } }, paths, function(path)
                return outcome_of(workspace:write_file(path, "inside\n"))
            end)
            assert.is_truthy(counts.done and counts.outside_workspace)
        end)
    end)
end)
