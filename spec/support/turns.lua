-- Whether a task that never has to wait starves the others.

local sandbox = require "chamvi.sandbox"

--- Calls `work()` in a task, and gives how often another task got its turn meanwhile.
---@param work fun()
---@return integer
return function(work)
    return sandbox.run(function()
        local turns, working = 0, true
        sandbox.spawn(function()
            while working do
                sandbox.sleep(0)
                turns = turns + 1
            end
        end)
        work()
        working = false
        return turns
    end)
end
