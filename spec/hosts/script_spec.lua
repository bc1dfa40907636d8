local hosts = require "spec.hosts.support.hosts"

for _, abi in ipairs({ "lua5.4", "luajit" }) do
    describe(("plain Lua as a host, %s:"):format(abi), function()
        hosts.behave({ it = it, setup = setup, teardown = teardown }, function(folder)
            return ("%s; exec %s spec/hosts/support/script_host.lua %s"):format(hosts.settings(abi), abi, folder)
        end)
    end)
end
