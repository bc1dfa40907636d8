-- What an engine says of its runs, and who listens.

local errors = require "chamvi.sandbox.errors"
local is_callable = require "chamvi.sandbox.is_callable"

local events = {}

local SETTLED = { "completed", "failed", "cancelled" }

---@class chamvi.Events
local Events = {}
Events.__index = Events

--- Nothing attached.
---@param on_error fun(err: any) told what listeners can't tell anybody else
---@return chamvi.Events
function events.new(on_error)
    return setmetatable({ on_error = on_error, attached = {}, ended = false }, Events)
end

local function on_of(engine)
    return engine.on
end

--- Whether it has a method `on`. Never raises.
---@param value any
---@return boolean
function events.is_engine(value)
    local readable, on = pcall(on_of, value)
    return readable and is_callable(on)
end

local function run_id_of(event)
    return event.run_id
end

--- A listener that finds the run in what it is given, a run id or a table with `run_id`. Never raises.
---@param settled fun(run_id: string)
---@return fun(event: any)
function Events:listener(settled)
    return function(event)
        local run_id = event
        if type(event) == "table" then
            local readable
            readable, run_id = pcall(run_id_of, event)
            run_id = readable and run_id or nil
        end
        if type(run_id) == "string" then
            settled(run_id)
        else
            self.on_error(errors.validation("invalid_input", ("an event without a run id: a string or a table with "
                .. "`run_id` is expected, got a %s"):format(type(event))))
        end
    end
end

local function unsubscribe_from(self, removers)
    for _, remove in ipairs(removers) do
        local ok, err = pcall(remove)
        if not ok then
            self.on_error(err)
        end
    end
end

--- Listens to all events by which an engine says that a run has settled.
---@param engine table
---@param settled fun(run_id: string) must not wait
---@return fun() unsubscribe idempotent. An engine that can't be listened to raises, and nothing is listened to
function Events:attach(engine, settled)
    local removers = {}
    local listener = self:listener(settled)
    for _, event in ipairs(SETTLED) do
        local ok, remove = pcall(function()
            return engine:on(event, listener)
        end)
        if not ok or type(remove) ~= "function" then
            unsubscribe_from(self, removers)
            if not ok then
                error(remove, 0)
            end
            errors.raise_definition("invalid_option", ('attach: engine:on("%s", listener) must return a function that '
                .. "unsubscribes, got a %s"):format(event, type(remove)))
        end
        table.insert(removers, remove)
    end
    if self.ended then -- by the engine, in `on`
        unsubscribe_from(self, removers)
        return function() end
    end
    self.attached[removers] = true
    return function()
        if self.attached[removers] then
            self.attached[removers] = nil
            unsubscribe_from(self, removers)
        end
    end
end

--- Ends all that is attached, for good.
function Events:unsubscribe_all()
    local attached = self.attached
    self.attached, self.ended = {}, true
    for removers in pairs(attached) do
        unsubscribe_from(self, removers)
    end
end

return events
