-- Cancellation tokens: whoever holds one can abort the calls that were given it.

local callback = require "chamvi.sandbox.callback"
local is_callable = require "chamvi.sandbox.is_callable"
local printed = require "chamvi.sandbox.printed"
local report = require "chamvi.sandbox.report"

local signals = {}

---@class chamvi.Signal
---@field aborted boolean
---@field reason any what `abort` was given first
local Signal = {}
Signal.__index = Signal

--- A new token, not aborted.
---@return chamvi.Signal
function signals.new()
    return setmetatable({ aborted = false, reason = nil, _listeners = {} }, Signal)
end

local function check_self(self, method)
    if not signals.is_signal(self) then
        error(("bad argument #1 to '%s' (signal expected, got %s)"):format(method, type(self)), 3)
    end
end

local function notify(listener, reason)
    local ok, err = callback.call("an abort listener", listener, reason)
    if not ok then
        report(("an abort listener failed: %s"):format(printed(err)))
    end
end

--- Aborts every call that was given this token; they return `nil, err` with code `aborted` and `cause` the
--- reason. Only the first call counts. Never yields, so it can be used where nothing may wait.
---@param reason? any
function Signal:abort(reason)
    check_self(self, "abort")
    if self.aborted then
        return
    end
    self.aborted, self.reason = true, reason
    local listeners = self._listeners
    self._listeners = {}
    for _, entry in ipairs(listeners) do
        if not entry.removed then -- by an earlier one
            notify(entry.listener, reason)
        end
    end
end

--- Has `listener(reason)` called when the token is aborted; at once if it is already. The listener must
--- not wait; what it raises is reported on stderr.
---@param listener fun(reason: any)
---@return fun() remove forgets the listener
function Signal:on_abort(listener)
    check_self(self, "on_abort")
    if not is_callable(listener) then
        error(("bad argument #1 to 'on_abort' (function expected, got %s)"):format(type(listener)), 2)
    end
    if self.aborted then
        notify(listener, self.reason)
        return function() end
    end
    local entry = { listener = listener } -- one function may listen twice
    table.insert(self._listeners, entry)
    return function()
        entry.removed = true
        local listeners = self._listeners
        for index = #listeners, 1, -1 do -- what is removed was mostly added last
            if listeners[index] == entry then
                table.remove(listeners, index)
                return
            end
        end
    end
end

---@param value any
---@return boolean
function signals.is_signal(value)
    return type(value) == "table" and rawequal(getmetatable(value), Signal)
end

return signals
