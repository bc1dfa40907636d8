-- examples/openresty, on a unix socket instead of a port.

local hosts = require "spec.hosts.support.hosts"
local nginx = require "spec.hosts.support.nginx"
local scratch = require "spec.support.scratch"

local wait_until = nginx.wait_until

describe("the example of nginx", function()
    local folder

    local function post(script, options)
        local command = "curl -sS --max-time 60 %s --unix-socket %s/socket --data-binary %s http://nginx/run"
        return scratch.shell(command:format(options or "", folder, scratch.quote(script)))
    end

    setup(function()
        folder = scratch.folder()
        scratch.shell(("cp examples/openresty/* %s; mkdir -m 700 %s/workspaces"):format(folder, folder))
        local configuration = scratch.read(folder .. "/nginx.conf")
        local changed = {
            { "listen 127.0.0.1:8080;", ("listen unix:%s/socket;"):format(folder) },
            { "/tmp/chamvi-example-nginx.pid", folder .. "/pid" },
            { "error_log stderr;", ("error_log %s/error.log;"):format(folder) },
            { "http {", ("http { client_body_temp_path %s/body;"):format(folder) },
        }
        for _, pair in ipairs(changed) do
            local at, to = configuration:find(pair[1], 1, true)
            configuration = configuration:sub(1, at - 1) .. pair[2] .. configuration:sub(to + 1)
        end
        scratch.write(folder .. "/nginx.conf", configuration)
        local as_root = scratch.shell("id -u") == "0\n" and "user root;" or ""
        scratch.shell(([[
            eval "$(scripts/env luajit)"
            ln -s workspaces %s/chamvi-workspaces
            TMPDIR=%s nginx -p %s -c nginx.conf -e %s/error.log -g '%s' >%s/output 2>&1 </dev/null &
        ]]):format(folder, folder, folder, folder, as_root, folder))
        wait_until(function()
            return (scratch.read(folder .. "/pid") or ""):match("%d+")
        end, "the start: " .. scratch.read(folder .. "/output"))
    end)

    teardown(function()
        local master = scratch.read(folder .. "/pid"):match("%d+")
        scratch.shell("kill -QUIT " .. master)
        wait_until(function()
            return not scratch.is_alive(master)
        end, "the end")
        scratch.remove(folder)
    end)

    it("runs scripts", function()
        local printed = post("echo out; echo err >&2; exit 3", "-D " .. folder .. "/headers")
        assert.equal("out\nerr\n", printed)
        assert.matches("\nX-Exit-Code: 3\r\n", scratch.read(folder .. "/headers"), 1, true)
        assert.equal("", hosts.files_left(folder))
    end)

    it("ends a script when its client goes", function()
        local command = "curl -s --max-time 0.5 --unix-socket %s/socket -d 'sleep 600' http://nginx/run; echo $?"
        assert.equal("28\n", scratch.shell(command:format(folder)))
        assert.equal("", hosts.processes_left(folder) .. hosts.files_left(folder))
    end)

    it("complains of nothing", function()
        assert.same({}, nginx.complaints(folder))
    end)
end)
