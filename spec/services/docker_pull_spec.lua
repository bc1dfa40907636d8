-- Pulls of images from a registry that wants a password.

local base64 = require "chamvi.sandbox.base64"
local docker_target = require "spec.support.docker_target"
local engine_proxy = require "spec.support.engine_proxy"
local scratch = require "spec.support.scratch"
local with_environment = require "spec.support.environment"

local busted = { describe = describe, it = it, after_each = after_each, teardown = teardown, pending = pending }

docker_target.each(busted, { "docker", "podman" }, "pulls", function(target)
    local engine = target.engine
    local registry = os.getenv("CHAMVI_TEST_REGISTRY")
    if not registry then
        it("are as they should be", function()
            pending("no registry: run `eval \"$(scripts/services registry env)\"` first")
        end)
        return
    end
    local user, password = os.getenv("CHAMVI_TEST_REGISTRY_USER"), os.getenv("CHAMVI_TEST_REGISTRY_PASSWORD")
    local image = ("%s/small:pulls-%s"):format(registry, target.name)
    local config = ('{"auths":{"%s":{"auth":"%s"}}}'):format(registry, base64.encode(user .. ":" .. password))
    local folder

    -- An image that is too small to run, so that a create goes on to fail once it is there.
    before_each(function()
        folder = scratch.folder()
        scratch.shell(("head -c 300000 /dev/urandom >%s/file; tar -C %s -cf %s/small.tar file"):format(
            folder, folder, folder))
        engine:call("import", folder .. "/small.tar", image)
        scratch.shell(("mkdir %s/login"):format(folder))
        scratch.write(folder .. "/login/config.json", config)
        engine:call("--config", folder .. "/login", "push", image)
        engine:call("rmi", "--force", image)
    end)

    after_each(function()
        engine:try("rmi", "--force", image)
        scratch.remove(folder)
    end)

    local function is_present()
        return (engine:try("image", "inspect", image))
    end

    -- Creates a workspace of the image, which fails; gives the error and the events.
    local function create(options, configuration)
        local events = {}
        local given = {
            image = image,
            pull = "missing",
            on_event = function(event)
                table.insert(events, event)
            end,
        }
        for name, value in pairs(options or {}) do
            given[name] = value
        end
        if configuration then
            scratch.write(folder .. "/config.json", configuration)
        end
        local workspace, err
        with_environment({ DOCKER_CONFIG = folder, PATH = folder .. ":" .. os.getenv("PATH") }, function()
            workspace, err = target.provider(given):create({ run_id = "spec" })
        end)
        assert.is_nil(workspace)
        for _, text in pairs({ err.message, err.detail }) do
            assert.is_nil(text:find(password, 1, true), text)
            assert.is_nil(text:find(base64.encode(user .. ":" .. password), 1, true), text)
        end
        return err, events
    end

    it("have the option's password", function()
        local err, events = create({ registry_auth = { username = user, password = password } })
        assert.equal("create_failed", err.code)
        assert.is_true(is_present())
        assert.equal("pulling", events[1].phase)
        assert.equal("creating", events[#events].phase)
        if target.name == "docker" then -- Podman tells of layers only that they are there
            local most = 0
            for _, event in ipairs(events) do
                if event.current then
                    assert.is_true(event.current <= event.total)
                    most = math.max(most, event.current)
                end
            end
            assert.is_true(most >= 300000, most)
        end
    end)

    it("have the password of config.json, or that of a helper", function()
        assert.equal("create_failed", create(nil, config).code)
        assert.is_true(is_present())
        engine:call("rmi", "--force", image)

        local helper = folder .. "/docker-credential-fake"
        scratch.write(helper, ([[#!/bin/sh
            [ "$(cat)" = %s ] && printf '{"Username":"%s","Secret":"%s"}'
        ]]):format(registry, user, password))
        scratch.shell("chmod +x " .. helper)
        assert.equal("create_failed", create(nil, '{"credsStore":"fake"}').code)
        assert.is_true(is_present())
    end)

    it("fail without a password, and with a wrong one", function()
        assert.equal("image_unavailable", create(nil, "{}").code)
        assert.equal("image_unavailable", create({ registry_auth = { username = user, password = "x" } }).code)
        assert.equal("image_unavailable", create({ pull = "always" }, "{}").code)
        assert.is_false(is_present())
    end)

    it("fail by an error inside a 200 answer", function()
        -- What was pushed last is the layer: the registry has the manifest and has lost that.
        local data = os.getenv("CHAMVI_TEST_REGISTRY_DATA") .. "/docker/registry/v2/blobs"
        scratch.shell(("find %s -type f -size +250k -newer %s/login/config.json -name data -delete"):format(
            data, folder))
        local err = create(nil, config)
        assert.equal("image_unavailable", err.code)
        assert.matches("the pull failed: ", err.message)
        assert.is_false(is_present())
        -- The registry believes that it has the layer.
        scratch.shell(("rm -rf %s/../repositories/small"):format(data))
    end)

    it("happen as the policy says", function()
        local proxy = engine_proxy.start(engine)
        local function pulls(policy)
            proxy:set({})
            local err = create({ docker = { host = proxy.host }, pull = policy }, config)
            local count = 0
            for _, request in ipairs(proxy:requests()) do
                count = count + (request:find("^POST /images/create") and 1 or 0)
            end
            return count, err.code
        end
        assert.same({ 0, "image_unavailable" }, { pulls("never") })
        assert.same({ 1, "create_failed" }, { pulls("missing") })
        assert.same({ 0, "create_failed" }, { pulls("missing") })
        assert.same({ 0, "create_failed" }, { pulls("never") })
        assert.same({ 1, "create_failed" }, { pulls("always") })

        -- Cut in the middle, and refused.
        engine:call("rmi", "--force", image)
        for _, rule in ipairs({
            { act = "cut", bytes = 20 }, { act = "lose" }, { act = "drop" },
            { act = "answer", status = 500, body = '{"message":"on purpose"}' },
            { act = "answer", status = 404, body = '{"message":"on purpose"}' },
            { act = "answer", status = 200, body = '{"status":"x"}\n{"error":"on purpose"}\n' },
            { act = "answer", status = 200, body = '{"errorDetail":{"message":"on purpose"}}' }, -- no newline
            { act = "answer", status = 200, body = "no JSON\n" },
        }) do
            rule.match = "^POST /images/create"
            proxy:set({ rule })
            local err = create({ docker = { host = proxy.host } }, config)
            if rule.body and rule.body:find("on purpose") then
                assert.equal("image_unavailable", err.code)
                assert.matches("on purpose", err.message)
            end
            assert.is_truthy(("create_failed image_unavailable"):find(err.code, 1, true), err.code)
            engine:try("rmi", "--force", image)
        end
        proxy:stop()
    end)
end)
