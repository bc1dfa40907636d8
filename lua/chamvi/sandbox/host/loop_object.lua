-- The library's loop as an object that another loop can serve.

local callback = require "chamvi.sandbox.callback"
local loop = require "chamvi.sandbox.loop"

local loop_object = {}

---@class chamvi.Loop
local Loop = {}
Loop.__index = Loop

--- The descriptor to watch. It stays the same.
---@return integer|nil fd
---@return chamvi.Error? err
function Loop.pollfd(_)
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    return core:pollfd()
end

--- What to watch the descriptor for: "r".
---@return string|nil events
---@return chamvi.Error? err
function Loop.events(_)
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    return core:events()
end

--- 0 while there is something to do at once, else nil: then the descriptor tells.
---@return 0|nil
function Loop:timeout()
    if self._tasks.has_ready() then
        return 0
    end
    local core = loop.core()
    return core and core:timeout()
end

--- Handles what is there and runs the tasks that can go on. To be called when the descriptor is readable or
--- the timeout is 0.
---@param timeout_ms? integer how long to wait for something to do; default 0
---@return true|nil
---@return chamvi.Error? err
function Loop:step(timeout_ms)
    if self._tasks.is_running() or callback.current() then
        error("loop:step called from inside a task or callback", 2)
    end
    local ok, err = pcall(self._tasks.turn, timeout_ms or 0)
    if not ok then
        return nil, err
    end
    return true
end

---@class chamvi.LoopTasks the tasks that go on with the loop
---@field has_ready fun(): boolean whether some can go on
---@field is_running fun(): boolean whether some are being run
---@field turn fun(timeout_ms: integer) runs the core, waiting at most that long, and those that can go on

---@param tasks chamvi.LoopTasks
---@return chamvi.Loop
function loop_object.new(tasks)
    return setmetatable({ _tasks = tasks }, Loop)
end

return loop_object
