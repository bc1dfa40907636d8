local hosts = require "spec.hosts.support.hosts"
local scratch = require "spec.support.scratch"

-- What is left of a workspace when the program ends in the midst of a command.
local LONG = [[
local sandbox = require "chamvi.sandbox"
local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = "%s/workspaces" })
sandbox.async(function()
    local workspace = assert(provider:create({ run_id = "long" }))
    return workspace:exec({ "sh", "-c", "touch ../begun; exec sleep 600" })
end, function() end)
return sandbox.loop()
]]

for _, abi in ipairs({ "lua5.4", "luajit" }) do
    describe(("the example of embedding in C, %s,"):format(abi), function()
        local folder

        local function run(script)
            return scratch.shell(("TMPDIR=%s; export TMPDIR; %s; timeout -k 5 60 %s/embedding %s"):format(folder,
                hosts.settings(abi), folder, script))
        end

        setup(function()
            folder = scratch.folder()
            scratch.shell("mkdir -m 700 " .. folder .. "/workspaces")
        end)

        teardown(function()
            scratch.remove(folder)
        end)

        for _, compiler in ipairs({ "clang", "gcc" }) do
            it("is compiled without a warning by " .. compiler, function()
                local flags = "-std=c11 -O2 -Wall -Wextra -Wshadow -Werror"
                assert.equal("", scratch.shell(("%s %s -o %s/embedding examples/embedding/embedding.c "
                    .. "$(pkg-config --cflags --libs %s)"):format(compiler, flags, folder, abi)))
            end)
        end

        it("runs commands beside its own timer", function()
            local example = scratch.read("examples/embedding/embedding.lua")
            local least = 0
            for _, seconds in ipairs({ "0.5", "5", "30" }) do -- on a busy machine the timer loses turns
                local text, count = example:gsub("sleep 0%.5;", "sleep " .. seconds .. ";")
                assert.equal(1, count)
                scratch.write(folder .. "/beside.lua", text)
                local strikes = run(folder .. "/beside.lua"):match("^slow\nquick\nstrikes (%d+)\n$")
                least = tonumber(strikes)
                if least >= 5 then -- of 25 in half a second; one or two when a wait blocked it
                    break
                end
            end
            assert.is_true(least >= 5, least)
            assert.same({}, scratch.list(folder .. "/chamvi-workspaces"))
        end)

        it("tells what the script raised", function()
            scratch.write(folder .. "/raises.lua", "error('broken', 0)")
            local ok, output = pcall(run, folder .. "/raises.lua")
            assert.is_false(ok)
            assert.matches("\nembedding: broken\nstrikes 0\nstatus 1\n", output)
        end)

        it("leaves nothing when it is told to end", function()
            scratch.write(folder .. "/long.lua", LONG:format(folder))
            local output = scratch.shell(([[
                %s
                timeout -k 5 60 %s/embedding %s/long.lua & pid=$!
                n=0; until [ -e %s/workspaces/begun ]; do n=$((n + 1)); [ $n -lt 600 ] || exit 9; sleep 0.05; done
                kill $pid
                wait $pid
            ]]):format(hosts.settings(abi), folder, folder, folder))
            assert.matches("^strikes %d+\n$", output)
            assert.equal("", hosts.processes_left(folder))
            scratch.shell("rm " .. folder .. "/workspaces/begun")
            assert.equal("", hosts.files_left(folder))
        end)
    end)
end
