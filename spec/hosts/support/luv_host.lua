-- A loop of luv as a host: luv_host.lua FOLDER

local jobs = require "chamvi.sandbox.task"
local run = require "spec.hosts.support.run"
local sandbox = require "chamvi.sandbox"
local uv = require "luv"

local folder = arg[1]

local function after(ms, again, fn)
    local timer = uv.new_timer()
    timer:start(ms, again, fn)
    return function()
        timer:close()
    end
end

local stop
stop = after(0, 0, function()
    stop()
    sandbox.spawn(function()
        run({
            every = function(ms, fn)
                return after(ms, ms, fn)
            end,
            pause = function(ms)
                local over = jobs.future()
                local close = after(ms, 0, function()
                    over:set()
                end)
                jobs.wait(over)
                close()
            end,
            start = sandbox.spawn,
        }, folder)
        uv.stop()
    end)
end)
uv.run()
