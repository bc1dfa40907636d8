-- The core in a loop of luv: its descriptor is watched while any operation is under way, and only then keeps the loop
-- alive.

local loop = require "chamvi.sandbox.loop"
local report = require "chamvi.sandbox.report"

local luv_loop = {}

--- Watches nothing yet. All handles are made when they are first needed.
---@param uv table the module luv
---@param turn fun() called in the loop when the core has something to do, and after `soon`
---@return { serve: fun(), forget: fun(), pump: fun(), soon: fun() }
function luv_loop.new(uv, turn)
    local watched = {}
    local poll
    local watching = false
    local idle

    --- From here on the core is watched; until nothing is under way, or `forget`.
    function watched.serve()
        if watching or loop.idle() then
            return
        end
        local core = loop.core()
        if not core then -- as in a forked child; whoever waits for the operation is told
            return
        end
        poll = poll or assert(uv.new_poll(core:pollfd()))
        assert(poll:start("r", turn))
        watching = true
    end

    function watched.forget()
        if watching then
            watching = false
            poll:stop()
        end
    end

    --- Runs the core. When it can't be used, as in a forked child, that is reported.
    function watched.pump()
        if loop.idle() then
            return
        end
        local ok, err = pcall(loop.pump, 0)
        if not ok then
            watched.forget()
            report(tostring(err))
        end
    end

    --- Has the loop call `turn` in its next round. (A timer of no time could keep the round from ending.)
    function watched.soon()
        idle = idle or assert(uv.new_idle())
        idle:start(function()
            idle:stop()
            turn()
        end)
    end

    loop.on_idle(watched.forget)
    return watched
end

return luv_loop
