-- The behaviours as specs: a host runs them all as a real process, and each is an `it`.

local behaviours = require "spec.hosts.behaviours"
local native = require "chamvi.sandbox.core"
local scratch = require "spec.support.scratch"

local hosts = {}

local BOUND_S = 300 -- for a host that hangs; one takes some seconds

--- The shell's settings for a program on that Lua.
---@param abi "lua5.4"|"luajit"
---@return string
function hosts.settings(abi)
    return ('eval "$(scripts/env %s)"'):format(abi)
end

-- Runs a host to its end, and gives what its run.lua has written, by name, and the rest.
local function run(command, folder)
    scratch.shell(("mkdir -m 700 %s/workspaces"):format(folder))
    -- With its output in a file: what a host leaves running would keep a pipe open.
    local status = scratch.shell(("timeout -k 5 %d sh -c %s >%s/output 2>&1 </dev/null; echo $?"):format(
        BOUND_S, scratch.quote(command), folder))
    local outcomes = {
        status = status:match("%d+"),
        output = scratch.read(folder .. "/output"),
        by_name = {},
    }
    for line in (scratch.read(folder .. "/results") or ""):gmatch("[^\n]+") do
        local result = assert(native.json_decode(line))
        if result.name then
            outcomes.by_name[result.name] = result
        elseif result.left then
            outcomes.left = result
        end
    end
    return outcomes
end

local function wait_until_empty(look)
    local left
    for _ = 1, 600 do
        left = look()
        if left == "" then
            break
        end
        scratch.shell("sleep 0.05")
    end
    return left
end

--- Waits until no process runs of the folder's workspaces, as when the program that made them has ended.
---@param folder string
---@return string left "" when there is none, within 30 s
function hosts.processes_left(folder)
    return wait_until_empty(function()
        return scratch.shell(("grep -lsaF -- %s/workspaces/ /proc/[0-9]*/environ || true"):format(folder))
    end)
end

--- The same for what is stored of them, which a program removes that closes its state.
---@param folder string
---@return string left
function hosts.files_left(folder)
    return wait_until_empty(function()
        return table.concat(scratch.list(folder .. "/workspaces"), " ")
    end)
end

--- Describes a host by the behaviours. To be called in a `describe`, with busted's own functions, since a required
--- file does not see them.
---@param busted { it: function, setup: function, teardown: function }
---@param command fun(folder: string): string the shell command of a program that calls run.lua with the folder and
---   then ends in the host's own orderly way, with status 0. It runs in the project's folder
function hosts.behave(busted, command)
    local folder, outcomes
    busted.setup(function()
        folder = scratch.folder()
        outcomes = run(command(folder), folder)
    end)
    busted.teardown(function()
        scratch.remove(folder)
    end)

    for _, behaviour in ipairs(behaviours) do
        busted.it(behaviour.name, function()
            local result = outcomes.by_name[behaviour.name]
            if not result then
                error(("not reached; the program ended with status %s and wrote:\n%s"):format(
                    outcomes.status, outcomes.output), 0)
            elseif not result.ok then
                error(result.error, 0)
            end
        end)
    end

    busted.it("nothing is left of a command and its workspace when the program ends", function()
        assert(outcomes.left, outcomes.output)
        assert(outcomes.left.error == nil, outcomes.left.error)
        assert(outcomes.status == "0", ("status %s: %s"):format(outcomes.status, outcomes.output))
        local left = hosts.processes_left(folder) .. hosts.files_left(folder)
        assert(left == "", left)
    end)

    busted.it("the program writes nothing of its own accord", function()
        assert(outcomes.output == "", outcomes.output)
    end)
end

return hosts
