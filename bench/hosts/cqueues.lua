-- The timer of cqueues; see timer.lua.

local cqueues = require "cqueues"
local measure = require "bench.hosts.timer"

local controller = cqueues.new()

controller:wrap(function()
    measure("cqueues", {
        now_ms = function()
            return cqueues.monotime() * 1000
        end,
        every = function(ms, fn)
            local stopped = false
            controller:wrap(function()
                repeat
                    cqueues.sleep(ms / 1000)
                    fn()
                until stopped
            end)
            return function()
                stopped = true
            end
        end,
    })
end)
assert(controller:loop())
