-- A loop of luv as a host. It has no tasks of its own; the library's go on in callbacks of the loop.

local vim = rawget(_G, "vim")
if vim and vim.schedule and vim.wait then -- not so in the threads of Neovim's luv
    return require "chamvi.sandbox.host.neovim"
end

local loop = require "chamvi.sandbox.loop"
local luv_loop = require "chamvi.sandbox.host.luv_loop"
local scheduler = require "chamvi.sandbox.host.scheduler"
local uv = require "luv"

local adapter, run_tasks, watched

-- A loop can't run inside itself; callbacks run in the main coroutine, under which the caller must not stand.
local function can_run_loop()
    local thread, is_main = coroutine.running()
    return uv.loop_mode() == nil and (thread == nil or is_main == true)
end

local function turn(_, at_once)
    if not can_run_loop() then
        loop.pump(at_once and 0 or nil)
        return
    end
    watched.attend()
    if at_once then
        uv.run("nowait")
    elseif uv.loop_alive() then
        uv.run("once")
    else
        loop.pump() -- says that nothing could end this wait
    end
end

watched = luv_loop.new(uv, function()
    run_tasks(watched.pump)
end)
adapter, run_tasks = scheduler.new({ turn = turn, wake = watched.soon })
adapter.serve = watched.serve

function adapter.running()
    return uv.loop_mode() ~= nil
end

return adapter
