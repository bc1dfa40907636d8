-- The timer of nginx; see timer.lua. For init_worker_by_lua; makes the file `over` in nginx's folder at the end.

local ffi = require "ffi"
local measure = require "bench.hosts.timer"
local ngx = require "ngx"

ffi.cdef [[
    struct chamvi_bench_time { int64_t seconds; int64_t nanoseconds; };
    int clock_gettime(int clock, struct chamvi_bench_time *time);
]]

local CLOCK_MONOTONIC = 1
local time = ffi.new("struct chamvi_bench_time")

local function every(ms, fn)
    local stopped = false
    local function strike(premature)
        if not stopped and not premature then
            fn()
            assert(ngx.timer.at(ms / 1000, strike))
        end
    end
    assert(ngx.timer.at(ms / 1000, strike))
    return function()
        stopped = true
    end
end

assert(ngx.timer.at(0, function()
    local ok, err = pcall(measure, "nginx", {
        now_ms = function()
            ffi.C.clock_gettime(CLOCK_MONOTONIC, time)
            return tonumber(time.seconds) * 1000 + tonumber(time.nanoseconds) / 1e6
        end,
        every = every,
    })
    if not ok then
        ngx.log(ngx.ERR, err)
    end
    assert(io.open(ngx.config.prefix() .. "over", "w")):close()
end))
