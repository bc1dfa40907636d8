-- Neovim as a host: a loop of luv, in whose callbacks the editor must not be used. So all that may reach the program's
-- code is done by `vim.schedule`, and who has to block does so in `vim.wait`, which keeps the editor alive.

local loop = require "chamvi.sandbox.loop"
local luv_loop = require "chamvi.sandbox.host.luv_loop"
local scheduler = require "chamvi.sandbox.host.scheduler"

local WAIT_MS = 200 -- vim.wait looks after each event, but for Ctrl-C only at its end

local adapter, run_tasks, watched
local scheduled = false -- whether a step is
local prepared = false -- for the end of the editor

local function turn(is_over, at_once)
    if not scheduled then
        watched.attend()
    end
    local _, failure = vim.wait(at_once and 0 or WAIT_MS, is_over, WAIT_MS)
    if failure == -2 then
        error("chamvi.sandbox: the wait was interrupted", 0)
    end
end

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
        run_tasks(watched.pump)
    end)
end

local function leave()
    watched.forget() -- luv aborts where a watched descriptor has been closed
    loop.close()
end

-- Neovim ends without closing its state. Not VimLeavePre, where programs may still dispose.
local function look_out_for_the_end()
    if prepared then
        return
    end
    prepared = true
    local function prepare()
        vim.api.nvim_create_autocmd("VimLeave", { callback = leave })
    end
    if vim.in_fast_event() then
        vim.schedule(prepare)
    else
        prepare()
    end
end

watched = luv_loop.new(vim.loop, schedule_step)
adapter, run_tasks = scheduler.new({ turn = turn, wake = watched.soon, begins_later = vim.in_fast_event })

local own_loop = adapter.loop()
local step = own_loop.step

-- The tasks that it runs may use the editor.
function own_loop.step(self, timeout_ms)
    if vim.in_fast_event() then
        error("loop:step called from inside a callback of vim.loop: use vim.schedule there", 2)
    end
    return step(self, timeout_ms)
end

function adapter.running()
    return true
end

function adapter.forbids_waiting()
    return vim.in_fast_event() and "a callback of vim.loop" or nil
end

-- What is written to stderr would spoil the screen.
function adapter.log(line)
    vim.schedule(function()
        vim.notify(line, vim.log.levels.ERROR)
    end)
end

function adapter.serve()
    look_out_for_the_end()
    if not scheduled then
        watched.serve()
    end
end

local can_wait = adapter.can_wait

function adapter.can_wait()
    return not vim.in_fast_event() and can_wait()
end

return adapter
