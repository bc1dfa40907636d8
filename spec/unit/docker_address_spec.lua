local address = require "chamvi.sandbox.docker.address"
local sandbox = require "chamvi.sandbox"
local with_environment = require "spec.support.environment"

describe("the address of an engine", function()
    local function resolve(option, variables)
        local found
        with_environment(variables or {}, function()
            found = address.resolve(option)
        end)
        return found
    end

    it("is the usual socket when nobody says anything", function()
        local usual = { base = "http://docker", name = "unix:///var/run/docker.sock", socket = "/var/run/docker.sock" }
        assert.same(usual, resolve())
        assert.same(usual, resolve({}))
        assert.same(usual, resolve(nil, { DOCKER_HOST = "", DOCKER_TLS_VERIFY = "", DOCKER_CERT_PATH = "" }))
        assert.same(usual, resolve(nil, { DOCKER_TLS_VERIFY = "1", HOME = "/h" })) -- a socket has no TLS
    end)

    it("is DOCKER_HOST's, unless the option says otherwise", function()
        local variables = { DOCKER_HOST = "unix:///run/a.sock" }
        assert.equal("/run/a.sock", resolve(nil, variables).socket)
        assert.equal("/run/b.sock", resolve({ host = "unix:///run/b.sock" }, variables).socket)
    end)

    it("is plain HTTP over TCP without TLS", function()
        for host, base in pairs({
            ["tcp://engine"] = "http://engine:2375",
            ["tcp://engine:99"] = "http://engine:99",
            ["tcp://engine:99/"] = "http://engine:99",
            ["tcp://[::1]"] = "http://[::1]:2375",
            ["tcp://[::1]:99"] = "http://[::1]:99",
            ["http://engine"] = "http://engine:2375",
        }) do
            assert.same({ base = base, name = host }, resolve({ host = host }))
        end
        assert.equal("http://e:2375", resolve({ host = "http://e" }, { DOCKER_TLS_VERIFY = "1", HOME = "/h" }).base)
    end)

    it("has TLS as the variables say", function()
        local tls = {
            base = "https://engine:2376",
            name = "tcp://engine",
            ca_file = "/c/ca.pem",
            cert_file = "/c/cert.pem",
            key_file = "/c/key.pem",
        }
        local variables = { DOCKER_HOST = "tcp://engine", DOCKER_TLS_VERIFY = "1", DOCKER_CERT_PATH = "/c" }
        assert.same(tls, resolve(nil, variables))
        assert.same(tls, resolve({ host = "tcp://engine", tls_verify = true, cert_path = "/c" }))
        assert.same(tls, resolve({ tls_verify = true }, { DOCKER_HOST = "tcp://engine", DOCKER_CERT_PATH = "/c" }))

        -- The folder of the docker command, when only its use is asked for.
        variables.DOCKER_CERT_PATH, variables.HOME = nil, "/h"
        assert.equal("/h/.docker/ca.pem", resolve(nil, variables).ca_file)

        -- Certificates without a word about verification: encrypted, and not verified, as Docker's clients have it.
        tls.insecure = true
        assert.same(tls, resolve(nil, { DOCKER_HOST = "tcp://engine", DOCKER_CERT_PATH = "/c" }))
        assert.same(tls, resolve({ host = "tcp://engine", tls_verify = false, cert_path = "/c" }))
        assert.is_nil(resolve({ host = "https://engine", cert_path = "/c" }).insecure)
    end)

    it("raises for what makes no sense", function()
        for _, case in ipairs({
            { { host = "ssh://engine" } },
            { { host = "engine" } },
            { { host = "unix://relative" } },
            { { host = "unix://" } },
            { { host = "tcp://" } },
            { { host = "tcp://user:secret@engine" } },
            { { host = "tcp://engine/path" } },
            { { host = "tcp://engine\nx" } },
            { { host = "npipe:////./pipe/docker_engine" } },
            { { host = "http://engine", tls_verify = true } },
            { nil, { DOCKER_HOST = "fd://" } },
            { { host = "tcp://engine", tls_verify = true } }, -- and no folder known
        }) do
            local ok, err = pcall(resolve, case[1], case[2])
            assert.is_false(ok)
            assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), tostring(err))
            assert.is_nil(err.message:find("secret"))
        end
    end)
end)
