-- The core in a loop of luv: its descriptor is watched while any operation is under way, and only then keeps the loop
-- alive.

local loop = require "chamvi.sandbox.loop"
local report = require "chamvi.sandbox.report"

local luv_loop = {}

-- Programs close all handles of the loop with `uv.walk`, also the library's; luv aborts where a closed one is used.
local function is_open(handle)
    return handle ~= nil and not handle:is_closing()
end

--- Watches nothing yet. All handles are made when they are first needed, and again when the program has closed them.
---@param uv table the module luv
---@param turn fun() called in the loop when the core has something to do, and after `soon`
---@return { serve: fun(), forget: fun(), attend: fun(), pump: fun(), soon: fun() }
function luv_loop.new(uv, turn)
    local watched = {}
    local poll
    local watching = false
    local idle
    local reported -- the message of the last `pump`, if it failed

    --- From here on the core is watched; until nothing is under way, or `forget`.
    function watched.serve()
        if loop.idle() or watching and is_open(poll) then
            return
        end
        local core = loop.core()
        if not core then -- as in a forked child; whoever waits for the operation is told
            return
        end
        if not is_open(poll) then
            poll = assert(uv.new_poll(core:pollfd()))
        end
        poll:ref()
        assert(poll:start("r", turn))
        watching = true
    end

    function watched.forget()
        local was_watching = watching
        watching = false
        if not was_watching or not is_open(poll) then
            return
        end
        if loop.core() then
            poll:stop()
        else
            poll:unref() -- a forked child shares the loop's epoll set: a stop here would be one in the parent too
        end
    end

    --- To be called before the loop is run until an operation ends: raises a SandboxError when the core can't be used,
    --- and watches it again where the program has closed the handle.
    function watched.attend()
        if loop.idle() then
            return
        end
        local core, err = loop.core()
        if not core then
            error(err, 0)
        end
        watched.serve()
    end

    --- Runs the core. When it can't be used, as in a forked child, that is reported once.
    function watched.pump()
        if loop.idle() then
            return
        end
        local ok, err = pcall(loop.pump, 0)
        local message = not ok and tostring(err) or nil
        if message then
            watched.forget()
            if message ~= reported then
                report(message)
            end
        end
        reported = message
    end

    --- Has the loop call `turn` in its next round. (A timer of no time could keep the round from ending.)
    function watched.soon()
        if not is_open(idle) then
            idle = assert(uv.new_idle())
        end
        idle:start(function()
            idle:stop()
            turn()
        end)
    end

    loop.on_idle(watched.forget)
    return watched
end

return luv_loop
