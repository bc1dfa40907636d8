local cases = require "spec.hosts.support.cases"
local hosts = require "spec.hosts.support.hosts"

local CASES = {
    {
        case = "readme",
        says = "the program of the README runs",
        prints = "quick\n\nslow\n\n",
        readme = "cqueues",
    },
    {
        case = "ends_when_idle",
        says = "the loop ends when the last operation ended while a coroutine blocked",
        prints = "true\ntrue\ntrue\nended\n",
    },
    {
        case = "two_controllers",
        says = "what began in one controller can be waited for in another",
        prints = "used\n",
    },
    {
        case = "tasks",
        says = "a wait that could never end is refused also inside of all and run, and a lost failure is reported",
        prints = "deadlock\ndeadlock\tdeadlock\nchamvi.sandbox: a task failed and nobody joined it: lost\n",
    },
    {
        case = "picked",
        says = "outside of a controller tasks are those of plain Lua",
        prints = "true\tspawned\ncalled back\n",
    },
    {
        case = "pollable",
        says = "the library's loop can be polled, for the tasks of plain Lua",
        prints = "polled\n",
    },
}

for _, abi in ipairs({ "lua5.4", "luajit" }) do
    local function command(program, arguments)
        return ("%s; exec %s spec/hosts/support/%s %s"):format(hosts.settings(abi), abi, program, arguments)
    end

    describe(("cqueues as a host, %s:"):format(abi), function()
        hosts.behave({ it = it, setup = setup, teardown = teardown }, function(folder)
            return command("cqueues_host.lua", folder)
        end)

        local function case_command(case, folder)
            return command("cqueues_cases.lua", case .. " " .. folder)
        end
        cases.describe({ it = it }, case_command, CASES)
        if abi == "luajit" then
            cases.describe({ it = it }, case_command, { cases.FORKED })
        end
    end)
end
