-- What holds a workspace in, as the engine tells it and as commands find it.

local docker_target = require "spec.support.docker_target"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local busted = { describe = describe, it = it, after_each = after_each, teardown = teardown, pending = pending }

-- What the two engines say in different words.
local WORDS = {
    docker = { no_new_privileges = "no-new-privileges:true", ipc = "private", dropped = { "ALL" } },
    podman = {
        no_new_privileges = "no-new-privileges",
        ipc = "shareable", -- is what it calls its own
        -- Podman names those that it would give otherwise.
        dropped = { "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
            "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT" },
    },
}

docker_target.each(busted, { "docker", "podman" }, "containers", function(target)
    local engine, words = target.engine, WORDS[target.name]

    local function run(workspace, script)
        local result = assert(workspace:exec({ "sh", "-c", script }))
        assert.equal(0, result.exit_code, result.stderr)
        return result.stdout
    end

    it("are locked in by what the engine was told", function()
        local request = { run_id = "a run", limits = { cpu = "500m", memory = "256Mi", pids = 77 } }
        target.with(function(workspace)
            local inspected = engine:inspect(target.container(workspace))
            local config, host = inspected.Config, inspected.HostConfig

            assert.equal("1000:1000", config.User)
            assert.is_true(host.ReadonlyRootfs)
            assert.same(words.dropped, host.CapDrop)
            assert.is_true(type(host.CapAdd) ~= "table" or #host.CapAdd == 0)
            assert.same({ words.no_new_privileges }, host.SecurityOpt)
            assert.is_false(host.Privileged)
            assert.is_true(host.Init)
            assert.equal(256 * 1024 * 1024, host.Memory)
            assert.equal(256 * 1024 * 1024, host.MemorySwap) -- both together
            assert.equal(500000000, host.NanoCpus)
            assert.equal(77, host.PidsLimit)
            assert.equal("bridge", host.NetworkMode)
            assert.equal(words.ipc, host.IpcMode)
            assert.is_true(host.PidMode == "" or host.PidMode == "private")
            assert.is_true(host.UTSMode == "" or host.UTSMode == "private")
            assert.is_true(host.AutoRemove)
            assert.equal("none", host.LogConfig.Type)
            assert.is_true(type(host.Devices) ~= "table" or #host.Devices == 0)
            assert.equal(0, #(type(host.PortBindings) == "table" and host.PortBindings or {}))
            assert.matches("^rw,exec,nosuid,nodev,mode=1777,size=536870912", host.Tmpfs["/tmp"])

            if target.name == "docker" then -- Podman does not tell
                assert.same({ "NONE" }, config.Healthcheck.Test)
                assert.is_true(#host.MaskedPaths > 0 and #host.ReadonlyPaths > 0)
            end

            assert.equal(1, #inspected.Mounts)
            local mount = inspected.Mounts[1]
            assert.same({ "volume", "/workspace", true }, { mount.Type, mount.Destination, mount.RW })

            local labels = config.Labels
            assert.equal("a run", labels[sandbox.RUN_LABEL])
            assert.equal(workspace.id, labels[sandbox.WORKSPACE_LABEL])
            assert.equal(("%.0f"):format(workspace.info.expires_at), labels[sandbox.EXPIRES_AT_KEY])
            for name, value in pairs(sandbox.SANDBOX_LABELS) do
                assert.equal(value, labels[name])
            end
            local env = {}
            for _, entry in ipairs(config.Env) do
                local name, value = entry:match("^(.-)=(.*)$")
                env[name] = value
            end
            for name, value in pairs(sandbox.SANDBOX_ENV) do
                assert.equal(value, env[name])
            end
        end, request)
    end)

    it("let their commands do little", function()
        target.with(function(workspace)
            assert.equal("1000 1000\n", run(workspace, "echo $(id -u) $(id -G)"))
            local status = run(workspace, "cat /proc/self/status")
            for _, set in ipairs({ "Inh", "Prm", "Eff", "Bnd", "Amb" }) do
                assert.matches("Cap" .. set .. ":\t0000000000000000\n", status)
            end
            assert.matches("NoNewPrivs:\t1\n", status)
            assert.matches("Seccomp:\t2\n", status)

            -- The root is read-only, also for its owner; two folders are not.
            for _, folder in ipairs({ "/", "/etc", "/usr/bin", "/home/sandbox", "/srv/repository" }) do
                local result = assert(workspace:exec({ "touch", folder .. "/x" }))
                assert.matches("Read%-only file system", result.stderr, folder)
            end
            run(workspace, [[
                set -e
                for folder in /workspace /tmp; do
                    cd $folder
                    echo '#!/bin/sh' > program; chmod +x program; ./program
                    ln program other; rm program other
                done
            ]])
            assert.equal("536870912\n", run(workspace, "echo $(($(stat -f -c '%b * %S' /tmp)))"))

            -- Neither mounts nor other people's processes or devices.
            assert.are_not.equal(0, assert(workspace:exec({ "mount", "-t", "tmpfs", "x", "/tmp" })).exit_code)
            assert.are_not.equal(0, assert(workspace:exec({ "chown", "0", "/workspace/.git" })).exit_code)
            assert.are_not.equal(0, assert(workspace:exec({ "mknod", "/workspace/x", "b", "8", "0" })).exit_code)
            assert.equal("", run(workspace, "find /dev -type b"))
            assert.matches("init\n$", run(workspace, "tr -d '\\0' </proc/1/comm"))
            assert.are_not.equal(0, assert(workspace:exec({ "kill", "-KILL", "1" })).exit_code
                + (engine:state(target.container(workspace)) == "running" and 1 or 0))
        end)
    end)

    it("have an init that reaps what commands leave behind", function()
        target.with(function(workspace)
            run(workspace, "for i in 1 2 3; do ( sh -c 'sleep 0.1' >/dev/null 2>&1 & ) done; sleep 1")
            docker_target.wait_until("no zombie is left", function()
                return run(workspace, "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l") == "0\n"
            end)
        end)
    end)

    it("on the network none reach nothing, and take no repositories", function()
        local options = { network = "none" }
        target.with(function(workspace)
            assert.equal("none", engine:inspect(target.container(workspace)).HostConfig.NetworkMode)
            assert.equal("lo\n", run(workspace, "ls /sys/class/net"))
        end, nil, options)
        local workspace, err = target.provider(options):create({ run_id = "spec", repo = target.repository.url })
        assert.is_nil(workspace)
        assert.equal("network_none", err.code)
    end)

    it("on a network of one's own are there", function()
        local name = "chamvi-spec-" .. scratch.pid()
        engine:call("network", "create", name)
        local ok, err = pcall(target.with, function(workspace)
            local networks = engine:inspect(target.container(workspace)).NetworkSettings.Networks
            assert.is_truthy(networks[name])
        end, nil, { network = name })
        engine:call("network", "rm", name)
        assert.is_true(ok, err)
    end)

    it("contain a fork bomb", function()
        target.with(function(victim)
            target.with(function(bomber)
                sandbox.run(function()
                    local signal = sandbox.signal()
                    local bomb = sandbox.spawn(bomber.exec, bomber, {
                        "perl", "-e", "fork while 1",
                    }, { timeout_ms = 120000, signal = signal })
                    local most, rounds = 0, 0
                    repeat -- how soon they are many is the machine's
                        sandbox.sleep(300)
                        rounds = rounds + 1
                        most = math.max(most, #engine:processes(target.container(bomber)))
                        assert.equal("fine\n", run(victim, "for i in 1 2 3 4 5; do sh -c :; done; echo fine"))
                    until rounds >= 5 and most > 10 or rounds == 100
                    assert.is_true(most <= 60, most)
                    assert.is_true(most > 10, most)
                    signal:abort()
                    bomb:join() -- however that ends
                end)
            end, { limits = { pids = 60 } })
        end)
    end)

    it("keep to their memory; a command that wants more is oom_killed and harms nobody", function()
        target.with(function(victim)
            target.with(function(glutton)
                local result = assert(glutton:exec({ "tail", "/dev/zero" }))
                assert.same({ "oom_killed", 137, 9, false },
                    { result.status, result.exit_code, result.term_signal, result.timed_out })
                -- A shell that has waited for it reports it.
                result = assert(glutton:exec({ "sh", "-c", "tail /dev/zero; code=$?; echo after; exit $code" }))
                assert.same({ "oom_killed", 137, nil, "after\n" },
                    { result.status, result.exit_code, result.term_signal, result.stdout })
                assert.equal("ended\n", run(glutton, "tail /dev/zero; echo ended")) -- its own end was another one
                assert.equal("fine\n", run(glutton, "echo fine"))
                assert.equal("fine\n", run(victim, "echo fine"))
                -- What a command does to itself is no such thing.
                assert.equal("signaled", assert(glutton:exec({ "sh", "-c", "kill -KILL $$" })).status)
                assert.equal("exited", assert(glutton:exec({ "sh", "-c", "exit 137" })).status)
            end, { limits = { memory = "64Mi" } })
        end)
    end)
end)
