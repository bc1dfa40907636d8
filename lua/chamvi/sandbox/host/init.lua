-- Which host the library runs in. An adapter is a table of functions:
--
--   wait(future)            returns when `future.done`: yields where the running coroutine is a task of the
--                           host, runs the core (loop.pump) where it is not; `future:subscribe(wake)` has
--                           `wake` called once when it is done
--   run(fn, ...)            these are the functions of the same name in chamvi.sandbox
--   spawn(fn, ...)
--   all(functions)
--   sleep(ms)
--   async(fn, callback)
--   loop()

local host = {}

--- The adapter in use.
---@return table
function host.current()
    return require "chamvi.sandbox.host.script"
end

return host
