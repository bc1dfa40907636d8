local describe_cases = require "spec.hosts.support.cases"
local hosts = require "spec.hosts.support.hosts"

local CASES = {
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
        case = "pollable",
        says = "the library's loop can be polled, for the tasks of plain Lua",
        prints = "polled\n",
    },
}

local FORKED = {
    case = "forked",
    says = "what waits in a forked child is told that it can't",
    prints = "child: false SandboxError: used in a forked process: start anew in the child\nparent: true true\n",
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
        describe_cases({ it = it }, case_command, CASES)
        if abi == "luajit" then
            describe_cases({ it = it }, case_command, { FORKED })
        end
    end)
end
