local memory = require "spec.support.memory"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"
local timed_out = require "spec.support.timed_out"

local function sh(script, ...)
    return { "sh", "-c", script, "sh", ... }
end

describe("exec in a local workspace", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    local function results(result)
        assert.equal("number", type(result.duration_ms))
        assert.equal(0, result.duration_ms % 1)
        result.duration_ms = nil
        return result
    end

    describe("gives the outcome:", function()
        it("the exit code and the output of both streams", function()
            place.with(function(workspace)
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
                }, results(assert(workspace:exec(sh("echo out; echo err >&2; exit 3")))))
            end)
        end)

        it("a signal, as a shell reports it", function()
            place.with(function(workspace)
                local result = assert(workspace:exec(sh("echo before; kill -9 $$")))
                assert.equal("signaled", result.status)
                assert.equal(137, result.exit_code)
                assert.equal(9, result.term_signal)
                assert.equal("before\n", result.stdout)
            end)
        end)

        it("124 and 137 of the command's own are no timeout and no signal", function()
            place.with(function(workspace)
                for _, code in ipairs({ 124, 137 }) do
                    local result = assert(workspace:exec(sh("exit " .. code)))
                    assert.equal("exited", result.status)
                    assert.equal(code, result.exit_code)
                    assert.is_false(result.timed_out)
                    assert.is_nil(result.term_signal)
                end
            end)
        end)

        it("127 for a program that is not there, 126 for one that can't be executed", function()
            place.with(function(workspace)
                scratch.write(place.path(workspace) .. "/plain", "text\n")
                scratch.write(place.path(workspace) .. "/lost", "#!/no/such/interpreter\n")
                scratch.write(place.path(workspace) .. "/bare", "echo \"$1\"\n")
                scratch.shell(("cd %s && mkdir folder && chmod +x lost bare"):format(place.path(workspace)))
                for code, programs in pairs({ [127] = { "no-such-program", "./none", "./lost" },
                    [126] = { "./plain", "./folder", "./plain/below" } }) do
                    for _, program in ipairs(programs) do
                        local result = assert(workspace:exec({ program }))
                        assert.equal("exited", result.status)
                        assert.equal(code, result.exit_code, program)
                        assert.equal("", result.stdout)
                        assert.matches("^[^\n]+\n$", result.stderr)
                    end
                end
                -- As a shell does with a script that names no interpreter.
                assert.equal("word\n", assert(workspace:exec({ "./bare", "word" })).stdout)
            end)
        end)

        it("an argument of the greatest length arrives whole", function()
            place.with(function(workspace)
                local result = assert(workspace:exec(sh("printf %s \"$1\" | wc -c", ("a"):rep(131071))))
                assert.equal("131071", result.stdout:match("%d+"))
            end)
        end)
    end)

    describe("starts every command the same way:", function()
        it("its environment is the documented one, and nothing of the host's", function()
            place.with(function(workspace)
                local path = place.path(workspace)
                local result = assert(workspace:exec({ "env" }))
                local lines = {}
                for line in result.stdout:gmatch("[^\n]+") do
                    table.insert(lines, line)
                end
                table.sort(lines)
                assert.same({
                    "CI=true",
                    "GIT_CONFIG_COUNT=1",
                    "GIT_CONFIG_KEY_0=safe.directory",
                    "GIT_CONFIG_NOSYSTEM=1",
                    "GIT_CONFIG_VALUE_0=" .. path,
                    "GIT_TERMINAL_PROMPT=0",
                    "HOME=" .. path .. ".home",
                    "LANG=C.UTF-8",
                    "NPM_CONFIG_UPDATE_NOTIFIER=false",
                    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "TMPDIR=" .. path .. ".tmp",
                }, lines)
                assert.equal(0, assert(workspace:exec(sh("test -w \"$HOME\" && test -w \"$TMPDIR\""))).exit_code)
            end)
        end)

        it("configured variables win, a create's over the provider's", function()
            local provider = place.provider({ env = { A = "provider", B = "provider", LANG = "C" } })
            local workspace = assert(provider:create({ run_id = "spec", env = { B = "create", EMPTY = "" } }))
            local result = assert(workspace:exec(sh("echo \"$A $B $LANG <${EMPTY-unset}>\"")))
            assert(workspace:dispose())
            assert.equal("provider create C <>\n", result.stdout)
        end)

        it("default signals, umask 022, no descriptors but three, a group of its own, no terminal", function()
            place.with(function(workspace)
                local status = assert(workspace:exec({ "cat", "/proc/self/status" })).stdout
                assert.equal(("0"):rep(16), status:match("SigBlk:%s*(%x+)"))
                assert.equal(("0"):rep(16), status:match("SigIgn:%s*(%x+)"))
                assert.equal("0022\n", assert(workspace:exec(sh("umask"))).stdout)
                -- The fourth is the folder that ls reads.
                assert.equal("0\n1\n2\n3\n", assert(workspace:exec({ "ls", "/proc/self/fd" })).stdout)
                local stat = assert(workspace:exec({ "cat", "/proc/self/stat" })).stdout
                local pid, group, terminal = stat:match("^(%d+) %b() %a %d+ (%d+) %d+ (%d+)")
                assert.equal(pid, group)
                assert.equal("0", terminal)
            end)
        end)

        it("in the root, or the folder that cwd names", function()
            place.with(function(workspace)
                local root = place.path(workspace)
                scratch.shell(("mkdir -p %s/sub/deep && ln -s sub/deep %s/inside && ln -s /etc %s/outside"):format(
                    root, root, root))
                for cwd, expected in pairs({
                    ["."] = root,
                    ["/workspace"] = root,
                    ["/workspace/"] = root,
                    ["sub"] = root .. "/sub",
                    ["/workspace/sub//./deep/"] = root .. "/sub/deep",
                    ["sub/../sub/deep/.."] = root .. "/sub",
                    ["../workspace/sub"] = root .. "/sub",
                    ["inside"] = root .. "/sub/deep",
                }) do
                    assert.equal(expected .. "\n", assert(workspace:exec({ "/bin/pwd" }, { cwd = cwd })).stdout)
                end
                scratch.write(root .. "/name", "")
                local codes = { none = "cwd_not_found", name = "cwd_not_found", outside = "outside_workspace" }
                for cwd, code in pairs(codes) do
                    local result, err = workspace:exec({ "pwd" }, { cwd = cwd })
                    assert.is_nil(result)
                    assert.equal(code, err.code)
                end
            end)
        end)
    end)

    describe("bounds the time:", function()
        it("a timeout ends the command and keeps its output", function()
            place.with(function(workspace)
                local result = timed_out(workspace, "echo before; exec sleep 1000", 200)
                assert.equal("timed_out", result.status)
                assert.equal(124, result.exit_code)
                assert.equal(15, result.term_signal)
                assert.is_true(result.timed_out)
                assert.equal("before\n", result.stdout)
                assert.is_true(result.duration_ms >= 200)
            end)
        end)

        it("one that ignores SIGTERM is killed 5 s later", function()
            place.with(function(workspace)
                local result = timed_out(workspace, "trap '' TERM; echo before; while :; do sleep 1; done", 100)
                assert.equal("timed_out", result.status)
                assert.equal(124, result.exit_code)
                assert.equal(9, result.term_signal)
                assert.equal("before\n", result.stdout)
                assert.is_true(result.duration_ms >= 5000)
            end)
        end)

        it("a background job that holds the output delays the answer by about 2 s, and lives on", function()
            place.with(function(workspace)
                local result = assert(workspace:exec(sh("sleep 1000 & echo $!")))
                assert.is_true(result.streams_held)
                assert.equal(0, result.exit_code)
                assert.is_true(result.duration_ms < 60000)
                assert.is_true(scratch.is_alive(tonumber(result.stdout)))
            end)
        end)
    end)

    describe("carries the output:", function()
        it("300 MB are counted, and what is over the cap is not kept", function()
            place.with(function(workspace)
                assert(workspace:exec({ "true" }))
                local before = memory.resident()
                local result = assert(workspace:exec(sh("yes | head -c 300000000; echo end >&2")))
                assert.equal(300000000, result.stdout_bytes)
                assert.equal(("y\n"):rep(32768), result.stdout)
                assert.is_true(result.stdout_truncated)
                assert.equal("end\n", result.stderr)
                assert.is_false(result.stderr_truncated)
                assert.is_true(memory.resident() - before < 128 * 1024 * 1024)
            end)
        end)

        it("on_output gets every byte as it was, in order, beyond the cap too", function()
            place.with(function(workspace)
                local chunks = { stdout = {}, stderr = {} }
                local result = assert(workspace:exec(sh("head -c 2000000 /dev/urandom | tee raw; printf '\\377' >&2"), {
                    on_output = function(stream, chunk)
                        table.insert(chunks[stream], chunk)
                    end,
                }))
                assert.equal(2000000, result.stdout_bytes)
                assert.is_true(scratch.read(place.path(workspace) .. "/raw") == table.concat(chunks.stdout))
                assert.equal("\255", table.concat(chunks.stderr))
                assert.is_true(#result.stdout <= sandbox.OUTPUT_MAX_BYTES)
            end)
        end)

        it("invalid UTF-8 becomes replacement characters, a cut character none", function()
            place.with(function(workspace)
                local result = assert(workspace:exec(sh("printf 'a\\377b\\303\\244\\303'")))
                assert.equal("a\239\191\189b\195\164\239\191\189", result.stdout)
                local script = "head -c 65535 /dev/zero | tr '\\0' a; printf '\\303\\244'"
                result = assert(workspace:exec(sh(script)))
                assert.equal(65535, #result.stdout)
                assert.is_true(result.stdout_truncated)
                assert.equal(65537, result.stdout_bytes)
            end)
        end)

        -- A sanitizer keeps freed memory for a while.
        it("a slow reader slows the command, not the memory #unsanitized", function()
            place.with(function(workspace)
                local seen, chunks, most = 0, 0, 0
                collectgarbage()
                local before = memory.resident()
                local result = assert(workspace:exec(sh("yes | head -c 100000000"), {
                    on_output = function(_, chunk)
                        seen, chunks = seen + #chunk, chunks + 1
                        local started = os.clock()
                        repeat until os.clock() - started > 0.001
                        if chunks % 200 == 0 then
                            collectgarbage()
                            most = math.max(most, memory.resident() - before)
                        end
                    end,
                }))
                assert.equal(100000000, seen)
                assert.equal(100000000, result.stdout_bytes)
                assert.is_true(result.duration_ms > chunks / 2)
                assert.is_true(most < 48 * 1024 * 1024, most)
            end)
        end)

        it("of commands that print and exit at once, not a byte is lost", function()
            place.with(function(workspace)
                sandbox.run(function()
                    for _ = 1, 6 do
                        sandbox.spawn(function()
                            for _ = 1, 50 do
                                local result = assert(workspace:exec({ "head", "-c", "61000", "/dev/zero" }))
                                assert.equal(61000, result.stdout_bytes)
                                assert.equal(61000, #result.stdout)
                            end
                        end)
                    end
                end)
            end)
        end)
    end)

    describe("feeds stdin:", function()
        local three_mb = ("0123456789abcde\n"):rep(187500)

        it("end of file at once when none is given", function()
            place.with(function(workspace)
                assert.equal("", assert(workspace:exec({ "cat" })).stdout)
                assert.equal("", assert(workspace:exec({ "cat" }, { stdin = "" })).stdout)
            end)
        end)

        it("all bytes, whatever they are", function()
            place.with(function(workspace)
                local counted = assert(workspace:exec({ "wc", "-c" }, { stdin = three_mb })).stdout
                assert.equal("3000000", counted:match("%d+"))
                assert.equal("a\0b", assert(workspace:exec({ "cat" }, { stdin = "a\0b" })).stdout)
            end)
        end)

        it("one that stops reading loses nothing but the rest of its stdin", function()
            place.with(function(workspace)
                local result = assert(workspace:exec({ "head", "-c", "10" }, { stdin = three_mb }))
                assert.equal(0, result.exit_code)
                assert.equal("0123456789", result.stdout)
            end)
        end)

        it("one that does not read does not hold up the exec beside it", function()
            place.with(function(workspace)
                sandbox.run(function()
                    local deaf = sandbox.spawn(function()
                        return workspace:exec(sh("until [ -e go ]; do sleep 0.02; done"), { stdin = three_mb })
                    end)
                    coroutine.yield()
                    for _ = 1, 10 do
                        assert.equal("x", assert(workspace:exec({ "cat" }, { stdin = "x" })).stdout)
                        assert.is_false(deaf.done)
                    end
                    assert(workspace:write_file("go", ""))
                    assert.equal(0, assert(deaf:join()).exit_code)
                end)
            end)
        end)
    end)
end)
