-- The one core of this lua_State, and who gets its completions.
--
-- The core takes operations and gives back completions under integer ids. Nothing here waits for anybody:
-- handlers are called from `pump` and hand the news on (task.lua).

local native = require "chamvi.sandbox.core"
local errors = require "chamvi.sandbox.errors"
local printed = require "chamvi.sandbox.printed"

local loop = {}

local core -- made at the first use, so that loading the library before a fork is fine
local handlers = {} -- by id, until its last completion
local asides = {} -- the ids of those that are not counted
local expected = 0 -- how many handlers there are
local begun = function() end -- called when there is one more
local idle_listeners = {} -- called when there is none any more

-- What more follows under the same id: the output of an exec; the news of a request or a stream.
local NOT_LAST = { output = true, head = true, open = true, chunk = true, drained = true, eof = true }

--- The core, opened by the first call. A forked child gets an error instead.
---@return userdata|nil core
---@return chamvi.Error? err
function loop.core()
    if not core then
        local opened, code, message, detail = native.open()
        if not opened then
            return nil, errors.from_core(code, message, { detail = detail })
        end
        core = opened
    end
    local usable, code, message = core:check()
    if not usable then
        return nil, errors.from_core(code, message)
    end
    return core
end

--- Has `handler(what, ...)` called with each completion of an operation. It must not yield.
---@param id integer
---@param handler fun(what: string, ...)
function loop.expect(id, handler)
    handlers[id] = handler
    expected = expected + 1
    begun()
end

--- The same for an operation that is nobody's work, such as a timer of the host's adapter: it counts as none.
---@param id integer
---@param handler fun(what: string, ...)
function loop.expect_aside(id, handler)
    handlers[id] = handler
    asides[id] = true
end

--- Has `fn()` called whenever an operation has begun. It must neither wait nor yield.
---@param fn fun()
function loop.on_begin(fn)
    begun = fn
end

--- Whether no operation is under way.
---@return boolean
function loop.idle()
    return expected == 0
end

--- Tells all workspaces to remove themselves, without waiting, as at the end of the program. After it nothing can be
--- used.
function loop.close()
    if core then
        core:close()
    end
end

--- Has `fn()` called whenever the last operation that was under way has ended, also when somebody else than the host's
--- loop ran the core. It must neither wait nor yield.
---@param fn fun()
function loop.on_idle(fn)
    table.insert(idle_listeners, fn)
end

-- One that fails, such as for want of memory, must not end the wait of whoever happens to run the core.
local function call(handler, ...)
    local ok, err = pcall(handler, ...)
    if not ok then
        local report = require "chamvi.sandbox.report" -- which needs the host, and that this module
        report("what waits for an operation has failed: " .. printed(err))
    end
end

local function deliver(id, what, ...)
    if id == nil then
        return false
    end
    local handler = handlers[id]
    if handler then
        if not NOT_LAST[what] then
            handlers[id] = nil
            expected = expected - (asides[id] and 0 or 1)
        end
        call(handler, what, ...)
        if expected == 0 and not asides[id] then
            for _, listener in ipairs(idle_listeners) do
                listener()
            end
        end
        if not NOT_LAST[what] then
            asides[id] = nil
        end
    end
    return true
end

--- Waits for the core and delivers all that it has. Raises a SandboxError when the core can't be used, as
--- in a forked child, and an error in a finalizer: that runs in the middle of anything, also of this.
---@param timeout_ms? integer at most this long; nil: until there is something, 0: not at all
function loop.pump(timeout_ms)
    if native.in_finalizer() then
        error("chamvi.sandbox: a finalizer (__gc) must not wait", 0)
    end
    if expected == 0 and timeout_ms == nil then
        error("chamvi.sandbox: deadlock: nothing is under way that could end this wait", 0)
    end
    local opened, err = loop.core()
    if not opened then
        error(err, 0)
    end
    local ok, code, message, detail = opened:step(timeout_ms)
    if not ok then
        error(errors.sandbox(code, message, { detail = detail }), 0)
    end
    while deliver(opened:next()) do
        -- `deliver` did the work.
    end
end

return loop
