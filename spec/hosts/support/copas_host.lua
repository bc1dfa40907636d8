-- copas as a host: copas_host.lua FOLDER
--
-- Debian's copas has no timers, so the program's loop has them, around `copas.step`.

local copas = require "copas"
local run = require "spec.hosts.support.run"
local socket = require "socket"

local timers = {} -- as keys: { at, fn }

local function after(ms, fn)
    timers[{ at = socket.gettime() + ms / 1000, fn = fn }] = true
end

local function run_timers()
    local now, due, next_at = socket.gettime(), {}, nil
    for timer in pairs(timers) do
        if timer.at <= now then
            table.insert(due, timer)
        end
    end
    for _, timer in ipairs(due) do
        timers[timer] = nil
        timer.fn()
    end
    for timer in pairs(timers) do
        next_at = math.min(next_at or timer.at, timer.at)
    end
    return next_at and math.max(0, next_at - socket.gettime())
end

-- A socket that gets a datagram when the time has come.
local function pause(ms)
    local receiver, sender = assert(socket.udp4()), assert(socket.udp4())
    assert(receiver:setsockname("127.0.0.1", 0))
    receiver:settimeout(0)
    local address, port = receiver:getsockname()
    after(ms, function()
        assert(sender:sendto("now", address, port))
    end)
    assert(copas.receivefrom(receiver))
    receiver:close()
    sender:close()
end

local over = false

copas.addthread(function()
    run({
        every = function(ms, fn)
            local stopped = false
            local function strike()
                fn()
                if not stopped then
                    after(ms, strike)
                end
            end
            after(ms, strike)
            return function()
                stopped = true
            end
        end,
        pause = pause,
        start = copas.addthread,
    }, arg[1])
    over = true
end)

while not over do
    copas.step(run_timers())
end
