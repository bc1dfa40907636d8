-- Clocks that jump.

local programs = require "spec.support.programs"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local DAY = 86400000

describe("a clock", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    it("of a provider may jump back and forth: lifetimes are as it says, time limits are not", function()
        local now = 20000 * DAY
        local provider = place.provider({
            limits = { timeout_ms = DAY },
            clock = {
                now = function()
                    return now
                end,
            },
        })
        local first = assert(provider:create({ run_id = "spec" }))
        now = now - 10000 * DAY
        local early = assert(provider:create({ run_id = "spec" }))
        assert.equal(10000 * DAY, early.info.created_at)
        assert.equal(10001 * DAY, early.info.expires_at)
        now = -DAY -- before 1970
        local earliest = assert(provider:create({ run_id = "spec" }))
        assert.equal(0, earliest.info.expires_at)
        assert.equal(0, provider:collect_garbage())
        assert.equal("timed_out", assert(first:exec({ "sleep", "1000" }, { timeout_ms = 50 })).status)

        now = 15000 * DAY
        assert.equal(2, provider:collect_garbage())
        assert.equal(0, assert(first:exec({ "true" })).exit_code)
        for _, workspace in ipairs({ early, earliest }) do
            local result, err = workspace:exec({ "true" })
            assert.is_nil(result)
            assert.equal("gone", err.code)
            assert(workspace:dispose())
        end
        now = 20001 * DAY - 1
        assert.equal(0, provider:collect_garbage())
        now = now + 1
        assert.equal(1, provider:collect_garbage())
        assert(first:dispose())
    end)

    -- A sanitizer's runtime must be the first to be loaded.
    it("of the system that jumps changes no wait of a program #unsanitized", function()
        local library = programs.compile("spec/support/wrong_clock.c", place.folder, "-shared -fPIC")
        local printed = scratch.shell(("LD_PRELOAD=%s timeout 300 %s spec/support/clock_program.lua %s"):format(library,
            programs.LUA, place.root))
        assert.equal(table.concat({
            "jumps\t9",
            "create\t1800000\tin time",
            "sleep\tnil\tin time",
            "exec\texited\tin time",
            "time-out\ttimed_out\tin time",
            "held output\ttrue\tin time",
            "dispose\ttrue\tin time\n",
        }, "\n"), printed)
    end)

    it("that can jump is asked for one thing only, the time that a provider starts from", function()
        -- The supervisor is one static program, whose clock nothing can bend: its source must not ask.
        local wall = [=[CLOCK_(REALTIME|TAI)|(^|[^_[:alnum:]])(time|ftime|gettimeofday|timespec_get|setitimer) *\(]=]
        local found = scratch.shell(("grep -rnE --include='*.[ch]' '%s' src || true"):format(wall))
        assert.equal("", (found:gsub("src/lua/core%.c:%d+: *clock_gettime%(CLOCK_REALTIME, &now%);\n", "", 1)))
    end)
end)
