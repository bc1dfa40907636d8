-- Plain Lua as a host: nothing else runs, so who waits runs the core, and tasks go on while somebody waits.

local loop = require "chamvi.sandbox.loop"
local scheduler = require "chamvi.sandbox.host.scheduler"

local tasks = scheduler.new({
    turn = function(_, at_once)
        loop.pump(at_once and 0 or nil)
    end,
    wake = function() end,
})

return {
    wait = tasks.wait,
    can_wait = tasks.can_wait,
    owner = tasks.owner,
    run = tasks.run,
    spawn = tasks.spawn,
    all = tasks.all,
    sleep = tasks.sleep,
    async = tasks.async,
    loop = tasks.loop,
}
