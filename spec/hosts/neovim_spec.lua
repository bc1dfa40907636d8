local cases = require "spec.hosts.support.cases"
local hosts = require "spec.hosts.support.hosts"
local scratch = require "spec.support.scratch"

-- The shell command of a headless editor without anybody's configuration.
local function nvim(folder, file)
    return ("%s; exec nvim --headless --clean -n -c \"let g:folder = '%s'\" -c 'luafile %s'"):format(
        hosts.settings("luajit"), folder, file)
end

describe("Neovim as a host:", function()
    hosts.behave({ it = it, setup = setup, teardown = teardown }, function(folder)
        return nvim(folder, "spec/hosts/support/neovim_host.lua")
    end)

    describe("an editor", function()
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

        local function write_program(text)
            scratch.write(folder .. "/program.lua", [[
                local sandbox = require "chamvi.sandbox"
                local create_local_sandbox = require("chamvi.sandbox.local").create_local_sandbox
                local provider = create_local_sandbox({ root = vim.g.folder .. "/workspaces" })
                local function say(...)
                    local words = {}
                    for index = 1, select("#", ...) do
                        words[index] = tostring((select(index, ...)))
                    end
                    io.stdout:write(table.concat(words, " "), "\n")
                    io.stdout:flush()
                end
                local function quit()
                    vim.cmd("quitall!")
                end
            ]] .. text)
        end

        -- What an editor prints that runs the program.
        local function output_of(text)
            write_program(text)
            return scratch.shell(("timeout -k 5 60 sh -c %s </dev/null"):format(
                scratch.quote(nvim(folder, folder .. "/program.lua"))))
        end

        it("may be used in tasks and in what is called back", function()
            assert.equal("false false 1,2\n", output_of([[
                sandbox.async(function()
                    local workspace = assert(provider:create({ run_id = "run" }))
                    local fast_output
                    assert(workspace:exec({ "sh", "-c", "echo 1; echo 2" }, {
                        on_output = function(_, chunk)
                            fast_output = vim.in_fast_event()
                            local lines = vim.split(vim.trim(chunk), "\n")
                            vim.api.nvim_buf_set_lines(0, vim.fn.getline(1) == "" and 0 or -1, -1, false, lines)
                        end,
                    }))
                    local fast = vim.in_fast_event()
                    assert(workspace:dispose())
                    return fast, fast_output
                end, function(fast, fast_output)
                    say(fast, fast_output, table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), ","))
                    quit()
                end)
            ]]))
        end)

        it("stays alive while a call outside of tasks waits", function()
            assert.equal("true false\n", output_of([[
                local workspace = assert(provider:create({ run_id = "run" }))
                local ticks, stuck = 0, true
                local timer = vim.fn.timer_start(10, function()
                    ticks = ticks + 1
                    if ticks == 4 then
                        assert(io.open(("%s/workspaces/%s/go"):format(vim.g.folder, workspace.id), "w")):close()
                    end
                end, { ["repeat"] = -1 })
                vim.schedule(function()
                    stuck = false
                end)
                local script = "until [ -e go ]; do sleep 0.02; done"
                assert(workspace:exec({ "sh", "-c", script }, { timeout_ms = 30000 }))
                vim.fn.timer_stop(timer)
                assert(workspace:dispose())
                say(ticks > 3, stuck)
                quit()
            ]]))
        end)

        it("is not held up by tasks that only yield", function()
            assert.equal("struck\n", output_of([[
                local struck = false
                vim.fn.timer_start(20, function()
                    struck = true
                end)
                sandbox.spawn(function()
                    while not struck do
                        coroutine.yield()
                    end
                    say("struck")
                    quit()
                end)
            ]]))
        end)

        it("refuses to wait in callbacks of its loop, where tasks can begin", function()
            local lines = output_of([[
                local workspace = assert(provider:create({ run_id = "run" }))
                local timer = vim.loop.new_timer()
                timer:start(0, 0, function()
                    timer:close()
                    local ok, err = pcall(workspace.exec, workspace, { "true" })
                    say(ok, err)
                    sandbox.spawn(function()
                        say(vim.in_fast_event(), assert(workspace:exec({ "echo", "-n", "x" })).stdout)
                        assert(workspace:dispose())
                        quit()
                    end)
                end)
            ]])
            assert.matches("^false [^\n]*exec waits, and a callback of vim%.loop must not: use sandbox%.spawn there\n"
                .. "false x\n$", lines)
        end)

        it("has no tasks run by loop():step() in callbacks of its loop, where they could not use it", function()
            assert.equal("false true\nfalse false\n", output_of([[
                local workspace = assert(provider:create({ run_id = "run" }))
                local timer = vim.loop.new_timer()
                timer:start(20, 0, function()
                    timer:close()
                    local ok, err = pcall(sandbox.loop().step, sandbox.loop(), 1000)
                    say(ok, err:find("loop:step called from inside a callback of vim.loop", 1, true) ~= nil)
                end)
                sandbox.async(function()
                    local fast_output
                    assert(workspace:exec({ "sh", "-c", "sleep 0.2; echo x" }, {
                        on_output = function()
                            fast_output = vim.in_fast_event()
                        end,
                    }))
                    local fast = vim.in_fast_event()
                    assert(workspace:dispose())
                    return fast, fast_output
                end, function(fast, fast_output)
                    say(fast, fast_output)
                    quit()
                end)
            ]]))
        end)

        it("has its other tasks stand still while one waits in vim.wait itself, and no longer", function()
            assert.equal("false true\n", output_of([[
                sandbox.spawn(function()
                    local slept = false
                    sandbox.spawn(function()
                        sandbox.sleep(10)
                        slept = true
                    end)
                    local meanwhile = vim.wait(100, function()
                        return slept
                    end)
                    sandbox.sleep(20)
                    say(meanwhile, slept)
                    quit()
                end)
            ]]))
        end)

        it("can be interrupted while it waits", function()
            assert.equal("false chamvi.sandbox: the wait was interrupted\n", output_of([[
                local workspace = assert(provider:create({ run_id = "run" }))
                local timer = vim.loop.new_timer()
                timer:start(200, 0, function()
                    timer:close()
                    vim.api.nvim_input("<C-c>")
                end)
                say(pcall(workspace.exec, workspace, { "sleep", "50" }))
                quit()
            ]]))
            assert.equal("", hosts.files_left(folder))
        end)

        it("keeps the status of its own commands", function()
            assert.equal("3 0 4\n", output_of([[
                sandbox.spawn(function()
                    local workspace = assert(provider:create({ run_id = "run" }))
                    local code
                    vim.fn.jobstart({ "sh", "-c", "sleep 0.1; exit 4" }, {
                        on_exit = function(_, status)
                            code = status
                        end,
                    })
                    vim.fn.system("exit 3")
                    local status = vim.v.shell_error
                    local ours = assert(workspace:exec({ "sleep", "0.2" })).exit_code
                    while not code do
                        sandbox.sleep(10)
                    end
                    say(status, ours, code)
                    assert(workspace:dispose())
                    quit()
                end)
            ]]))
        end)

        it("can release and close when it is left", function()
            assert.equal("true 0\n", output_of([[
                local function manager()
                    return sandbox.create_workspace_manager({ provider = provider })
                end
                local hooked, closed = manager(), manager()
                assert(hooked:acquire("run"))
                assert(closed:acquire("run"))
                vim.api.nvim_create_autocmd("VimLeavePre", {
                    callback = function()
                        hooked:hooks().completed("run")
                        say(closed:close(), #vim.fn.glob(vim.g.folder .. "/workspaces/nothing"))
                    end,
                })
                quit()
            ]]))
            assert.equal("", hosts.files_left(folder))
        end)

        it("is refused, and does not hang, when all is closed since it is left", function()
            local CLOSED = "false SandboxError: the core is closed\n"
            assert.equal("nil closed\n" .. CLOSED .. CLOSED .. "nil create_failed closed\n", output_of([[
                local workspace = assert(provider:create({ run_id = "run" }))
                local task = sandbox.spawn(workspace.exec, workspace, { "sleep", "600" })
                vim.api.nvim_create_autocmd("VimLeave", {
                    callback = function()
                        local result, err = workspace:exec({ "true" })
                        say(result, err.code)
                        say(pcall(task.join, task))
                        say(pcall(sandbox.run, task.join, task))
                        result, err = provider:create({ run_id = "run" })
                        say(result, err.code, err.cause and err.cause.code)
                    end,
                })
                quit()
            ]]))
        end)

        it("leaves nothing when it is left at once", function()
            for _, command in ipairs({ "cquit 0", "quitall!" }) do
                assert.equal("begun\n", output_of([[
                    local workspace = assert(provider:create({ run_id = "run" }))
                    sandbox.spawn(function()
                        workspace:exec({ "sleep", "600" })
                    end)
                    say("begun")
                    vim.cmd("]] .. command .. [[")
                ]]))
                assert.equal("", hosts.files_left(folder))
            end
        end)

        describe("runs the example", function()
            -- What an editor prints that runs the commands, with its workspaces in the folder.
            local function output_with(commands)
                local quoted = {}
                for index, command in ipairs(commands) do
                    quoted[index] = "-c " .. scratch.quote(command)
                end
                return scratch.shell(("%s; TMPDIR=%s timeout -k 5 60 nvim --headless --clean -n %s </dev/null"):format(
                    hosts.settings("luajit"), folder, table.concat(quoted, " ")))
            end

            after_each(function()
                assert.same({}, scratch.list(folder .. "/chamvi-workspaces"))
            end)

            it("of tools for a chat", function()
                local expected = {
                    '^%[create_workspace%] {"commit":null,.*"workspace":"[%x-]+"}$',
                    '^%[run_command%] {"exitCode":3,"stderr":"","stdout":"20 %+ 22 is 42\\n"}$',
                    '^%[run_command%] {"error":{"code":"aborted",.*"name":"SandboxError"}}$',
                    "^released true$",
                }
                local count = 0
                for line in output_with({ "luafile examples/neovim/chat.lua" }):gmatch("[^\n]+") do
                    count = count + 1
                    assert.matches(expected[count] or "no more", line)
                end
                assert.equal(#expected, count)
            end)

            -- What the buffer holds in the end, whose last line then has the pattern.
            local function shown_by(ending, ...)
                local commands = { ... }
                table.insert(commands, ([[lua vim.wait(50000, function() return vim.fn.getline("$"):find("%s") end)]])
                    :format(ending))
                table.insert(commands, ("silent write %s/shown"):format(folder))
                table.insert(commands, "quitall!")
                assert.equal("", output_with(commands))
                return scratch.read(folder .. "/shown")
            end

            local COMMAND = "luafile examples/neovim/command.lua"

            it("of a command, whose output is shown", function()
                assert.equal("out\nlast[exit code 4]\n",
                    shown_by("exit code", COMMAND, "Sandbox echo out; printf last; exit 4"))
            end)

            it("of a command that is stopped", function()
                assert.equal("[SandboxError: the call was aborted: stopped by the user]\n",
                    shown_by("aborted", COMMAND, "Sandbox sleep 600", "SandboxStop"))
            end)

            it("of the README", function()
                cases.write_readme_program("Neovim", folder .. "/readme.lua")
                assert.equal("Linux\n", shown_by(".", ("luafile %s/readme.lua"):format(folder)))
            end)
        end)

        it("leaves no process when it is killed", function()
            write_program([[
                local workspace = assert(provider:create({ run_id = "run" }))
                sandbox.spawn(function()
                    workspace:exec({ "sh", "-c", "setsid sleep 600 & touch begun; sleep 600" })
                end)
            ]])
            local path = folder .. "/workspaces"
            scratch.shell(([[
                sh -c %s </dev/null >%s/output 2>&1 & editor=$!
                n=0; until ls %s/*/begun >/dev/null 2>&1; do n=$((n + 1)); [ $n -lt 1500 ] || exit 9; sleep 0.02; done
                kill -KILL $editor
            ]]):format(scratch.quote(nvim(folder, folder .. "/program.lua")), folder, path))
            assert.equal("", hosts.processes_left(folder))
        end)
    end)
end)
