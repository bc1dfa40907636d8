-- A short run of scripts/soak, by this Lua alone.

local scratch = require "spec.support.scratch"

local LUA = jit and "luajit" or "lua5.4"
local OPERATIONS = 300

describe("random operations by several hosts, some of them killed,", function()
    it("have right results and leave nothing", function()
        local folder = scratch.folder()
        local seed = os.time() % 10000
        local text = scratch.shell(("timeout -k 5 300 %s spec/soak/run.lua %s %d %d %s"):format(LUA, folder, OPERATIONS,
            seed, LUA))
        assert.is_true(tonumber(text:match("^(%d+) operations")) >= OPERATIONS, text)
        scratch.remove(folder)
    end)
end)
