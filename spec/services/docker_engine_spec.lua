-- The engines of scripts/services and what specs look at them with.

local docker_engine = require "spec.support.docker_engine"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local LABEL = "dev.chamvi.spec"

for _, service in ipairs({ "docker", "docker-tls", "podman" }) do
    describe("the engine of scripts/services " .. service, function()
        local engine, reason, watch, id

        -- A container with a command of its own, an anonymous volume, and the label.
        local function run(command)
            id = engine:call("run", "--detach", "--init", "--label", LABEL .. "=" .. service, "--volume", "/workspace",
                engine.image, "sh", "-c", command)
        end

        before_each(function()
            engine, reason = docker_engine.find(service)
            watch = engine and engine:watch()
        end)

        after_each(function()
            if engine then
                if id and engine:inspect(id) then
                    engine:remove(id)
                end
                id = nil
                assert.same({}, watch.left())
            end
        end)

        -- What the engine starts or ends may take its time after the client has returned.
        local function expect(expected, look)
            local got
            pcall(support.wait_until, function()
                got = look()
                return got == expected
            end, "what is expected")
            assert.equal(expected, got)
        end

        local function expect_state(expected)
            expect(expected, function()
                return engine:state(id)
            end)
        end

        local function expect_execs(expected)
            expect(expected, function()
                return engine:exec_count(id)
            end)
        end

        -- Beside its init.
        local function expect_processes(...)
            expect(table.concat({ ... }, ", "), function()
                return table.concat(engine:processes(id), ", ", 2)
            end)
        end

        -- A spec, or a pending one where there is no engine.
        local function with_engine(name, prove)
            it(name, function()
                if not engine then
                    pending(reason)
                    return
                end
                prove()
            end)
        end

        with_engine("answers, with an image that has git, the coreutils and a user 1000", function()
            assert.equal("linux", engine:get("/version").Os)
            local output = engine:call("run", "--rm", "--user", "1000:1000", engine.image,
                "sh", "-c", "id -un; git --version; ls -d /workspace 2>&1; timeout --version | head -n 1")
            assert.matches("^sandbox\ngit version %d+.*cannot access '/workspace'.*timeout %(GNU coreutils%)", output)
        end)

        with_engine("lists containers and volumes by label and by what is new", function()
            run("exec sleep 600")
            local name = engine:call("volume", "create", "--label", LABEL .. "=" .. service)
            assert.same({ id }, engine:containers({ [LABEL] = service }))
            assert.same({}, engine:containers({ [LABEL] = "another" }))
            assert.same({ name }, engine:volumes({ [LABEL] = service }))

            local left = watch.left()
            assert.equal(3, #left) -- the anonymous volume too
            assert.equal(("container %s (running)"):format(id), left[1])
            engine:remove(id)
            assert.same({ "volume " .. name }, watch.left())
            engine:call("volume", "rm", name)
        end)

        with_engine("tells a container's state, its processes and its execs", function()
            run("sleep 600 & exec sleep 601")
            assert.equal("running", engine:state(id))
            assert.equal(id, engine:inspect(id).Id)
            assert.equal(0, engine:exec_count(id))
            expect_processes("sleep 600", "sleep 601")

            engine:call("exec", "--detach", id, "sleep", "602")
            expect_execs(1)
            expect_processes("sleep 600", "sleep 601", "sleep 602")
            assert.equal("sandbox", engine:call("exec", "--user", "1000", id, "id", "-un"))
            expect_execs(1) -- an ended one does not count
        end)

        with_engine("lets a spec pause, kill, stop, start and remove a container", function()
            run("exec sleep 600")
            engine:pause(id)
            assert.equal("paused", engine:state(id))
            engine:unpause(id)
            engine:kill(id)
            expect_state("exited")
            engine:start(id)
            expect_state("running")
            engine:stop(id)
            expect_state("exited")
            engine:remove(id)
            assert.is_nil(engine:inspect(id))
            assert.is_nil(engine:state(id))
        end)

        with_engine("has a network from which containers find this machine at the gateway", function()
            local folder = scratch.folder()
            local repository = scratch.repository(folder .. "/repository")
            local gateway = engine:gateway()
            scratch.shell(([[
                git daemon --listen=%s --port=19418 --reuseaddr --base-path=%s --export-all --pid-file=%s/pid --detach
                for i in $(seq 300); do # it listens only after it has detached
                    git ls-remote git://%s:19418/repository >/dev/null 2>&1 && break
                    sleep 0.1
                done
            ]]):format(gateway, folder, folder, gateway))
            local succeeded, stdout, stderr = engine:try("run", "--rm", engine.image, "timeout", "20",
                "git", "ls-remote", ("git://%s:19418/repository"):format(gateway), "main")
            -- The next engine's wants the same port.
            scratch.shell(("p=$(cat %s/pid); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.1; done"):format(folder))
            scratch.remove(folder)
            assert.is_true(succeeded, stderr)
            assert.equal(repository.main .. "\trefs/heads/main\n", stdout)
        end)

        with_engine("raises what the client says of a failure", function()
            local ok, err = pcall(engine.call, engine, "inspect", "no-such-container")
            assert.is_false(ok)
            assert.matches("docker inspect no%-such%-container: .*[Nn]o such", err)
            assert.is_nil(engine:get("/containers/no-such-container/json"))
        end)

        with_engine("can be frozen, killed, stopped and started again", function()
            if engine:untouchable() then
                pending(engine:untouchable())
                return
            end
            run("exec sleep 600")
            local pid = scratch.read(engine.pid_file)
            engine:start_daemon() -- it runs: nothing happens
            assert.equal(pid, scratch.read(engine.pid_file))

            engine:freeze_daemon()
            local answered = os.execute("timeout 1 docker -H " .. engine.host .. " version >/dev/null 2>&1")
            engine:thaw_daemon()
            assert.is_false(answered == true or answered == 0)

            engine:kill_daemon()
            assert.is_false((engine:try("version")))
            engine:start_daemon()
            assert.not_equal(pid, scratch.read(engine.pid_file))
            assert.equal(service == "podman" and "running" or "exited", engine:state(id))

            engine:stop_daemon()
            assert.is_false((engine:try("version")))
            engine:start_daemon()
            assert.equal("exited", engine:state(id))
            engine:call("image", "inspect", engine.image)
        end)
    end)
end

describe("the engine with TLS", function()
    it("wants a certificate that it trusts, and shows one that only its own authority vouches for", function()
        local engine, reason = docker_engine.find("docker-tls")
        if not engine then
            pending(reason)
            return
        end
        local own = engine.cert_path
        engine.cert_path = engine.other_cert_path
        local succeeded, _, stderr = engine:try("version")
        assert.is_false(succeeded)
        assert.matches("certificate", stderr)

        scratch.shell(("! curl -sS --cacert %s/ca.pem --cert %s/cert.pem --key %s/key.pem %s/_ping"):format(own,
            engine.other_cert_path, engine.other_cert_path, (engine.host:gsub("^tcp", "https"))))
    end)
end)

describe("the registry", function()
    for _, service in ipairs({ "docker", "podman" }) do
        it("takes an image and gives it back, only to who has the password: " .. service, function()
            local engine, reason = docker_engine.find(service)
            local registry, data = os.getenv("CHAMVI_TEST_REGISTRY"), os.getenv("CHAMVI_TEST_REGISTRY_DATA")
            if not engine or not registry then
                pending(reason or "no registry: run `eval \"$(scripts/services registry env)\"` first")
                return
            end
            local folder = scratch.folder()
            scratch.shell(("echo one >%s/file; tar -C %s -cf %s/small.tar file"):format(folder, folder, folder))
            local name = registry .. "/small:" .. service
            engine:call("import", folder .. "/small.tar", name)

            assert.is_false((engine:try("--config", folder, "push", name)))
            local user, password = os.getenv("CHAMVI_TEST_REGISTRY_USER"), os.getenv("CHAMVI_TEST_REGISTRY_PASSWORD")
            scratch.write(folder .. "/config.json", ('{"auths":{"%s":{"auth":"%s"}}}'):format(registry,
                scratch.shell(("printf %%s %s:%s | base64"):format(user, password)):gsub("\n", "")))
            engine:call("--config", folder, "push", name)
            engine:call("rmi", name)
            assert.is_false((engine:try("pull", name)))
            engine:call("--config", folder, "pull", name)
            engine:call("rmi", name)
            assert.same({ "small" }, scratch.list(data .. "/docker/registry/v2/repositories"))
            scratch.remove(folder)
        end)
    end
end)

describe("scripts/services", function()
    local function fails(command)
        local pipe = assert(io.popen("( " .. command .. " ) 2>&1; echo \"status $?\""))
        local text = pipe:read("*a")
        pipe:close()
        assert.matches("status [12]\n$", text)
        return text
    end

    it("says in one line what it does not know", function()
        assert.equal("scripts/services: no service 'nginx'; there are docker, docker-tls, podman, registry and k8s\n"
            .. "status 1\n", fails("scripts/services nginx"))
        assert.equal("scripts/services: no 'begin'; there are env, start, build and stop\nstatus 1\n",
            fails("scripts/services docker begin"))
    end)

    it("makes eval fail when it fails", function()
        assert.equal("scripts/services: CHAMVI_TEST_CACHE must be an absolute path: cache\nstatus 1\n",
            fails("eval \"$(CHAMVI_TEST_CACHE=cache scripts/services docker env)\""))
    end)

    it("ends nothing that it did not start", function()
        local folder = scratch.folder()
        scratch.shell(("mkdir -p %s/run; sleep 60 >/dev/null 2>&1 & echo $! >%s/run/docker.pid"):format(folder, folder))
        local pid = tonumber((scratch.read(folder .. "/run/docker.pid")))
        scratch.shell(("CHAMVI_TEST_CACHE=%s scripts/services docker stop"):format(folder))
        local alive = scratch.is_alive(pid)
        scratch.shell("kill " .. pid)
        scratch.remove(folder)
        assert.is_true(alive)
    end)
end)
