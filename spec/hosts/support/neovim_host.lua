-- Neovim as a host: nvim -c "let g:folder = 'FOLDER'" -c "luafile neovim_host.lua"

local jobs = require "chamvi.sandbox.task"
local run = require "spec.hosts.support.run"
local sandbox = require "chamvi.sandbox"

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
        pause = function(ms)
            local over = jobs.future()
            vim.defer_fn(function()
                over:set()
            end, ms)
            jobs.wait(over)
        end,
        start = sandbox.spawn,
    }, vim.g.folder)
    vim.cmd("quitall!")
end)
