-- The request for a container. What an engine makes of it is proven on engines.

local container = require "chamvi.sandbox.docker.container"
local docker = require "chamvi.sandbox.docker"
local native = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"

describe("the request for a container", function()
    local function body(given)
        local whole = {
            id = "the-id",
            run_id = "the run",
            image = "image:1",
            network = "bridge",
            env = { "A=1=1", "B=2" },
            limits = sandbox.resolve_limits(),
            expires_at = 1234567890123,
        }
        for name, value in pairs(given or {}) do
            whole[name] = value
        end
        return container.body(whole)
    end

    it("has the names and constants of the reference", function()
        assert.equal("chamvi-ws-the-id", container.name("the-id"))
        assert.equal("chamvi-ws-", docker.CONTAINER_NAME_PREFIX)
        assert.equal("bridge", docker.DEFAULT_NETWORK)
        assert.equal("1000:1000", docker.SANDBOX_USER)
    end)

    it("is JSON with whole numbers", function()
        local text = assert(native.json_encode(body()))
        assert.is_truthy(text:find('"Env":["A=1=1","B=2"]', 1, true))
        assert.is_truthy(text:find('"Memory":2147483648', 1, true))
        assert.is_truthy(text:find('"NanoCpus":1000000000', 1, true))
        assert.is_truthy(text:find('"1234567890123"', 1, true))
    end)

    it("follows the limits", function()
        local host = body({ limits = sandbox.resolve_limits({ cpu = "1m", memory = "5G", pids = 3 }) }).HostConfig
        assert.same({ 1000000, 5000000000, 5000000000, 3 },
            { host.NanoCpus, host.Memory, host.MemorySwap, host.PidsLimit })
        host = body({ limits = sandbox.resolve_limits({ cpu = "2.5" }) }).HostConfig
        assert.equal(2500000000, host.NanoCpus)
    end)

    it("lets the main program outlive the lifetime by half a minute", function()
        for ms, seconds in pairs({ [1] = "31", [1000] = "31", [1001] = "32", [1800000] = "1830" }) do
            assert.equal(seconds, body({ limits = sandbox.resolve_limits({ timeout_ms = ms }) }).Cmd[4])
        end
    end)

    it("has the argv that makes the repository after the main program's own arguments", function()
        local command = body({ init = { "git", "init" } }).Cmd
        assert.same({ "git", "init" }, { command[5], command[6] })
        assert.is_nil(body().Cmd[5])
    end)
end)

describe("create_docker_sandbox", function()
    local function raises(given)
        local ok, err = pcall(docker.create_docker_sandbox, given)
        assert.is_false(ok)
        assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), tostring(err))
        return err
    end

    it("contacts nothing", function()
        local provider = docker.create_docker_sandbox({ docker = { host = "unix:///nonexistent/socket" } })
        assert.equal("docker", provider.name)
        assert.equal("function", type(provider.create))
        assert.equal("function", type(provider.collect_garbage))
    end)

    it("raises for wrong options, without their values", function()
        for _, given in ipairs({
            7, { colour = "red" }, { image = "" }, { image = 7 }, { network = "" }, { pull = "sometimes" },
            { env = { A = 7 } }, { env = { ["1"] = "x" } }, { env = { A = "\255" } }, { limits = { cpu = "x" } },
            { limits = { pids = 0 } }, { clock = 7 }, { docker = "unix:///x" }, { docker = { hosts = "x" } },
            { docker = { cert_path = "relative" } }, { registry_auth = { passwort = "s3cret" } },
            { registry_auth = { password = 7 } }, { on_event = 7 }, { on_error = {} },
        }) do
            local err = raises(given)
            assert.is_nil(err.message:find("s3cret"))
            assert.matches("docker_container_spec", err.where)
        end
    end)

    it("makes providers whose create raises for wrong options", function()
        local provider = docker.create_docker_sandbox({ docker = { host = "unix:///nonexistent/socket" } })
        for _, given in ipairs({
            {}, { run_id = 7 }, { run_id = "x", colour = 1 }, { run_id = "x", env = { A = "\255" } },
            { run_id = "x", image = "" },
        }) do
            local ok, err = pcall(provider.create, provider, given)
            assert.is_false(ok)
            assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), tostring(err))
        end
        local workspace, err = provider:create({ run_id = "x", repo = "ssh://x/y" })
        assert.is_nil(workspace)
        assert.equal("invalid_repo", err.code)
    end)
end)
