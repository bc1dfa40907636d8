-- That the benchmark of the hosts' timers still runs. What it measures here means nothing.

local scratch = require "spec.support.scratch"

describe("bench/hosts/run", function()
    it("measures each host on both Luas, alone and beside commands", function()
        -- Below those of outgoing connections, and not that of another run.
        local port = 20000 + scratch.pid() % 10000
        local output = scratch.shell(("CHAMVI_BENCH_PORT=%d timeout -k 10 900 bench/hosts/run --quick"):format(port))
        for _, lua in ipairs({ "Lua 5.4", "LuaJIT" }) do
            for _, load in ipairs({ "alone", "beside 50 commands that print", "beside the same with on_output" }) do
                local strikes = output:match(("\ncqueues, %s, %s: (%%d+) strikes, "):format(lua, load))
                    or output:match(("^cqueues, %s, %s: (%%d+) strikes, "):format(lua, load))
                assert.is_true(tonumber(strikes or 0) > 0, output)
            end
        end
        for _, line in ipairs({
            "nginx, LuaJIT, beside 50 commands that print: %d+ strikes, ",
            "nginx, trivial location, 50 commands that print: p50 ",
            "nginx, after 200 requests, 50 at a time: %d+ descriptors, ",
        }) do
            assert.matches("\n" .. line, output)
        end
    end)
end)
