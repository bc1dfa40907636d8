-- Programs for nginx: examples/openresty, the one of the README, and one in a place without a folder for temporary
-- files. Each on a unix socket, with one worker.

local cases = require "spec.hosts.support.cases"
local hosts = require "spec.hosts.support.hosts"
local nginx = require "spec.hosts.support.nginx"
local scratch = require "spec.support.scratch"

local wait_until = nginx.wait_until

local HTTP = [[
    init_by_lua_block { package.path = '%s/?.lua;' .. package.path }
    server {
        listen unix:%s/socket;
        location /run {
            content_by_lua_block { require("scripts").run() }
            log_by_lua_block { require("scripts").over() }
        }
    }
]]

describe("a program for nginx,", function()
    local folder

    before_each(function()
        folder = scratch.folder()
        scratch.shell(("mkdir -m 700 %s/workspaces; ln -s workspaces %s/chamvi-workspaces"):format(folder, folder))
    end)

    local function start(command)
        scratch.shell(("%s >%s/output 2>&1 </dev/null &"):format(command, folder))
        wait_until(function()
            return (scratch.read(folder .. "/nginx.pid") or ""):match("%d+")
        end, "the start: " .. (scratch.read(folder .. "/output") or ""))
    end

    after_each(function()
        local master = (scratch.read(folder .. "/nginx.pid") or ""):match("%d+")
        if master then
            scratch.shell("kill -QUIT " .. master)
            wait_until(function()
                return not scratch.is_alive(master)
            end, "the end")
        end
        scratch.remove(folder)
    end)

    local function as_root()
        return scratch.shell("id -u") == "0\n" and "user root;" or ""
    end

    local function post(script, options)
        local command = "curl -sS --max-time 60 %s --unix-socket %s/socket --data-binary %s http://nginx/run"
        return scratch.shell(command:format(options or "", folder, scratch.quote(script)))
    end

    describe("the example,", function()
        before_each(function()
            scratch.shell(("cp examples/openresty/* %s"):format(folder))
            local configuration = scratch.read(folder .. "/nginx.conf")
            for _, pair in ipairs({
                { "listen 127.0.0.1:8080;", ("listen unix:%s/socket;"):format(folder) },
                { "/tmp/chamvi-example-nginx.pid", folder .. "/nginx.pid" },
                { "error_log stderr;", ("error_log %s/error.log;"):format(folder) },
                { "http {", ("http { client_body_temp_path %s/body;"):format(folder) },
            }) do
                local from, to = configuration:find(pair[1], 1, true)
                configuration = configuration:sub(1, from - 1) .. pair[2] .. configuration:sub(to + 1)
            end
            scratch.write(folder .. "/nginx.conf", configuration)
            local library = nginx.library()
            start(("LUA_PATH='%s/?.lua;%s/?/init.lua' LUA_CPATH='%s/?.so' TMPDIR=%s %s -g '%s'"):format(library,
                library, library, folder, nginx.command(folder), as_root()))
        end)

        it("runs scripts", function()
            local printed = post("echo out; echo err >&2; exit 3", "-D " .. folder .. "/headers")
            assert.equal("out\nerr\n", printed)
            assert.matches("\nX-Exit-Code: 3\r\n", scratch.read(folder .. "/headers"), 1, true)
            assert.equal("", hosts.files_left(folder))
            assert.same({}, nginx.complaints(folder))
        end)

        it("ends a script when its client goes", function()
            local command = "curl -s --max-time 0.5 --unix-socket %s/socket -d 'sleep 600' http://nginx/run; echo $?"
            assert.equal("28\n", scratch.shell(command:format(folder)))
            assert.equal("", hosts.processes_left(folder) .. hosts.files_left(folder))
            assert.same({}, nginx.complaints(folder))
        end)
    end)

    it("the one of the README, runs", function()
        cases.write_readme_program("OpenResty, and nginx with lua%-nginx%-module", folder .. "/scripts.lua")
        nginx.configure(folder, {
            main = as_root() .. " env TMPDIR;",
            http = HTTP:format(folder, folder),
        })
        start(("TMPDIR=%s %s"):format(folder, nginx.command(folder)))
        assert.equal("out\n\n", post("echo out"))
        assert.equal("", hosts.files_left(folder))
        assert.same({}, nginx.complaints(folder))
    end)

    it("without a folder for temporary files, is slower and says so once", function()
        scratch.write(folder .. "/scripts.lua", ([[
            local sandbox = require "chamvi.sandbox"
            local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = "%s/workspaces" })
            return {
                run = function()
                    local workspace = assert(provider:create({ run_id = "run" }))
                    ngx.say(assert(workspace:exec({ "echo", "out" })).stdout)
                    assert(workspace:dispose())
                end,
                over = sandbox.uuid,
            }
        ]]):format(folder))
        nginx.configure(folder, {
            main = as_root() .. " env TMPDIR=/nonexistent;",
            http = HTTP:format(folder, folder),
        })
        start(nginx.command(folder))
        assert.equal("out\n\n", post("nothing"))
        assert.equal("out\n\n", post("nothing"))
        local complaints = nginx.complaints(folder)
        assert.equal(1, #complaints, complaints[2])
        assert.matches("chamvi.sandbox: the host can't be woken: can't wake the host's loop: a socket in the folder "
            .. "for temporary files: No such file or directory; trying again", complaints[1], 1, true)
    end)
end)
