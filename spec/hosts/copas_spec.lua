local hosts = require "spec.hosts.support.hosts"

-- Debian installs copas for Lua 5.1, thus for LuaJIT, and for 5.2; Lua 5.4 can load it too.
local PATHS = {
    luajit = "",
    ["lua5.4"] = 'LUA_PATH="$LUA_PATH;/usr/share/lua/5.2/?.lua"; ',
}

for _, abi in ipairs({ "lua5.4", "luajit" }) do
    describe(("copas as a host, %s:"):format(abi), function()
        hosts.behave({ it = it, setup = setup, teardown = teardown }, function(folder)
            return ("%s; %sexec %s spec/hosts/support/copas_host.lua %s"):format(hosts.settings(abi), PATHS[abi], abi,
                folder)
        end)
    end)
end
