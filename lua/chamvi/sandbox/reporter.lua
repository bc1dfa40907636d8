-- Who is told of failures in the background: a program's `on_error`, or the host's log.

local callback = require "chamvi.sandbox.callback"
local printed = require "chamvi.sandbox.printed"
local report = require "chamvi.sandbox.report"

--- A function that hands an error on, and neither raises nor waits.
---@param on_error? fun(err: any) default: one line on stderr
---@return fun(err: any)
return function(on_error)
    if not on_error then
        return function(err)
            report(printed(err))
        end
    end
    return function(err)
        local ok, raised = callback.call("on_error", on_error, err)
        if not ok then
            report(("on_error failed: %s; it was called for: %s"):format(printed(raised), printed(err)))
        end
    end
end
