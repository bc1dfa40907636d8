-- Timers of the core.

local loop = require "chamvi.sandbox.loop"

--- Has `fn()` called once after a time, unless it is cancelled before. It must not wait.
---@param ms integer
---@param fn fun()
---@return (fun())|nil cancel may be called at any time
---@return chamvi.Error? err the core can't be used
return function(ms, fn)
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    local over = false
    local id = core:timer(ms)
    loop.expect(id, function()
        if not over then
            over = true
            fn()
        end
    end)
    return function()
        if not over then
            over = true
            core:abort(id, "aborted", "no longer needed")
        end
    end
end
