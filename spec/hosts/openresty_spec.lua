local hosts = require "spec.hosts.support.hosts"
local nginx = require "spec.hosts.support.nginx"

-- The log but for what nginx says of its own processes, as what the program wrote.
local COMMAND = [[
%s & server=$!
n=0
until [ -e %s/over ] || ! kill -0 $server || [ $n -gt 2400 ]; do n=$((n + 1)); sleep 0.05; done
kill -TERM $server
wait $server
status=$?
grep -vE '^[^[]*\[notice\] ' %s/error.log
exit $status
]]

describe("nginx as a host:", function()
    hosts.behave({ it = it, setup = setup, teardown = teardown }, function(folder)
        nginx.configure(folder, {
            main = "user root;",
            http = ("init_worker_by_lua_block { require('spec.hosts.support.openresty_host')('%s') }"):format(folder),
        })
        return COMMAND:format(nginx.command(folder), folder, folder)
    end)
end)
