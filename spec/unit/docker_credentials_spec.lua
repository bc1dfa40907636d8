-- Whose credentials a pull carries, and that they show nowhere else.

local base64 = require "chamvi.sandbox.base64"
local credentials = require "chamvi.sandbox.docker.credentials"
local native = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local with_environment = require "spec.support.environment"

local HUB = "https://index.docker.io/v1/"

describe("the credentials of a pull", function()
    local folder

    before_each(function()
        folder = scratch.folder()
    end)

    after_each(function()
        scratch.remove(folder)
    end)

    -- The header of a pull from the registry, decoded, under a configuration.
    local function find(registry, config, option, signal)
        if config then
            scratch.write(folder .. "/config.json", config)
        end
        local header, err
        local path = folder .. ":" .. os.getenv("PATH")
        with_environment({ DOCKER_CONFIG = folder, PATH = path, HOME = folder, TMPDIR = folder }, function()
            header, err = credentials.header(registry, option, signal)
        end)
        return header and native.json_decode(base64.decode(header)), err, header
    end

    local function helper(name, script)
        local path = folder .. "/docker-credential-" .. name
        scratch.write(path, "#!/bin/sh\n" .. script)
        scratch.shell("chmod +x " .. path)
    end

    it("are none where nothing is configured", function()
        for _, config in ipairs({ false, "", " \r\n\t", "{}", '{"auths":{}}', '{"auths":{"other":{"auth":"dTpw"}}}',
            '{"auths":null,"credHelpers":null,"credsStore":null}', '{"auths":{"r.example":{}}}' }) do
            local found, err = find("r.example", config)
            assert.is_nil(found)
            assert.is_nil(err)
        end
    end)

    it("are the option's, whatever is configured", function()
        local option = { username = "u", password = "p\255é", serveraddress = "r" }
        local found, _, header = find("r.example", '{"auths":{"r.example":{"auth":"eDp5"}}}', option)
        assert.same({ "u", "r" }, { found.username, found.serveraddress })
        assert.is_nil(header:find("[^%w_=-]"))
    end)

    it("are those of auths, whose keys have many forms", function()
        local auth = base64.encode("user:pass:word")
        for _, key in ipairs({ "r.example", "https://r.example", "http://r.example/v1/", "r.example/v2/" }) do
            local found = find("r.example", ('{"auths":{"%s":{"auth":"%s"}}}'):format(key, auth))
            assert.same({ username = "user", password = "pass:word", serveraddress = "r.example" }, found)
        end
        for _, key in ipairs({ HUB, "index.docker.io" }) do
            assert.equal("user", find(HUB, ('{"auths":{"%s":{"auth":"%s"}}}'):format(key, auth)).username)
        end
        local found = find("r.example", ('{"auths":{"r.example":{"identitytoken":"t","auth":"%s"}}}'):format(auth))
        assert.same({ identitytoken = "t", serveraddress = "r.example" }, found)
    end)

    it("are none where an entry is no such thing", function()
        for _, auth in ipairs({ '"x"', "7", "[]", '{"auth":7}', '{"auth":"*"}', '{"auth":""}', '{"auth":"dQ=="}' }) do
            local found, err = find("r.example", ('{"auths":{"r.example":%s}}'):format(auth))
            assert.is_nil(found, auth)
            assert.is_nil(err, auth)
        end
    end)

    it("are those of a helper, which is told the registry", function()
        helper("fake", [[printf '{"Username":"%s of %s","Secret":"s3cret"}' "$1" "$(cat)"]])
        local expected = { username = "get of r.example", password = "s3cret", serveraddress = "r.example" }
        assert.same(expected, (find("r.example", '{"credHelpers":{"r.example":"fake"},"credsStore":"none"}')))
        assert.same(expected, (find("r.example", '{"credsStore":"fake","auths":{"r.example":{}}}')))
        helper("fake", [[printf '{"Username":"<token>","Secret":"t0ken"}']])
        assert.same({ identitytoken = "t0ken", serveraddress = "r.example" },
            (find("r.example", '{"credsStore":"fake"}')))
    end)

    it("are those of auths where the helper has none", function()
        helper("fake", "echo 'credentials not found in native keychain'; exit 1")
        assert.equal("u", find("r.example", '{"credsStore":"fake","auths":{"r.example":{"auth":"dTpw"}}}').username)
        local found, err = find("r.example", '{"credsStore":"fake"}')
        assert.is_nil(found)
        assert.is_nil(err)
    end)

    it("make a pull fail, without a word of them, when they can't be had", function()
        helper("fails", "echo s3cret; echo s3cret >&2; exit 3")
        helper("babbles", "echo 's3cret is no JSON'")
        helper("half", [[printf '{"Username":"u"}']])
        for _, config in ipairs({
            '{"credsStore":"fails"}', '{"credsStore":"babbles"}', '{"credsStore":"half"}', '{"credsStore":"missing"}',
            '{"credsStore":"../x"}', '{"credsStore":"a b"}', '{"credHelpers":{"r.example":7}}',
            '{"auths":{"r.example":{"auth":"s3cret"', "s3cret", "[]x", ("x"):rep(1048577),
        }) do
            local found, err = find("r.example", config)
            assert.is_nil(found)
            assert.is_true(sandbox.is_error(err, "SandboxError"), config:sub(1, 99))
            assert.equal("image_unavailable", err.code)
            for _, text in pairs({ err.message, err.detail, tostring(err) }) do
                assert.is_nil(text:find("s3cret", 1, true), text)
            end
        end
        -- A folder in the file's place.
        scratch.shell(("rm %s/config.json; mkdir %s/config.json"):format(folder, folder))
        assert.equal("image_unavailable", select(2, find("r.example")).code)
    end)

    it("leave nothing behind, also of a helper that hangs", function()
        helper("hangs", "echo $$ >" .. folder .. "/pid; sleep 600")
        local signal = sandbox.signal()
        sandbox.run(function()
            local job = sandbox.spawn(find, "r.example", '{"credsStore":"hangs"}', nil, signal)
            for _ = 1, 1500 do
                if (scratch.read(folder .. "/pid") or ""):find("\n") then
                    break
                end
                sandbox.sleep(20)
            end
            signal:abort()
            local header, err = job:join()
            assert.is_nil(header)
            assert.equal("aborted", err.code)
        end)
        local pid = tonumber((scratch.read(folder .. "/pid")))
        assert.is_false(scratch.is_alive(pid))
        assert.same({ "config.json", "docker-credential-hangs", "pid" }, scratch.list(folder))
    end)
end)
