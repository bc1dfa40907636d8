-- Plain Lua as a host: nothing else runs, so who waits runs the core, and tasks go on while somebody waits.

local loop = require "chamvi.sandbox.loop"
local scheduler = require "chamvi.sandbox.host.scheduler"

local adapter = scheduler.new({
    turn = function(_, at_once)
        loop.pump(at_once and 0 or nil)
    end,
    wake = function() end,
})

return adapter
