-- nginx as a host: loaded by a worker, which calls it with the folder.

local ngx = require "ngx"
local run = require "spec.hosts.support.run"

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

local function reported(fn)
    local log, lines = ngx.log, {}
    function ngx.log(_, ...) -- luacheck: ignore 122
        table.insert(lines, table.concat({ ... }))
    end
    local ok, err = pcall(fn)
    ngx.log = log -- luacheck: ignore 122
    if not ok then
        error(err, 0)
    end
    return lines
end

--- Runs the behaviours in a timer of the worker, and then makes the file `over`.
---@param folder string
return function(folder)
    assert(ngx.timer.at(0, function()
        local ok, err = pcall(run, {
            every = every,
            pause = function(ms)
                ngx.sleep(ms / 1000)
            end,
            start = ngx.thread.spawn,
            reported = reported,
        }, folder)
        if not ok then
            ngx.log(ngx.ERR, err)
        end
        assert(io.open(folder .. "/over", "w")):close()
    end))
end
