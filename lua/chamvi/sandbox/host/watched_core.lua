-- The core's descriptor in a loop of luv: it is watched while any operation is under way, and only then keeps the loop
-- alive.

local loop = require "chamvi.sandbox.loop"
local report = require "chamvi.sandbox.report"

local watched_core = {}

--- Watches nothing yet.
---@param uv table the module luv
---@param readable fun() called in the loop when the core has something to do
---@return { serve: fun(), forget: fun(), pump: fun(): boolean }
function watched_core.new(uv, readable)
    local watched = {}
    local poll -- from the first operation on
    local watching = false

    --- From here on `readable` is called; until nothing is under way, or `forget`.
    function watched.serve()
        if watching or loop.idle() then
            return
        end
        poll = poll or assert(uv.new_poll(assert(loop.core()):pollfd()))
        assert(poll:start("r", readable))
        watching = true
    end

    function watched.forget()
        if watching then
            watching = false
            poll:stop()
        end
    end

    --- Runs the core. When it can't be used, as in a forked child, that is reported.
    ---@return boolean ok
    function watched.pump()
        if loop.idle() then
            return true
        end
        local ok, err = pcall(loop.pump, 0)
        if not ok then
            watched.forget()
            report(tostring(err))
        end
        return ok
    end

    loop.on_idle(watched.forget)
    return watched
end

return watched_core
