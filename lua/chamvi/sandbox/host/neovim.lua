-- Neovim as a host: a loop of luv, in whose callbacks the editor must not be used. So all that may reach the program's
-- code is done by `vim.schedule`, and who has to block does so in `vim.wait`, which keeps the editor alive.

local loop = require "chamvi.sandbox.loop"
local luv_loop = require "chamvi.sandbox.host.luv_loop"
local scheduler = require "chamvi.sandbox.host.scheduler"

local LONGEST_MS = 2 ^ 31 - 1 -- what vim.wait takes
local LOOK_AGAIN_MS = 200 -- it looks anyway after each event

local tasks, watched
local leaving = false -- whether the end of the editor is looked out for

local function turn(is_over, at_once)
    local _, failure = vim.wait(at_once and 0 or LONGEST_MS, is_over, LOOK_AGAIN_MS)
    if failure == -2 then
        error("chamvi.sandbox: the wait was interrupted", 0)
    end
end

local scheduled = false

-- Luv's callbacks go on meanwhile, and would find the descriptor readable again and again.
local function schedule_step()
    if scheduled then
        return
    end
    scheduled = true
    watched.forget()
    vim.schedule(function()
        scheduled = false
        watched.serve() -- first, since the tasks may block
        if watched.pump() then
            tasks.run_ready()
        end
    end)
end

-- Neovim ends without closing its state. Not VimLeavePre, where programs may still dispose.
local function look_out_for_the_end()
    if not leaving then
        leaving = true
        vim.schedule(function()
            vim.api.nvim_create_autocmd("VimLeave", {
                callback = function()
                    watched.forget() -- luv aborts where a watched descriptor has been closed
                    loop.close()
                end,
            })
        end)
    end
end

watched = luv_loop.new(vim.loop, schedule_step)
tasks = scheduler.new({ turn = turn, wake = watched.soon, begins_later = vim.in_fast_event })

return {
    running = function()
        return true
    end,
    forbids_waiting = function()
        return vim.in_fast_event() and "a callback of vim.loop" or nil
    end,
    serve = function()
        look_out_for_the_end()
        if not scheduled then
            watched.serve()
        end
    end,
    wait = tasks.wait,
    can_wait = function()
        return not vim.in_fast_event() and tasks.can_wait()
    end,
    run = tasks.run,
    spawn = tasks.spawn,
    all = tasks.all,
    sleep = tasks.sleep,
    async = tasks.async,
    loop = tasks.loop,
}
