-- copas as a host: its threads and the handlers of its servers are the tasks.
--
-- copas knows nothing but sockets to wait for, in its oldest version not even time. So a task waits for an object that
-- LuaSocket's select takes for a socket: `getfd` gives a descriptor, and `dirty` tells that it is ready although the
-- descriptor is not. One more thread waits for the core's descriptor while any operation is under way.
--
-- copas does not tell which coroutines are its own. They are noted when they begin, which only works once this module
-- is loaded: a thread that began before is no task here, and blocks.

local copas = require "copas"
local errors = require "chamvi.sandbox.errors"
local loop = require "chamvi.sandbox.loop"
local native_tasks = require "chamvi.sandbox.host.native_tasks"
local socket = require "socket"

local host = {}

-- The coroutines of copas; those of handlers with the socket that they were given, else true.
local tasks = setmetatable({}, { __mode = "k" })

local function note_threads()
    local addthread, addnamedthread, addserver = copas.addthread, copas.addnamedthread, copas.addserver

    local function noted(fn)
        if type(fn) ~= "function" then
            return fn
        end
        return function(...)
            tasks[coroutine.running()] = true
            return fn(...)
        end
    end

    function copas.addthread(thread, ...)
        if type(thread) == "thread" then
            tasks[thread] = true
        end
        return addthread(noted(thread), ...)
    end

    if addnamedthread then -- since 4.0
        function copas.addnamedthread(name, handler, ...)
            return addnamedthread(noted(name), noted(handler), ...) -- in either order
        end
    end

    function copas.addserver(server, handler, ...)
        return addserver(server, function(client, ...)
            tasks[coroutine.running()] = client
            return handler(client, ...)
        end, ...)
    end
end

local stepping = false -- the loop runs, in versions that do not tell

local function note_steps()
    local step = copas.step

    local function ended(ok, ...)
        stepping = false
        if not ok then
            error((...), 0)
        end
        return ...
    end

    function copas.step(...)
        stepping = true
        return ended(pcall(step, ...))
    end
end

-- Raises when select can't watch the descriptor, which would end the program's loop.
local function watchable(fd)
    local limit = socket._SETSIZE
    if limit and fd >= limit then
        local message = "copas can't watch the descriptor %d, only those below %d: use the library sooner"
        error(errors.sandbox("start_failed", message:format(fd, limit)), 0)
    end
    return fd
end

-- Yields the running task until the descriptor is readable or `dirty()` is true, but at least once. May be sooner.
local function yield(fd, dirty)
    local thread, yielded = coroutine.running(), false
    copas.receive({
        getfd = function()
            return fd
        end,
        dirty = dirty,
        settimeout = function() end,
        receive = function()
            if yielded then
                return true
            end
            yielded = true
            return nil, "timeout"
        end,
        -- Before 4.0 copas closes what a handler waited for last when it ends, and means its client.
        close = function()
            local client = tasks[thread]
            return client == true or client:close()
        end,
    })
end

local silent -- a socket on which nothing ever comes

local function silent_fd()
    silent = silent or assert((socket.udp4 or socket.udp)())
    return watchable(silent:getfd())
end

function host.running()
    return true -- also before its loop runs: what is spawned goes on there
end

function host.current()
    local thread = coroutine.running()
    return thread and tasks[thread] and coroutine.isyieldable() and thread or nil
end

function host.start(body)
    local fd = silent_fd()
    copas.addthread(function()
        yield(fd, function()
            return true
        end)
        body()
    end)
end

function host.park(turn)
    local fd = silent_fd()
    repeat
        yield(fd, function()
            return turn.done
        end)
    until turn.done
end

local serving = false

function host.serve()
    local core = loop.core()
    if serving or not core then -- no core as in a forked child; the operation that began will say so
        return
    end
    local fd = watchable(core:pollfd())
    serving = true
    copas.addthread(function()
        repeat
            yield(fd, loop.idle) -- idle also by code that blocked
        until not native_tasks.pump() or loop.idle()
        serving = false
    end)
end

function host.drive(future)
    if stepping or copas.running then
        return false
    end
    while not future.done do
        if copas.finished and copas.finished() then
            return false
        end
        copas.step()
    end
    return true
end

note_threads()
if copas.running == nil then -- before 2.0
    note_steps()
end

return native_tasks.adapter(host)
