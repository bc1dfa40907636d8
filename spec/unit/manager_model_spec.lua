-- The manager against a model of it, in random interleavings of calls and of what happens at the provider.
-- CHAMVI_SEED=<n> begins with that seed, CHAMVI_SEQUENCES=<n> plays so many.

local sequence = require "spec.support.manager_sequence"

local SEQUENCES = tonumber(os.getenv("CHAMVI_SEQUENCES") or "") or 100000
local SEED = tonumber(os.getenv("CHAMVI_SEED") or "") or os.time() % 1000000 * 1000

if jit then
    require("jit.opt").start("maxmcode=8192", "maxtrace=8000") -- or it throws its work away again and again
end

describe("a manager", function()
    it(("does what its model says in %d random interleavings from seed %d on"):format(SEQUENCES, SEED), function()
        io.write(("[seed %d]"):format(SEED))
        io.flush()
        for seed = SEED, SEED + SEQUENCES - 1 do
            local settings, steps = sequence.generate(seed)
            local mismatch = sequence.play(settings, steps)
            if mismatch then
                error(("CHAMVI_SEED=%d CHAMVI_SEQUENCES=1: %s\nAs few steps as fail: %s"):format(seed, mismatch,
                    sequence.explain(settings, steps)), 0)
            end
        end
    end)
end)
