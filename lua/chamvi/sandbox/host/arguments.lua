-- The arguments of run, spawn, all, sleep and async, which are the same in every host.

local printed = require "chamvi.sandbox.printed"
local report = require "chamvi.sandbox.report"

local arguments = {}

local TIME_MAX_MS = 2 ^ 52 -- of the core's timers

--- Raises unless the value is a function.
---@param value any
---@param index integer its place among the arguments
---@param name string the function that was called
function arguments.check_function(value, index, name)
    if type(value) ~= "function" then
        error(("bad argument #%d to '%s' (function expected, got %s)"):format(index, name, type(value)), 3)
    end
end

--- Raises unless the value is a list of functions.
---@param functions any the argument of `all`
function arguments.check_functions(functions)
    if type(functions) ~= "table" then
        error(("bad argument #1 to 'all' (table expected, got %s)"):format(type(functions)), 3)
    end
    for index = 1, #functions do
        if type(functions[index]) ~= "function" then
            error(("bad argument #1 to 'all' (element %d is no function)"):format(index), 3)
        end
    end
end

--- Raises unless the value is a time.
---@param ms any the argument of `sleep`
function arguments.check_time(ms)
    if type(ms) ~= "number" or ms % 1 ~= 0 or ms < 0 then
        error(("bad argument #1 to 'sleep' (milliseconds expected, got %s)"):format(
            type(ms) == "number" and "another number" or type(ms)), 3)
    elseif ms > TIME_MAX_MS then
        error("bad argument #1 to 'sleep' (milliseconds expected, at most 2^52, got more)", 3)
    end
end

--- The function of the task of `async`.
---@param fn function
---@param done function gets the results of fn, or nil and what it raised; what `done` raises is reported on stderr
---@return function
function arguments.with_callback(fn, done)
    local function finish(ok, ...)
        local called, err
        if ok then
            called, err = pcall(done, ...)
        else
            called, err = pcall(done, nil, ...)
        end
        if not called then
            report(("the callback of async failed: %s"):format(printed(err)))
        end
    end
    return function()
        finish(pcall(fn))
    end
end

return arguments
