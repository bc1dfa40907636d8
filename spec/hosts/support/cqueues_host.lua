-- cqueues as a host: cqueues_host.lua FOLDER

local cqueues = require "cqueues"
local run = require "spec.hosts.support.run"

local controller, over = cqueues.new(), false

controller:wrap(function()
    run({
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
        pause = function(ms)
            cqueues.sleep(ms / 1000)
        end,
        start = function(fn)
            controller:wrap(fn)
        end,
    }, arg[1])
    over = true
end)

repeat
    assert(controller:step())
until over
