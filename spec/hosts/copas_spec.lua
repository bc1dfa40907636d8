local cases = require "spec.hosts.support.cases"
local hosts = require "spec.hosts.support.hosts"

-- Debian installs copas for Lua 5.1, thus for LuaJIT, and for 5.2; Lua 5.4 can load it too.
local PATHS = {
    luajit = "",
    ["lua5.4"] = 'LUA_PATH="$LUA_PATH;/usr/share/lua/5.2/?.lua"; ',
}

local CASES = {
    {
        case = "readme",
        says = "the program of the README runs",
        prints = "quick\n\nslow\n\n",
        readme = "copas",
    },
    {
        case = "handler",
        says = "a server's handler is a task, and its client is closed when it ends",
        prints = "nil\tclosed\tline\n\n",
    },
    {
        case = "thread",
        says = "a coroutine that is given to copas is a task",
        prints = "parked\n",
    },
    {
        case = "too_early",
        says = "a thread that began before the library was loaded blocks",
        prints = "blocked\ttrue\n",
    },
    {
        case = "outside",
        says = "what is spawned outside the loop goes on in it, or while somebody joins",
        prints = "joined\nstepped\nin run\njoined in run\n",
    },
    {
        case = "descriptors",
        says = "a descriptor that select can't watch is a clear error",
        prints = "true\tstart_failed\tcopas can't watch the descriptor N, only those below 1024: "
            .. "use the library sooner\nstart_failed\t1024\n",
    },
}

for _, abi in ipairs({ "lua5.4", "luajit" }) do
    local function command(program, arguments)
        return ("%s; %sulimit -n 4096; exec %s spec/hosts/support/%s %s"):format(hosts.settings(abi), PATHS[abi], abi,
            program, arguments)
    end

    describe(("copas as a host, %s:"):format(abi), function()
        hosts.behave({ it = it, setup = setup, teardown = teardown }, function(folder)
            return command("copas_host.lua", folder)
        end)

        local function case_command(case, folder)
            return command("copas_cases.lua", case .. " " .. folder)
        end
        cases.describe({ it = it }, case_command, CASES)
        if abi == "luajit" then
            cases.describe({ it = it }, case_command, { cases.FORKED })
        end
    end)
end
