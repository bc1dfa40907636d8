-- The timer of luv; see timer.lua.

local measure = require "bench.hosts.timer"
local sandbox = require "chamvi.sandbox"
local uv = require "luv"

require("chamvi.sandbox.host").use("luv")

sandbox.spawn(function()
    measure("luv", {
        now_ms = function()
            return uv.hrtime() / 1e6
        end,
        every = function(ms, fn)
            local timer, stopped = uv.new_timer(), false
            local function strike()
                fn()
                if not stopped then
                    timer:start(ms, 0, strike)
                end
            end
            timer:start(ms, 0, strike)
            return function()
                stopped = true
                timer:close()
            end
        end,
    })
end)
uv.run()
