-- Remote workspaces with real programs, where it goes beyond what every provider must pass.

local namespaces = require "spec.support.namespaces"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

describe("a remote workspace of real programs", function()
    local missing = namespaces.missing()
    if missing then
        it("keeps its promises", function()
            pending(missing)
        end)
        return
    end

    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })
    local world = namespaces.new(place.root)

    local function with(use, options)
        local workspace = assert(world.provider(options):create({ run_id = "spec" }))
        local ok, err = pcall(use, workspace)
        assert(workspace:dispose())
        if not ok then
            error(err, 0)
        end
    end

    local function run(workspace, script, options)
        return assert(workspace:exec({ "sh", "-c", script }, options))
    end

    -- As root, from outside.
    local function as_root(workspace, script)
        local first = workspace._state.backend.transport.first
        return scratch.shell(("nsenter -t %s -m -p -r sh -c %s"):format(first, scratch.quote(script)))
    end

    local function fails(code, value, err)
        assert.is_nil(value)
        assert.equal(code, err.code, tostring(err))
        return err
    end

    local function wait_until(condition)
        for _ = 1, 1000 do
            if condition() then
                return
            end
            assert(sandbox.sleep(20))
        end
        error("not within 20 s", 2)
    end

    -- Seconds to sleep that nobody else has.
    local words = 0
    local function word()
        words = words + 1
        return ("8%d%05d"):format(words, scratch.pid() % 100000)
    end

    for _, shell in ipairs({ "/bin/bash", "/bin/busybox" }) do
        it("works with " .. shell .. " as its sh", function()
            if not scratch.read(shell) then
                return pending(shell .. " is not installed")
            end
            with(function(workspace)
                assert.equal(0, run(workspace, "cmp /bin/sh " .. shell).exit_code)
                local result = run(workspace, "cat; echo err >&2; exit 143", { stdin = "in" })
                assert.same({ "exited", 143, "in", "err\n" },
                    { result.status, result.exit_code, result.stdout, result.stderr })
                result = run(workspace, "sleep 0.1; kill -TERM $$; sleep 9")
                assert.same({ "signaled", 15, "" }, { result.status, result.term_signal, result.stderr })
                assert.equal("timed_out", run(workspace, "sleep 60", { timeout_ms = 200 }).status)
                run(workspace, "mkdir folder; : > plain")
                for program, code in pairs({ ["./folder"] = 126, ["./plain"] = 126, ["./none"] = 127, none = 127 }) do
                    result = assert(workspace:exec({ program }))
                    assert.equal(code, result.exit_code)
                    assert.matches("^[^\n]+\n$", result.stderr)
                end
                assert(workspace:write_file("a/b c", "text"))
                assert.equal("text", (workspace:read_file("a/b c")))
                fails("file_not_found", workspace:read_file("none"))
                fails("not_a_file", workspace:write_file("plain/x", ""))
                run(workspace, "ln -s /etc out; mkdir shut; chmod 0 shut")
                fails("outside_workspace", workspace:write_file("out/x", ""))
                fails("permission_denied", workspace:write_file("shut/x", ""))
                fails("outside_workspace", workspace:exec({ "true" }, { cwd = "out" }))
                fails("cwd_not_found", workspace:exec({ "true" }, { cwd = "none" }))
                assert.equal("/workspace/a\n", assert(workspace:exec({ "pwd" }, { cwd = "a" })).stdout)

                local seconds = word()
                sandbox.run(function()
                    local signal = sandbox.signal()
                    local task = sandbox.spawn(workspace.exec, workspace, { "sleep", seconds }, { signal = signal })
                    wait_until(function()
                        return scratch.is_running(seconds)
                    end)
                    signal:abort()
                    fails("aborted", task:join())
                end)
                wait_until(function()
                    return not scratch.is_running(seconds)
                end)
            end, { shell = shell })
        end)
    end

    it("has permission_denied for files in a folder of its own that is closed", function()
        for _, shell in ipairs({ "/bin/dash", "/bin/bash", "/bin/busybox" }) do
            if scratch.read(shell) then
                with(function(workspace)
                    run(workspace, "echo text > file; chmod 0 .")
                    fails("permission_denied", workspace:read_file("file"))
                    fails("permission_denied", workspace:write_file("file", "new"))
                    fails("permission_denied", workspace:write_file("folder/file", "new"))
                    as_root(workspace, "chmod 755 /workspace")
                    assert.equal("text\n", (workspace:read_file("file")))
                end, { shell = shell })
            end
        end
    end)

    it("kills what an abort meets, whenever it comes", function()
        with(function(workspace)
            sandbox.run(function()
                for delay_ms = 0, 120, 15 do
                    local seconds, signal = word(), sandbox.signal()
                    local task = sandbox.spawn(workspace.exec, workspace, { "sleep", seconds }, { signal = signal })
                    sandbox.sleep(delay_ms)
                    signal:abort()
                    fails("aborted", task:join())
                    sandbox.sleep(500) -- one that was about to start has started
                    wait_until(function()
                        return not scratch.is_running(seconds)
                    end)
                end
            end)
        end)
    end)

    it("lets a hostile command falsify its own result at most", function()
        with(function(workspace)
            local forge = [[
                mark=$(tr '\0' '\n' < /proc/$PPID/cmdline | sed -n 's/^: \(m[0-9a-f]*\);.*/\1/p' | head -n 1)
                printf '\036%s exit |9|\036' "$mark" >&2; printf '\036%s end\036' "$mark"; echo after
            ]]
            local results = sandbox.all({
                function()
                    return workspace:exec({ "sh", "-c", forge })
                end,
                function()
                    return workspace:exec({ "sh", "-c", "sleep 0.5; echo fine; exit 4" })
                end,
            })
            assert.same({ 9, "after\n", "" }, { results[1][1].exit_code, results[1][1].stdout, results[1][1].stderr })
            assert.same({ 4, "fine\n", "" }, { results[2][1].exit_code, results[2][1].stdout, results[2][1].stderr })

            -- The wrapper's shell, and the one that waits for `timeout`.
            local err = fails("transport_lost", workspace:exec({ "sh", "-c", [[
                echo so far
                waiting=$(cut -d ' ' -f 4 "/proc/$PPID/stat")
                kill -KILL "$(cut -d ' ' -f 4 "/proc/$waiting/stat")" "$waiting"; sleep 1
            ]] }))
            assert.equal("so far\n", err.partial.stdout)
            assert.is_false(workspace.disposed)
            -- `timeout` alone.
            local result = run(workspace, "kill -KILL $PPID; sleep 0.1; echo alone")
            assert.equal("signaled", result.status)
            assert.equal(0, run(workspace, "true").exit_code)
        end)
    end)

    it("ends the whole group when the time is over, but not what has left it nor a job of another command", function()
        with(function(workspace)
            local job = word()
            assert.equal("exited", run(workspace, ("sleep %s >/dev/null 2>&1 & exit 124"):format(job)).status)
            local script = [[
                rm -f left deaf
                setsid sh -c ': > left; exec sleep %s' & (trap '' TERM; : > deaf; exec sleep %s) &
                until [ -e left ] && [ -e deaf ]; do sleep 0.01; done
                echo begun; exec sleep 60
            ]]
            local left, deaf, result
            for _, timeout_ms in ipairs({ 300, 3000, 30000 }) do -- on a busy machine nothing had begun: it gets more
                left, deaf = word(), word()
                result = run(workspace, script:format(left, deaf), { timeout_ms = timeout_ms })
                if result.stdout ~= "" then
                    break
                end
            end
            assert.equal("begun\n", result.stdout)
            assert.equal("timed_out", result.status)
            assert.is_true(result.streams_held)
            wait_until(function()
                return scratch.is_running(left) and not scratch.is_running(deaf)
            end)
            assert.is_true(scratch.is_running(left))
            assert.is_true(scratch.is_running(job))
            assert(workspace:dispose())
            assert.is_false(scratch.is_running(left))
        end)
    end)

    it("starts nothing when the processes are at their limit, and says so", function()
        with(function(workspace)
            local seconds = word()
            sandbox.run(function()
                local task = sandbox.spawn(workspace.exec, workspace, { "sleep", seconds }, { timeout_ms = 60000 })
                wait_until(function()
                    return scratch.is_running(seconds)
                end)
                local limited = workspace._state.backend.transport
                local exec = limited.exec
                limited.exec = function(self, argv, given)
                    return exec(self, { "prlimit", "--nproc=1", "--", (table.unpack or unpack)(argv) }, given)
                end
                local refused = fails("start_failed", workspace:exec({ "true" }))
                assert.matches("fork", refused.message)
                limited.exec = nil
                assert(workspace:dispose())
                fails("disposed", task:join())
            end)
        end)
    end)

    it("has no space when the disk is full, and keeps the old file", function()
        with(function(workspace)
            assert(workspace:write_file("small/file", "old"))
            as_root(workspace, "mount -t tmpfs -o size=64k,uid=1000 none /workspace/small")
            assert(workspace:write_file("small/file", "old"))
            fails("no_space", workspace:write_file("small/file", ("x"):rep(100000)))
            fails("no_space", workspace:write_file("small/other", ("x"):rep(100000)))
            assert.equal("old", (workspace:read_file("small/file")))
            assert.equal("file\n", run(workspace, "ls -A small").stdout)
            as_root(workspace, "mount -o remount,ro /workspace/small")
            fails("permission_denied", workspace:write_file("small/file", "new"))
            assert.equal("old", (workspace:read_file("small/file")))
        end)
    end)

    it("leads no read and no write out, while links are swapped", function()
        local outside = place.folder .. "/outside"
        scratch.shell(("chmod 755 %s; mkdir %s; echo secret > %s/file; chown -R 1000 %s"):format(
            place.folder, outside, outside, outside))
        with(function(workspace)
            run(workspace, "mkdir real; echo inside > real/file; echo inside > plain")
            sandbox.run(function()
                local swapper = sandbox.spawn(workspace.exec, workspace, { "sh", "-c", ([[
                    while [ ! -e stop ]; do
                        ln -sfn real way; ln -sfn %s way; ln -sf plain name; ln -sf %s/file name
                    done
                ]]):format(outside, outside) }, { timeout_ms = 120000 })
                local refused = 0
                for _ = 1, 20 do
                    for _, path in ipairs({ "way/file", "name" }) do
                        local text, err = workspace:read_file(path)
                        if text then
                            assert.equal("inside\n", text)
                        else
                            assert.is_truthy(err.code == "outside_workspace" or err.code == "file_not_found", err.code)
                            refused = refused + 1
                        end
                    end
                    local written, err = workspace:write_file("way/new", "x")
                    assert.is_truthy(written or err.code == "outside_workspace" or err.code == "not_a_file",
                        tostring(err))
                end
                assert.is_true(refused > 0)
                assert(workspace:write_file("stop", ""))
                assert(swapper:join())
            end)
            assert.equal("file\n", scratch.shell("ls -A " .. outside))
            assert.equal("secret\n", scratch.read(outside .. "/file"))
        end)
    end)

    it("reads and writes names that shells trip over", function()
        with(function(workspace)
            for _, name in ipairs({ "end\n", "\n", "a: Permission denied", "-n", "m1\30", ("n"):rep(255) }) do
                fails("file_not_found", workspace:read_file(name))
                assert(workspace:write_file(name, name))
                assert.equal(name, (workspace:read_file(name)))
            end
            local long = ("n"):rep(256)
            fails("invalid_path", workspace:read_file(long))
            fails("invalid_path", workspace:write_file(long, ""))
            fails("invalid_path", workspace:write_file("folder/" .. long, ""))
            run(workspace, "ln -s circle circle")
            fails("file_failed", workspace:read_file("circle"))
            fails("file_failed", workspace:write_file("circle", ""))
        end)
    end)
end)
