-- cqueues as a host: the coroutines of its controllers are the tasks.
--
-- In each controller in which operations begin or tasks wait, one more coroutine runs the core while any operation is
-- under way: it polls the core's descriptor. Tasks wait on condition variables.

local condition = require "cqueues.condition"
local cqueues = require "cqueues"
local loop = require "chamvi.sandbox.loop"
local native_tasks = require "chamvi.sandbox.host.native_tasks"

local host = {}

-- By controller that has one: what its coroutine waits for beside the core.
local servers = setmetatable({}, { __mode = "k" })

function host.running()
    return cqueues.running() ~= nil
end

function host.current()
    local _, is_task = cqueues.running()
    return is_task and coroutine.isyieldable() and coroutine.running() or nil
end

function host.start(body)
    cqueues.running():wrap(body)
end

function host.park(turn)
    local woken = condition.new()
    turn:subscribe(function()
        woken:signal()
    end)
    repeat
        woken:wait()
    until turn.done
end

function host.serve()
    local controller = cqueues.running()
    if not controller or servers[controller] then
        return
    end
    local core = loop.core()
    if not core then -- as in a forked child; the operation that began will say so
        return
    end
    local idle = condition.new()
    servers[controller] = idle
    local bell = { pollfd = core:pollfd(), events = core:events() }
    controller:wrap(function()
        local usable = true
        while usable and not loop.idle() do
            cqueues.poll(bell, idle)
            usable = native_tasks.pump()
        end
        servers[controller] = nil
    end)
end

loop.on_idle(function()
    -- Another controller, or code that blocked, may have run the core last.
    for _, idle in pairs(servers) do
        idle:signal()
    end
end)

return native_tasks.adapter(host)
