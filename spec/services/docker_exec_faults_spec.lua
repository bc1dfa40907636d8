-- Commands whose container, engine or connection is disturbed while they run: each ends, in time and by the right name.

local docker_target = require "spec.support.docker_target"
local engine_proxy = require "spec.support.engine_proxy"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local busted = { describe = describe, it = it, after_each = after_each, teardown = teardown, pending = pending }

-- Asserts that a call has returned nil and a SandboxError of one of the codes.
local function fails(codes, value, err)
    assert.is_nil(value)
    assert.is_true(sandbox.is_error(err, "SandboxError"), tostring(err))
    assert.is_truthy((" " .. codes .. " "):find(" " .. err.code .. " ", 1, true), err.code .. ": " .. err.message)
    assert.is_nil(err.message:find("[\r\n]"))
    return err
end

-- Runs a command, calls `disturb()` once it has begun, and returns what became of it.
local function disturbed(workspace, disturb, given)
    return sandbox.run(function()
        local begun = false
        given = given or {}
        given.on_output = function()
            begun = true
        end
        local task = sandbox.spawn(workspace.exec, workspace, { "sh", "-c", "echo begun; sleep 600" }, given)
        docker_target.wait_until("the command runs", function()
            return begun
        end)
        disturb()
        return task:join()
    end)
end

docker_target.each(busted, { "docker", "podman" }, "commands", function(target)
    local engine = target.engine

    local function is_gone(workspace)
        fails("gone", workspace:exec({ "true" }))
        fails("gone", workspace:read_file("x"))
        assert.is_true(workspace.disposed)
    end

    local disturbances = { removed = engine.remove, killed = engine.kill, stopped = engine.stop }
    if target.name == "docker" then -- Podman removes such a container, or fails to start it
        disturbances.restarted = function(_, name)
            engine:call("restart", "--time", "0", name)
        end
    end
    for what, disturb in pairs(disturbances) do
        it("are lost when the container is " .. what .. ", which is gone then", function()
            target.with(function(workspace)
                local name = target.container(workspace)
                local err = fails("transport_lost", disturbed(workspace, function()
                    disturb(engine, name)
                end))
                assert.equal("begun\n", err.partial.stdout)
                is_gone(workspace)
            end)
        end)
    end

    if disturbances.restarted then
        it("that come after a restart do not run", function()
            target.with(function(workspace)
                disturbances.restarted(engine, target.container(workspace))
                fails("gone", workspace:exec({ "touch", "file" }))
                is_gone(workspace)
            end)
        end)
    end

    it("wait for a paused container until their guard ends them, and do not run in one", function()
        target.with(function(workspace)
            local name = target.container(workspace)
            local began = os.time()
            fails("transport_lost", disturbed(workspace, function()
                engine:pause(name)
                fails("not_ready", workspace:exec({ "touch", "file" }))
            end, { timeout_ms = 5000 }))
            assert.is_true(os.time() - began < 200) -- the command would take 600 s
            engine:unpause(name)
            fails("file_not_found", workspace:read_file("file"))
            -- Disposed while it is paused.
            engine:pause(name)
        end)
    end)

    it("that are aborted or disposed while the container is paused end at once", function()
        target.with(function(workspace)
            local signal = sandbox.signal()
            fails("aborted", disturbed(workspace, function()
                engine:pause(target.container(workspace))
                signal:abort()
            end, { signal = signal }))
        end)
        target.with(function(workspace)
            fails("disposed", disturbed(workspace, function()
                engine:pause(target.container(workspace))
                assert(workspace:dispose())
            end))
        end)
    end)

    describe("through a bad connection", function()
        local proxy, workspace

        local function new()
            return assert(target.provider({ docker = { host = proxy.host } }):create({ run_id = "spec" }))
        end

        before_each(function()
            proxy = engine_proxy.start(engine)
            workspace = new()
            proxy:set({})
        end)

        after_each(function()
            proxy:set({})
            assert(workspace:dispose())
            proxy:stop()
        end)

        it("need four requests", function()
            assert(workspace:exec({ "true" }))
            local requests = proxy:requests()
            assert.equal(4, #requests, table.concat(requests, "\n"))
        end)

        local stages = {
            { "^GET /containers/[^/]+/json", "nothing ran" },
            { "^POST /containers/[^/]+/exec", "nothing ran" },
            { "^POST /exec/[^/]+/start" },
            { "^GET /exec/[^/]+/json", "ended" },
        }
        for _, stage in ipairs(stages) do
            for _, act in ipairs({ "drop", "lose" }) do
                it(("are lost when it is cut: %s at %s"):format(act, stage[1]), function()
                    proxy:set({ { match = stage[1], act = act } })
                    local result, err = workspace:exec({ "sh", "-c", "echo out; echo ran > file" })
                    proxy:set({})
                    if stage[2] == "ended" then
                        -- The command has reported how it ended; the engine's word is not needed.
                        assert.equal("out\n", assert(result, err).stdout)
                        return
                    end
                    fails("transport_lost engine_unreachable", result, err)
                    assert.is_false(workspace.disposed)
                    if stage[2] == "nothing ran" then
                        fails("file_not_found", workspace:read_file("file"))
                    end
                    assert.equal("again\n", assert(workspace:exec({ "echo", "again" })).stdout)
                end)
            end
        end

        it("are lost when the output is cut anywhere, with what has come", function()
            for _, bytes in ipairs({ 0, 1, 7, 8, 9, 60, 200, 5000 }) do
                proxy:set({ { match = "^POST /exec/[^/]+/start", act = "cut", bytes = bytes, times = 1 } })
                local err = fails("transport_lost", workspace:exec({ "sh", "-c", "seq 10000" }))
                local sequence = {}
                for number = 1, 10000 do
                    sequence[number] = number
                end
                assert.equal(table.concat(sequence, "\n"):sub(1, #err.partial.stdout), err.partial.stdout)
                assert.is_true(#err.partial.stdout <= bytes)
            end
            assert.equal(0, assert(workspace:exec({ "true" })).exit_code)
        end)

        it("end at once by an abort when the engine does not answer", function()
            for _, stage in ipairs(stages) do
                for _, act in ipairs({ "hang", "mute" }) do
                    proxy:set({ { match = stage[1], act = act, times = 1 } })
                    local signal = sandbox.signal()
                    sandbox.run(function()
                        local task = sandbox.spawn(workspace.exec, workspace, { "true" }, { signal = signal })
                        sandbox.sleep(300)
                        signal:abort("enough")
                        local result, err = task:join()
                        assert.is_true(result ~= nil or err.code == "aborted", tostring(err))
                    end)
                end
            end
        end)

        it("end by an answer that is an error", function()
            for _, stage in ipairs(stages) do
                for _, status in ipairs({ 400, 403, 404, 409, 500 }) do
                    proxy:set({ { match = stage[1], act = "answer", status = status, times = 1,
                        body = '{"message":"on purpose"}' } })
                    local result, err = workspace:exec({ "true" })
                    if stage[2] ~= "ended" and not (status == 404 and stage[1]:find("^.GET")) then
                        fails("transport_lost forbidden", result, err)
                        assert.matches("on purpose", err.message)
                        assert.is_false(workspace.disposed)
                    end
                    if workspace.disposed then -- a 404 for the container means that it is gone
                        assert.equal(404, status)
                        proxy:set({})
                        assert(workspace:dispose())
                        workspace = new()
                    end
                end
            end
        end)
    end)

    it("are lost when the engine is restarted", function()
        if engine:untouchable() then
            pending(engine:untouchable())
            return
        end
        local workspace = assert(target.provider():create({ run_id = "spec" }))
        local err = fails("transport_lost", disturbed(workspace, function()
            engine:kill_daemon()
        end))
        assert.equal("begun\n", err.partial.stdout)
        fails("engine_unreachable", workspace:exec({ "true" }))
        fails("engine_unreachable", workspace:dispose())
        engine:start_daemon()
        assert.is_true(workspace:dispose())
    end)

    it("that flood both streams keep the cap of each", function()
        target.with(function(workspace)
            local flood = { "sh", "-c", "yes out & yes err >&2 & sleep 600" }
            local result
            for _, timeout_ms in ipairs({ 3000, 30000 }) do -- on a busy machine it had not come far, and gets more
                result = assert(workspace:exec(flood, { timeout_ms = timeout_ms }))
                assert.equal("timed_out", result.status)
                if result.stdout_truncated and result.stderr_truncated then
                    break
                end
            end
            for _, name in ipairs({ "stdout", "stderr" }) do
                assert.equal(sandbox.OUTPUT_MAX_BYTES, #result[name])
                assert.is_true(result[name .. "_truncated"])
                assert.is_true(result[name .. "_bytes"] > sandbox.OUTPUT_MAX_BYTES)
            end
        end)
    end)

    it("need not read 10 MB of stdin", function()
        target.with(function(workspace)
            local stdin = ("0123456789"):rep(1000000)
            local result = assert(workspace:exec({ "echo", "deaf" }, { stdin = stdin }))
            assert.equal("deaf\n", result.stdout)
            result = assert(workspace:exec({ "sh", "-c", "sleep 1; echo slow" }, { stdin = stdin }))
            assert.equal("slow\n", result.stdout)
            result = assert(workspace:exec({ "sleep", "600" }, { stdin = stdin, timeout_ms = 500 }))
            assert.equal("timed_out", result.status)
        end)
    end)

    -- Podman starts a few at a time, and takes some seconds for each dozen.
    local at_once = target.name == "podman" and 50 or 200

    it(("run by %d at once"):format(at_once), function()
        target.with(function(workspace)
            local functions = {}
            for index = 1, at_once do
                functions[index] = function()
                    return workspace:exec({ "sh", "-c", "cat; echo $1", "sh", tostring(index) }, { stdin = "in " })
                end
            end
            for index, packed in ipairs(sandbox.all(functions)) do
                assert.equal(("in %d\n"):format(index), packed[1] and packed[1].stdout, tostring(packed[2]))
            end
        end, { limits = { pids = 4096 } })
    end)

    it("do not start with arguments that are too long together, whoever refuses them", function()
        target.with(function(workspace)
            local function exec(count, byte)
                local argv = { "echo" }
                for index = 1, count do
                    argv[index + 1] = byte:rep(131071)
                end
                return workspace:exec(argv)
            end
            assert.equal(131071 * 8 + 8, assert(exec(8, "b")).stdout_bytes)
            -- By the kernel; on Docker also by containerd, for what JSON makes of them.
            for _, case in ipairs({ "16 b", "40 b", "16 <", "16 \255", "47 \1", "49 b" }) do
                local count, byte = case:match("^(%d+) (.)$")
                fails("start_failed", exec(tonumber(count), byte))
            end
            assert.equal(0, assert(workspace:exec({ "true" })).exit_code)
        end)
    end)

    it("do not start where no process is left", function()
        target.with(function(workspace)
            assert(workspace:exec({ "perl", "-e", [[
                fork and exit;
                close STDOUT; close STDERR; setpgrp;
                while (1) {
                    my $child = fork;
                    exec "sleep", 600 if defined $child && !$child;
                    select undef, undef, undef, 0.01;
                }
            ]] }))
            -- Where the first shell still gets a process, nobody knows; and Podman has one code for all failures.
            local known = target.name == "docker" and "start_failed" or "start_failed transport_lost"
            docker_target.wait_until("nothing starts", function()
                local _, err = workspace:exec({ "true" })
                return err and known:find(err.code, 1, true)
            end)
            fails("start_failed transport_lost", workspace:read_file("x"))
        end, {}, { limits = { pids = 20 } })
    end)

    it("see a full disk as it is", function()
        target.with(function(workspace)
            -- A small file system in the volume's place, as the container sees it.
            local pid = engine:inspect(target.container(workspace)).State.Pid
            scratch.shell(("nsenter -t %d -m mount -t tmpfs -o size=1m,uid=1000 tmpfs /workspace"):format(pid))
            local result = assert(workspace:exec({ "sh", "-c", "head -c 4m /dev/zero > big" }))
            assert.equal(1, result.exit_code)
            assert.matches("No space left on device", result.stderr)
            fails("no_space", workspace:write_file("file", ("x"):rep(100000)))
            fails("file_not_found", workspace:read_file("file"))
            assert(workspace:exec({ "rm", "big" }))
            assert(workspace:write_file("file", "fits"))
        end)
    end)
end)
