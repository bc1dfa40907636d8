-- What time it is, for `created_at`, expiry and intervals: the system's clock, or the one that a program gives.

local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"

local SYSTEM = { now = native.now_ms }

---@class chamvi.Clock
---@field now fun(): integer epoch milliseconds

--- The time as a function.
---@param clock? chamvi.Clock default: the system's
---@return fun(): integer now epoch milliseconds; a clock that gives anything else raises InvalidAgentDefinitionError
return function(clock)
    local source = clock or SYSTEM
    return function()
        local time = source.now()
        -- A NaN is no number at all here, and an infinite one has a fraction.
        if type(time) ~= "number" or time % 1 ~= 0 then
            errors.raise_definition("invalid_option", 'option "clock": `now` must return whole epoch milliseconds')
        end
        return compat.integer(time)
    end
end
