-- How containers come to their end without their hosts, and what collections make of them.

local docker_target = require "spec.support.docker_target"
local engine_proxy = require "spec.support.engine_proxy"
local limits = require "chamvi.sandbox.docker.limits"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local LUA = jit and "luajit" or "lua5.4"

local busted = { describe = describe, it = it, after_each = after_each, teardown = teardown, pending = pending }

docker_target.each(busted, { "docker", "podman" }, "containers", function(target)
    local engine = target.engine
    local busy_ms = limits.BUSY

    after_each(function()
        limits.BUSY = busy_ms
    end)

    -- A clock that stands still, and this provider on it.
    local function clocked(options)
        local clock = { time = os.time() * 1000 }
        function clock.now()
            return clock.time
        end
        local given = { clock = clock }
        for name, value in pairs(options or {}) do
            given[name] = value
        end
        return clock, target.provider(given)
    end

    it("end and are removed when their time is over, though their host was killed", function()
        local folder = scratch.folder()
        scratch.shell(("%s spec/support/docker_host_program.lua %s %s %s >%s/log 2>&1 & echo $! >%s/pid"):format(
            LUA, engine.host, target.image, folder, folder, folder))
        local id = docker_target.wait_until("the host has a workspace: " .. (scratch.read(folder .. "/log") or ""),
            function()
                return scratch.read(folder .. "/id")
            end)
        scratch.shell(("kill -KILL $(cat %s/pid)"):format(folder))
        assert.same({ id }, target.left())
        docker_target.wait_until("the container and its volume are gone", function()
            return #target.left() == 0
        end)
        scratch.remove(folder)
    end)

    it("are collected in any state", function()
        local clock, provider = clocked()
        local states = {
            running = function() end,
            paused = engine.pause,
            created = "made by hand",
            exited = "made by hand",
        }
        if target.name == "docker" then -- Podman removes such a container, or fails to start it
            states.restarted = function(_, name)
                engine:call("restart", "--time", "0", name)
            end
        end
        local count = 0
        for state, change in pairs(states) do
            count = count + 1
            if type(change) == "function" then
                local workspace = assert(provider:create({ run_id = "spec", limits = { timeout_ms = 60000 } }))
                change(engine, target.container(workspace))
            else
                -- As a host leaves it that dies in between: such a container does not remove itself.
                local arguments = { "create", "--volume", "/workspace",
                    "--label", sandbox.WORKSPACE_LABEL .. "=" .. state,
                    "--label", ("%s=%.0f"):format(sandbox.EXPIRES_AT_KEY, clock.time + 60000) }
                for name, value in pairs(sandbox.SANDBOX_LABELS) do
                    table.insert(arguments, "--label")
                    table.insert(arguments, name .. "=" .. value)
                end
                table.insert(arguments, target.image)
                table.insert(arguments, "true")
                local name = engine:call((table.unpack or unpack)(arguments))
                if state == "exited" then
                    engine:start(name)
                end
            end
        end
        assert.equal(count, #target.left())
        assert.equal(0, provider:collect_garbage())
        clock.time = clock.time + 59999
        assert.equal(0, provider:collect_garbage())
        clock.time = clock.time + 1
        assert.equal(count, provider:collect_garbage())
        assert.same({}, target.left())
        assert.equal(0, provider:collect_garbage())
    end)

    it("of others are left alone", function()
        local clock, provider = clocked()
        local labels = {}
        for name, value in pairs(sandbox.SANDBOX_LABELS) do
            table.insert(labels, ("--label %s=%s"):format(name, value))
        end
        labels = table.concat(labels, " ")
        local expired = ("--label %s=1"):format(sandbox.EXPIRES_AT_KEY)
        local workspace = "--label " .. sandbox.WORKSPACE_LABEL .. "=x"
        local others = {
            "", -- nothing that says whose it is
            expired .. " " .. workspace, -- another program's
            labels .. " " .. expired, -- of ours, but no workspace
            labels .. " " .. workspace, -- without a time
            labels .. " " .. workspace .. " --label " .. sandbox.EXPIRES_AT_KEY .. "=0x1",
            labels .. " " .. workspace .. " --label " .. sandbox.EXPIRES_AT_KEY .. "=soon",
            ("%s %s --label %s=%.0f"):format(labels, workspace, sandbox.EXPIRES_AT_KEY, clock.time + 1),
        }
        local names = {}
        for index, arguments in ipairs(others) do
            names[index] = scratch.shell(("%s create %s %s true"):format(engine:client(), arguments, target.image))
                :match("%x+")
        end
        assert.equal(0, provider:collect_garbage())
        for _, name in ipairs(names) do
            assert.is_truthy(engine:inspect(name))
            engine:remove(name)
        end
    end)

    it("that can't be removed do not keep the others", function()
        local proxy = engine_proxy.start(engine)
        local clock, provider = clocked({ docker = { host = proxy.host } })
        for index = 1, 3 do
            assert(provider:create({ run_id = "run " .. index }))
        end
        clock.time = clock.time + sandbox.DEFAULT_LIMITS.timeout_ms
        limits.BUSY = 0
        proxy:set({ { match = "^DELETE /containers", act = "answer", status = 500, body = '{"message":"device busy"}',
            times = 1 } })
        local count, err = provider:collect_garbage()
        assert.is_nil(count)
        assert.equal("gc_failed", err.code)
        assert.equal(2, err.count)
        assert.matches("device busy", err.message)
        assert.equal(1, #target.left())
        assert.equal(1, provider:collect_garbage())

        proxy:set({ { match = "^GET /containers/json", act = "answer", status = 500, body = "broken" } })
        assert.equal("engine_failed", select(2, provider:collect_garbage()).code)
        proxy:set({ { match = "^GET /volumes", act = "answer", status = 500, body = "broken" } })
        assert.equal("gc_failed", select(2, provider:collect_garbage()).code)
        proxy:stop()
    end)

    it("whose removal is disturbed go with the next", function()
        local proxy = engine_proxy.start(engine)
        local provider = target.provider({ docker = { host = proxy.host } })
        local refusal = { act = "answer", status = 500, body = "busy" }
        limits.BUSY = 200
        for _, rule in ipairs({ { act = "drop" }, { act = "lose" }, refusal }) do
            local workspace = assert(provider:create({ run_id = "spec" }))
            rule.match = "^DELETE"
            proxy:set({ rule })
            local disposed, err = workspace:dispose()
            assert.is_nil(disposed)
            assert.is_true(sandbox.is_error(err, "SandboxError"))
            assert.equal("disposed", select(2, workspace:exec({ "true" })).code)
            proxy:set({})
            assert.is_true(workspace:dispose())
            assert.same({}, target.left())
        end

        -- The engine's own files are busy for a while.
        limits.BUSY = busy_ms
        for _, match in ipairs({ "^DELETE /containers", "^DELETE /volumes" }) do
            local workspace = assert(provider:create({ run_id = "spec" }))
            if match:find("volumes", 1, true) then
                target.lose(workspace)
            end
            proxy:set({ { match = match, act = "answer", status = 500, body = "busy", times = 3 } })
            assert.is_true(workspace:dispose())
            assert.same({}, target.left())
        end

        -- Somebody else is at it.
        local workspace = assert(provider:create({ run_id = "spec" }))
        local command = ("(sleep 1; %s rm --force %s) >/dev/null 2>&1 &"):format(engine:client(),
            target.container(workspace))
        proxy:set({ { match = "^DELETE", act = "answer", status = 409, run = command, times = 1,
            body = '{"message":"removal is already in progress"}' },
            { match = "^DELETE /containers", act = "answer", status = 409, times = 8,
            body = '{"message":"removal is already in progress"}' } })
        assert.is_true(workspace:dispose())
        assert.same({}, target.left())
        proxy:stop()
    end)

    it("that are removed without their volumes do not leave them", function()
        local clock, provider = clocked()
        local workspace = assert(provider:create({ run_id = "spec" }))
        target.lose(workspace)
        assert.is_true(workspace:dispose())
        assert.same({}, target.left())

        if target.name == "docker" then -- Podman drops the labels of anonymous volumes
            workspace = assert(provider:create({ run_id = "spec" }))
            target.lose(workspace)
            assert.equal(0, provider:collect_garbage())
            clock.time = clock.time + sandbox.DEFAULT_LIMITS.timeout_ms
            assert.equal(1, provider:collect_garbage())
            assert.same({}, target.left())
        end
    end)

    it("tell how they come to be", function()
        local events = {}
        local options = {
            on_event = function(event)
                table.insert(events, event)
            end,
        }
        target.with(function(workspace)
            assert.equal("ready", events[#events].phase)
            assert.is_truthy(events[#events].message:find(workspace.id, 1, true))
        end, { repo = target.repository.url }, options)
        local phases = {}
        for index, event in ipairs(events) do
            phases[index] = event.phase
            assert.equal("string", type(event.message))
        end
        assert.same({ "creating", "cloning", "ready" }, phases)

        -- A listener that fails disturbs nothing but is heard of.
        local complaints = {}
        target.with(function() end, nil, {
            on_event = function()
                error("on purpose")
            end,
            on_error = function(err)
                table.insert(complaints, tostring(err))
            end,
        })
        assert.equal(2, #complaints)
        assert.matches("on purpose", complaints[1])
    end)

    it("are made and held by managers", function()
        local manager = sandbox.create_workspace_manager({
            provider = target.provider(),
            allow_file_repos = true,
            limits = { memory = "128Mi" },
            env = { FROM = "manager" },
        })
        local workspace = assert(manager:acquire("run", { repo = target.repository.url, ref = "v1" }))
        assert.equal("first\n", workspace:read_file("name"))
        assert.equal("manager\n", assert(workspace:exec({ "sh", "-c", "echo $FROM" })).stdout)
        assert.equal(128 * 1024 * 1024, engine:inspect(target.container(workspace)).HostConfig.Memory)
        assert.is_true(manager:close())
    end)
end)
