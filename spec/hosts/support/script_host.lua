-- Plain Lua as a host: script_host.lua FOLDER

local run = require "spec.hosts.support.run"
local sandbox = require "chamvi.sandbox"

local folder = arg[1]

sandbox.run(function()
    run({
        -- Plain Lua has nothing but the library's tasks.
        every = function(ms, fn)
            local stopped = false
            sandbox.spawn(function()
                while not stopped do
                    sandbox.sleep(ms)
                    fn()
                end
            end)
            return function()
                stopped = true
            end
        end,
        pause = sandbox.sleep,
        start = sandbox.spawn,
    }, folder)
    os.exit(0, true) -- which closes the state
end)
