-- Neovim as a host: nvim -c "let g:folder = 'FOLDER'" -c "luafile neovim_host.lua"

local jobs = require "chamvi.sandbox.task"
local run = require "spec.hosts.support.run"
local sandbox = require "chamvi.sandbox"

local function pause(ms)
    local over = jobs.future()
    vim.defer_fn(function()
        over:set()
    end, ms)
    jobs.wait(over)
end

-- luacheck: globals vim.notify
local function reported(fn)
    local original, lines = vim.notify, {}
    vim.notify = function(line)
        table.insert(lines, line)
    end
    fn()
    pause(10) -- they come by vim.schedule
    vim.notify = original
    return lines
end

sandbox.spawn(function()
    run({
        -- Whose callbacks are free to use the editor.
        every = function(ms, fn)
            local timer = vim.loop.new_timer()
            timer:start(ms, ms, vim.schedule_wrap(fn))
            return function()
                timer:close()
            end
        end,
        pause = pause,
        reported = reported,
        start = sandbox.spawn,
    }, vim.g.folder)
    vim.cmd("quitall!")
end)
