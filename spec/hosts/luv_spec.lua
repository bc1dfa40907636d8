local cases = require "spec.hosts.support.cases"
local hosts = require "spec.hosts.support.hosts"
local scratch = require "spec.support.scratch"

for _, abi in ipairs({ "lua5.4", "luajit" }) do
    describe(("luv as a host, %s:"):format(abi), function()
        hosts.behave({ it = it, setup = setup, teardown = teardown }, function(folder)
            return ("%s; exec %s spec/hosts/support/luv_host.lua %s"):format(hosts.settings(abi), abi, folder)
        end)

        describe("a program", function()
            local folder

            before_each(function()
                folder = scratch.folder()
                scratch.shell(("mkdir -m 700 %s/workspaces"):format(folder))
            end)

            after_each(function()
                local left = hosts.processes_left(folder)
                scratch.remove(folder)
                assert.equal("", left)
            end)

            -- What a program prints that has `sandbox`, `uv`, `provider` and `after(ms, fn)`.
            local function output_of(text)
                scratch.write(folder .. "/program.lua", [[
                    local sandbox, uv = require "chamvi.sandbox", require "luv"
                    local create_local_sandbox = require("chamvi.sandbox.local").create_local_sandbox
                    local provider = create_local_sandbox({ root = arg[1] .. "/workspaces" })
                    local function after(ms, fn)
                        local timer = uv.new_timer()
                        timer:start(ms, 0, function()
                            timer:close()
                            fn()
                        end)
                        return timer
                    end
                ]] .. text)
                return scratch.shell(("%s; timeout 60 %s %s/program.lua %s"):format(
                    hosts.settings(abi), abi, folder, folder))
            end

            it("runs that is in the README", function()
                cases.write_readme_program("luv", folder .. "/readme.lua")
                assert.equal("quick\n\nslow\n\n", scratch.shell(("%s; TMPDIR=%s timeout 60 %s %s/readme.lua"):format(
                    hosts.settings(abi), folder, abi, folder)))
                assert.same({}, scratch.list(folder .. "/chamvi-workspaces"))
            end)

            it("has its loop run until all that began has ended, and no longer", function()
                assert.equal("loop is over\n", output_of([[
                    after(0, function()
                        sandbox.async(function()
                            local workspace = assert(provider:create({ run_id = "run" }))
                            assert(workspace:exec({ "true" }))
                            local manager = sandbox.create_workspace_manager({ provider = provider })
                            assert(manager:acquire("run"))
                            assert(workspace:dispose())
                            manager:hooks().completed("run") -- ends after this task
                        end, function(_, err)
                            assert(not err, err)
                        end)
                    end)
                    uv.run()
                    print("loop is over")
                ]]))
                assert.same({}, scratch.list(folder .. "/workspaces"))
            end)

            it("may begin before its loop does, when it says which host it is", function()
                assert.equal("the loop begins\nhello\n", output_of([[
                    require("chamvi.sandbox.host").use("luv")
                    sandbox.spawn(function()
                        local workspace = assert(provider:create({ run_id = "run" }))
                        print(assert(workspace:exec({ "echo", "-n", "hello" })).stdout)
                        assert(workspace:dispose())
                    end)
                    print("the loop begins")
                    uv.run()
                ]]))
            end)

            it("has its timers strike while it blocks outside of the loop", function()
                assert.equal("nil\ttrue\t1\n", output_of([[
                    require("chamvi.sandbox.host").use("luv")
                    local struck = false
                    after(50, function()
                        struck = true
                    end)
                    local workspace = assert(provider:create({ run_id = "run" }))
                    assert(workspace:exec({ "sleep", "0.3" }))
                    local joined = sandbox.spawn(sandbox.sleep, 1):join()
                    assert(workspace:dispose())
                    print(uv.loop_mode(), struck, sandbox.all({ function() return 1 end })[1][1])
                ]]))
            end)

            it("can block in a callback of the loop", function()
                assert.equal("x\n1\nover\n", output_of([[
                    after(0, function()
                        local workspace = assert(provider:create({ run_id = "run" }))
                        io.write(assert(workspace:exec({ "echo", "x" })).stdout)
                        print(sandbox.run(function()
                            sandbox.sleep(10)
                            return 1
                        end))
                        assert(workspace:dispose())
                    end)
                    uv.run()
                    print("over")
                ]]))
            end)

            it("may forbid globals that are not there", function()
                assert.equal("1\n", output_of([[
                    setmetatable(_G, { __index = function(_, name) error("reads " .. name) end })
                    require("chamvi.sandbox.host").use("luv")
                    print(sandbox.run(function() return 1 end))
                ]]))
            end)

            it("is told when nothing could end its wait", function()
                assert.matches("deadlock: nothing is under way", output_of([[
                    require("chamvi.sandbox.host").use("luv")
                    local task
                    task = sandbox.spawn(function()
                        local other = coroutine.wrap(function()
                            return pcall(task.join, task)
                        end)
                        sandbox.sleep(1)
                        print(other())
                    end)
                    task:join()
                    local never = require("chamvi.sandbox.task").future()
                    print(pcall(require("chamvi.sandbox.task").wait, never))
                ]]))
            end)

            it("has tasks that yield for others take turns with its timers", function()
                assert.equal("true\n", output_of([[
                    after(0, function()
                        local struck = false
                        after(20, function()
                            struck = true
                        end)
                        sandbox.spawn(function()
                            while not struck do
                                coroutine.yield()
                            end
                            print(struck)
                        end)
                    end)
                    uv.run()
                ]]))
            end)

            it("aborts from a timer, though nothing else happens", function()
                assert.equal("aborted\n", output_of([[
                    after(0, function()
                        sandbox.spawn(function()
                            local signal = sandbox.signal()
                            local workspace = assert(provider:create({ run_id = "run" }))
                            after(100, function()
                                signal:abort()
                            end)
                            local _, err = workspace:exec({ "sleep", "50" }, { signal = signal })
                            print(err.code)
                            assert(workspace:dispose())
                        end)
                    end)
                    uv.run()
                ]]))
            end)

            it("may close all handles of its loop", function()
                assert.equal("one\ntwo\ntwo\nthree\ntrue\n", output_of([[
                    require("chamvi.sandbox.host").use("luv")
                    local function close_all()
                        uv.walk(function(handle)
                            if not handle:is_closing() then
                                handle:close()
                            end
                        end)
                        uv.run()
                    end
                    local workspace = assert(provider:create({ run_id = "run" }))
                    close_all()
                    io.write(assert(workspace:exec({ "echo", "one" })).stdout)
                    for _ = 1, 2 do
                        sandbox.spawn(function()
                            sandbox.sleep(1)
                            coroutine.yield()
                            io.write(assert(workspace:exec({ "echo", "two" })).stdout)
                        end)
                        uv.run()
                        close_all()
                    end
                    local task = sandbox.spawn(workspace.exec, workspace, { "sh", "-c", "sleep 0.1; echo three" })
                    close_all()
                    local timer = after(600000, print) -- keeps the loop alive
                    io.write(assert(task:join()).stdout)
                    timer:close()
                    print(workspace:dispose())
                ]]))
            end)

            if abi == "luajit" then -- has an FFI to fork with
                it("is not held up by a forked child, which is refused and reports that once", function()
                    local reports, rest = 0, {}
                    local output = output_of([[
                        local ffi = require "ffi"
                        ffi.cdef("int fork(void); int waitpid(int, int *, int); void _exit(int);")
                        io.stderr = io.stdout
                        require("chamvi.sandbox.host").use("luv")
                        sandbox.spawn(function()
                            local workspace = assert(provider:create({ run_id = "run" }))
                            local other = sandbox.spawn(workspace.exec, workspace, { "sleep", "0.3" })
                            sandbox.sleep(10)
                            local pid = ffi.C.fork()
                            if pid == 0 then
                                for _ = 1, 100 do
                                    coroutine.yield()
                                end
                                print("child", sandbox.sleep(10))
                                io.flush()
                                ffi.C._exit(0)
                            end
                            ffi.C.waitpid(pid, nil, 0)
                            print("parent", assert(other:join()).exit_code, workspace:dispose())
                        end)
                        uv.run()
                    ]])
                    for line in output:gmatch("[^\n]+") do
                        if line:find("^chamvi%.sandbox: ") then
                            reports = reports + 1
                        else
                            table.insert(rest, line)
                        end
                    end
                    assert.same({
                        "child\tnil\tSandboxError: used in a forked process: start anew in the child",
                        "parent\t0\ttrue",
                    }, rest)
                    assert.equal(1, reports)
                end)
            end
        end)
    end)
end
