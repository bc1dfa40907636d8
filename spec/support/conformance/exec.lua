-- What exec takes, and how commands start and end.

local assert = require "luassert"
local compat = require "chamvi.sandbox.compat"
local sandbox = require "chamvi.sandbox"
local timed_out = require "spec.support.timed_out"

return function(kit)
    local proves, fails, sh = kit.proves, kit.fails, kit.sh

    local function run(workspace, script, ...)
        return assert(workspace:exec(sh(script, ...)))
    end

    proves("result", nil, function()
        kit.with(function(workspace)
            local result
            for _ = 1, 3 do -- a transport that is slow to end is taken for one that is held
                result = run(workspace, "echo out; echo err >&2; exit 3")
                if not result.streams_held then
                    break
                end
            end
            assert.equal("number", type(result.duration_ms))
            assert.equal(0, result.duration_ms % 1)
            result.duration_ms = nil
            assert.same({
                status = "exited",
                exit_code = 3,
                stdout = "out\n",
                stderr = "err\n",
                stdout_truncated = false,
                stderr_truncated = false,
                stdout_bytes = 4,
                stderr_bytes = 4,
                streams_held = false,
                timed_out = false,
            }, result)
        end)
    end)

    proves("nonzero", nil, function()
        kit.with(function(workspace)
            for _, code in ipairs({ 0, 1, 2, 255 }) do
                local result = run(workspace, "exit " .. code)
                assert.equal("exited", result.status)
                assert.equal(code, result.exit_code)
            end
        end)
    end)

    proves("signaled", nil, function()
        kit.with(function(workspace)
            for name, number in pairs({ TERM = 15, KILL = 9, SEGV = 11, HUP = 1, ["64"] = 64 }) do
                local result = run(workspace, ("echo before; kill -%s $$"):format(name))
                assert.equal("signaled", result.status)
                assert.equal(128 + number, result.exit_code)
                assert.equal(number, result.term_signal)
                assert.equal("before\n", result.stdout)
                assert.is_false(result.timed_out)
            end
        end)
    end)

    proves("own_codes", nil, function()
        kit.with(function(workspace)
            for _, code in ipairs({ 124, 125, 126, 127, 137, 143 }) do
                local result = run(workspace, "exit " .. code)
                assert.equal("exited", result.status)
                assert.equal(code, result.exit_code)
                assert.is_nil(result.term_signal)
                assert.is_false(result.timed_out)
            end
        end)
    end)

    proves("not_found", nil, function()
        kit.with(function(workspace)
            run(workspace, "echo text > plain; mkdir folder; echo '#!/no/such/interpreter' > lost; chmod +x lost")
            local by_code = { [127] = { "no-such-program", "./none", "./lost" }, [126] = { "./plain", "./folder" } }
            for code, programs in pairs(by_code) do
                for _, program in ipairs(programs) do
                    local result = assert(workspace:exec({ program, "argument" }))
                    assert.equal(code, result.exit_code, program)
                    assert.equal("exited", result.status)
                    assert.equal("", result.stdout)
                    assert.matches("^[^\n]+\n$", result.stderr)
                end
            end
        end)
    end)

    proves("argv", nil, function()
        kit.with(function(workspace)
            local wrong = {
                { "true" },
                { 7 },
                { {}, "empty" },
                { { "" }, "element 1" },
                { { "true", 7 }, "element 2" },
                { { "true", "a", "b\0c" }, "element 3" },
                { { "true", ("a"):rep(131072) }, "element 2" },
                { { "true", nil, "b" }, "element 2" },
                { { "true", name = "x" }, "element 2" },
                { { program = "true" }, "element 1" },
            }
            wrong[1][1] = "true"
            for index, case in ipairs(wrong) do
                local err = fails("ValidationError", "invalid_argv", workspace:exec(case[1]))
                if case[2] then
                    assert.is_truthy(err.message:find(case[2], 1, true), index)
                end
            end
            fails("ValidationError", "invalid_argv", workspace:exec(nil))
        end)
    end)

    proves("argv_exact", nil, function()
        kit.with(function(workspace)
            local arguments = { "", " ", "a b", "$HOME", "`id`", "'", '"', "\\", "*", "-n", "--", "line\nline", "tab\t",
                "é", "\255\254", ";", "&", "|", ">", "#", "~", "{a,b}", "%s" }
            local result = assert(workspace:exec({ "printf", "[%s]", compat.unpack(arguments) }))
            assert.equal(0, result.exit_code, result.stderr)
            local expected = "[" .. table.concat(arguments, "][") .. "]"
            assert.equal(#expected, result.stdout_bytes)
            assert.equal((expected:gsub("\255\254", "\239\191\189\239\191\189")), result.stdout)
            assert.equal("131071", (run(workspace, "printf %s \"$1\" | wc -c", ("a"):rep(131071)).stdout:match("%d+")))
        end)
    end)

    proves("cwd", nil, function()
        kit.with(function(workspace)
            run(workspace, "mkdir -p 'a b/-c'; echo text > file; ln -s 'a b' link; ln -s /etc out")
            local function pwd(cwd)
                local result = assert(workspace:exec(sh("pwd -P"), { cwd = cwd }))
                assert.equal(0, result.exit_code, result.stderr)
                return (result.stdout:gsub("\n$", ""))
            end
            local root = pwd()
            assert.equal(root, pwd("."))
            assert.equal(root, pwd("/workspace"))
            assert.equal(root .. "/a b/-c", pwd("a b/-c"))
            assert.equal(root .. "/a b/-c", pwd("/workspace/a b/x/../-c/"))
            assert.equal(root .. "/a b", pwd("link"))
            for _, cwd in ipairs({ "..", "/etc", "a/../../b", "", "a\0b", 7, {} }) do
                fails("ValidationError", "invalid_path", workspace:exec({ "true" }, { cwd = cwd }))
            end
            fails("SandboxError", "cwd_not_found", workspace:exec({ "true" }, { cwd = "none" }))
            fails("SandboxError", "cwd_not_found", workspace:exec({ "true" }, { cwd = "file" }))
            fails("SandboxError", "outside_workspace", workspace:exec({ "true" }, { cwd = "out" }))
        end)
    end)

    proves("timeout_input", nil, function()
        kit.with(function(workspace)
            for _, wrong in ipairs({ 0, -1, 0.5, 0 / 0, "100", {}, true }) do
                fails("ValidationError", "invalid_timeout", workspace:exec({ "true" }, { timeout_ms = wrong }))
            end
            for _, long in ipairs({ sandbox.EXEC_TIMEOUT_MAX_MS, sandbox.EXEC_TIMEOUT_MAX_MS + 1, 2 ^ 53 }) do
                assert.equal(0, assert(workspace:exec({ "true" }, { timeout_ms = long })).exit_code)
            end
        end)
    end)

    proves("timeout", nil, function()
        kit.with(function(workspace)
            -- The whole group gets the signal: the shell, and what it waits for. GNU `timeout` sends its own child one
            -- more.
            local script = [[
                trap 'trap "" TERM; echo caught; exit 7' TERM
                sleep 1000 & echo $! > pid; echo begun; wait
            ]]
            local result = timed_out(workspace, script, 700)
            assert.equal("timed_out", result.status)
            assert.equal(124, result.exit_code)
            assert.is_true(result.timed_out)
            assert.equal("begun\ncaught\n", result.stdout)
            assert.is_true(result.duration_ms >= 700)
            kit.wait_until(function()
                local alive = "[ -e /proc/$(cat pid) ] && ! grep -q '^State:.Z' /proc/$(cat pid)/status"
                return run(workspace, alive).exit_code ~= 0
            end, "what the shell waits for is dead")
        end)
    end)

    proves("timeout_stopped", nil, function()
        kit.with(function(workspace)
            local result = timed_out(workspace, "echo begun; kill -STOP $$; exit 7", 300)
            assert.same({ "timed_out", 124, "begun\n" }, { result.status, result.exit_code, result.stdout })
        end)
    end)

    proves("timeout_unread", nil, function()
        kit.with(function(workspace)
            local result = timed_out(workspace, "echo begun; exec sleep 1000", 300, ("x"):rep(3000000))
            assert.same({ "timed_out", 124, "begun\n" }, { result.status, result.exit_code, result.stdout })
        end)
    end)

    proves("timeout_kill", nil, function()
        kit.with(function(workspace)
            local script = "trap '' TERM; echo begun; while :; do sleep 0.1; done"
            local result = timed_out(workspace, script, 500)
            assert.equal("timed_out", result.status)
            assert.same({ 124, 9 }, { result.exit_code, result.term_signal })
            assert.equal("begun\n", result.stdout)
            assert.is_true(result.duration_ms >= 5000, result.duration_ms)
        end)
    end)

    proves("stdin", nil, function()
        kit.with(function(workspace)
            assert.equal("", assert(workspace:exec({ "cat" })).stdout)
            assert.equal("", assert(workspace:exec({ "cat" }, { stdin = "" })).stdout)
            assert.equal("a\n\nb", assert(workspace:exec({ "cat" }, { stdin = "a\n\nb" })).stdout)
            local block = {}
            for byte = 0, 255 do
                block[byte + 1] = string.char(byte)
            end
            local stdin = table.concat(block):rep(20000) -- 5 MB
            local result = assert(workspace:exec(sh("tee copy | wc -c; cksum < copy"), { stdin = stdin }))
            local bytes, sum = result.stdout:match("(%d+)\n(%d+) ")
            assert.equal(#stdin, tonumber(bytes))
            local again = assert(workspace:exec({ "cksum" }, { stdin = stdin }))
            assert.equal(sum, again.stdout:match("^%d+"))
        end)
    end)

    proves("stdin_unread", nil, function()
        kit.with(function(workspace)
            local options = { stdin = ("abcdefg\n"):rep(400000) }
            local result = assert(workspace:exec(sh("head -c 3; echo; echo done"), options))
            assert.equal("exited", result.status)
            assert.equal(0, result.exit_code)
            assert.equal("abc\ndone\n", result.stdout)
            assert.equal("deaf\n", assert(workspace:exec({ "echo", "deaf" }, { stdin = ("x"):rep(3000000) })).stdout)
        end)
    end)

    proves("stdin_input", nil, function()
        kit.with(function(workspace)
            for _, wrong in ipairs({ 7, {}, true, sandbox.null }) do
                fails("ValidationError", "invalid_stdin", workspace:exec({ "true" }, { stdin = wrong }))
            end
        end)
    end)

    proves("abort", nil, function()
        kit.with(function(workspace)
            sandbox.run(function()
                local signal = sandbox.signal()
                local script = "trap '' TERM; sleep 1000 & echo $$ $! > pids; wait; sleep 1000"
                local task = sandbox.spawn(workspace.exec, workspace, sh(script), { signal = signal })
                kit.wait_until(function()
                    return (workspace:read_file("pids") or ""):find("\n")
                end, "the command runs")
                signal:abort("enough")
                assert.equal("enough", fails("SandboxError", "aborted", task:join()).cause)
            end)
            kit.wait_until(function()
                local alive = run(workspace, [[
                    for pid in $(cat pids); do
                        [ ! -e /proc/$pid ] || grep -q '^State:.Z' /proc/$pid/status || echo $pid
                    done
                ]])
                return alive.stdout == ""
            end, "the group is dead")
        end)
    end)

    proves("abort_before", nil, function()
        kit.with(function(workspace)
            local signal = sandbox.signal()
            signal:abort()
            fails("SandboxError", "aborted", workspace:exec({ "touch", "file" }, { signal = signal }))
            fails("SandboxError", "file_not_found", workspace:read_file("file"))
        end)
    end)

    proves("start", nil, function()
        kit.with(function(workspace)
            local zero = ("0"):rep(16)
            local result = run(workspace, [[
                umask
                grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\t'
                ls /proc/self/fd | tr '\n' ' '; echo
                ( : < /dev/tty ) 2>/dev/null && echo terminal || echo none
            ]])
            assert.equal(("0022\nSigBlk:%s\nSigIgn:%s\n0 1 2 3 \nnone\n"):format(zero, zero), result.stdout)
        end)
    end)

    proves("group", nil, function()
        kit.with(function(workspace)
            local results = sandbox.all({
                function()
                    return run(workspace, "read a b c d group rest < /proc/self/stat; echo $group")
                end,
                function()
                    return run(workspace, "read a b c d group rest < /proc/self/stat; echo $group; kill -KILL 0")
                end,
            })
            assert.equal("exited", results[1][1].status)
            assert.equal("signaled", results[2][1].status)
            assert.are_not.equal(results[1][1].stdout, results[2][1].stdout)
        end)
    end)

    proves("parallel", nil, function()
        kit.with(function(workspace)
            local functions = {}
            for index = 1, 8 do
                functions[index] = function()
                    -- Each waits until all have begun.
                    return run(workspace, ": > begun.$1; until [ -e begun.$2 ]; do sleep 0.05; done; echo $1",
                        tostring(index), tostring(index % 8 + 1))
                end
            end
            for index, packed in ipairs(sandbox.all(functions)) do
                assert.equal(index .. "\n", packed[1] and packed[1].stdout, tostring(packed[2]))
            end
        end)
    end)

    proves("options", nil, function()
        kit.with(function(workspace)
            for _, wrong in ipairs({ { timeout = 1 }, { signal = {} }, { on_output = 7 }, "x" }) do
                local ok, err = pcall(workspace.exec, workspace, { "true" }, wrong)
                assert.is_false(ok)
                assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), tostring(err))
            end
        end)
    end)
end
