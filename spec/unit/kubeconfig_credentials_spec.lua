-- Credentials of a kubeconfig that change: token files and plugins; and what a server sees of them.

local core = require "chamvi.sandbox.core"
local exec_plugin = require "chamvi.sandbox.k8s.exec_plugin"
local http = require "chamvi.sandbox.http"
local http_server = require "spec.support.http_server"
local k8s = require "chamvi.sandbox.k8s"
local kubeconfigs = require "spec.support.kubeconfigs"
local node_server = require "spec.support.node_server"
local rfc3339 = require "chamvi.sandbox.k8s.rfc3339"
local programs = require "spec.support.programs"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local V1 = "client.authentication.k8s.io/v1"
local V1BETA1 = "client.authentication.k8s.io/v1beta1"

describe("the credentials of a kubeconfig", function()
    local place

    before_each(function()
        place = kubeconfigs.place()
    end)

    after_each(function()
        place:remove()
    end)

    local function load(user, cluster)
        return assert(k8s.load_kube_config({ path = place:config(user, cluster) }))
    end

    local function authorization(config, signal)
        local options, err = config:request_options(signal)
        return options and options.headers.Authorization, err
    end

    local function assert_failed(words, value, err)
        assert.is_nil(value)
        assert.is_true(sandbox.is_error(err, "SandboxError"), tostring(err))
        assert.equal("credentials_failed", err.code, err.message)
        assert.is_truthy(err.message:find(words, 1, true), err.message)
        return err
    end

    describe("in a token file", function()
        it("are read again when it is replaced", function()
            place:write("token", " first \n")
            local config = load("tokenFile: token, token: beside")
            local options = assert(config:request_options())
            assert.equal("Bearer first", options.headers.Authorization)
            assert.is_false(config:refused(options)) -- the same again would not help
            place:write("token", "second")
            assert.is_true(config:refused(options))
            assert.equal("Bearer second", authorization(config))
            place:write("token", "\n") -- in the middle of being written
            assert.equal("Bearer second", authorization(config))
            os.remove(place.folder .. "/token")
            assert.equal("Bearer second", authorization(config))
        end)

        it("or are those beside it, or an error", function()
            assert.equal("Bearer beside", authorization(load("tokenFile: token, token: beside")))
            -- The path may be the token itself, in the wrong field.
            local function fails(words)
                local place_of = "config: users[1].user.tokenFile: "
                local err = assert_failed(place_of .. "there is no token in the token file: " .. words,
                    load("tokenFile: secret"):request_options())
                assert.is_nil(err.message:find("secret", 1, true), err.message)
            end
            fails("No such file or directory")
            place:write("secret", "")
            fails("it is empty")
            place:write("secret", "first\nsecond")
            fails("it holds control characters")
            place:write("secret", ("x"):rep(65537))
            fails("longer than 65536 bytes")
            os.remove(place.folder .. "/secret")
            scratch.shell("mkdir " .. place.folder .. "/secret")
            fails("Is a directory")
        end)
    end)

    it("in the file itself are not better the second time", function()
        local config = load("token: t")
        assert.is_false(config:refused(assert(config:request_options())))
        assert.is_false(config:refused({}))
    end)

    describe("from a plugin", function()
        local function exec(fields, version, mode)
            return ("exec: {apiVersion: %s, interactiveMode: %s, %s}"):format(version or V1, mode or "Never", fields)
        end

        -- A plugin that counts its runs and prints a status.
        local function plugin(status, version)
            return place:program("plugin", ([[
echo run >>%s/runs
cat <<'END'
{"apiVersion": "%s", "kind": "ExecCredential", "status": %s}
END
]]):format(place.folder, version or V1, status))
        end

        local function runs()
            local _, count = (scratch.read(place.folder .. "/runs") or ""):gsub("run", "")
            return count
        end

        it("are kept as long as they are good", function()
            plugin('{"token": "abc"}')
            local config = load(exec("command: ./plugin"))
            assert.equal(0, runs())
            assert.equal("Bearer abc", authorization(config))
            assert.equal("Bearer abc", authorization(config))
            assert.equal(1, runs())
            plugin('{"token": "abc", "expirationTimestamp": "2999-01-01T00:00:00Z"}')
            config = load(exec("command: ./plugin"))
            authorization(config)
            authorization(config)
            assert.equal(2, runs())
            plugin('{"token": "abc", "expirationTimestamp": "2001-01-01T00:00:00+01:00"}')
            config = load(exec("command: ./plugin"))
            authorization(config)
            assert.equal("Bearer abc", authorization(config))
            assert.equal(4, runs())
        end)

        it("are thrown away when they were refused, but once", function()
            plugin('{"token": "abc"}')
            local config = load(exec("command: ./plugin"))
            local one, two = assert(config:request_options()), assert(config:request_options())
            assert.is_true(config:refused(one))
            assert.equal("Bearer abc", authorization(config))
            assert.equal(2, runs())
            assert.is_true(config:refused(two)) -- with the one that is gone already
            assert.equal("Bearer abc", authorization(config))
            assert.equal(2, runs())
        end)

        it("are asked for once by all who wait", function()
            place:program("plugin", ([[
echo run >>%s/runs
sleep 0.2
echo '{"apiVersion": "%s", "kind": "ExecCredential", "status": {"token": "abc"}}'
]]):format(place.folder, V1))
            local config = load(exec("command: ./plugin"))
            sandbox.run(function()
                local waiting = {}
                for i = 1, 10 do
                    waiting[i] = sandbox.spawn(authorization, config)
                end
                for i = 1, 10 do
                    assert.equal("Bearer abc", waiting[i]:join())
                end
            end)
            assert.equal(1, runs())
        end)

        it("end with the last who waits for them", function()
            place:program("plugin", ("echo $$ >%s/pid\nexec sleep 60\n"):format(place.folder))
            local config = load(exec("command: ./plugin"))
            sandbox.run(function()
                local one, two = sandbox.signal(), sandbox.signal()
                local first = sandbox.spawn(authorization, config, one)
                local second = sandbox.spawn(authorization, config, two)
                local pid
                repeat
                    sandbox.sleep(10)
                    pid = tonumber(scratch.read(place.folder .. "/pid") or "")
                until pid
                one:abort("enough")
                local value, err = first:join()
                assert.is_nil(value)
                assert.equal("aborted", err.code)
                sandbox.sleep(20)
                assert.is_true(scratch.is_alive(pid))
                two:abort("enough")
                value, err = second:join()
                assert.is_nil(value)
                assert.equal("aborted", err.code)
                for _ = 1, 3000 do
                    if not scratch.is_alive(pid) then
                        break
                    end
                    sandbox.sleep(10)
                end
                assert.is_false(scratch.is_alive(pid))
                -- The next one starts anew.
                plugin('{"token": "abc"}')
                assert.equal("Bearer abc", authorization(config))
                local aborted = sandbox.signal()
                aborted:abort()
                value, err = authorization(config, aborted)
                assert.is_nil(value)
                assert.equal("aborted", err.code)
            end)
        end)

        it("may be certificates", function()
            plugin('{"clientCertificateData": "CERT", "clientKeyData": "KEY"}', V1BETA1)
            local options = assert(load(exec("command: ./plugin", V1BETA1, "IfAvailable")):request_options())
            assert.equal("CERT", options.cert)
            assert.equal("KEY", options.key)
            assert.is_nil(options.headers.Authorization)
        end)

        it("stand behind a token in the file", function()
            plugin('{"token": "abc"}')
            assert.equal("Bearer mine", authorization(load("token: mine, " .. exec("command: ./plugin"))))
        end)

        it("come by arguments, variables and what it is told of the cluster", function()
            place:program("plugin", ([[
printf '%%s|' "$1" "$2" "$VARIABLE" >%s/seen
printf '%%s' "$KUBERNETES_EXEC_INFO" >%s/info
test -n "$PATH" && test -n "$PWD" || exit 1
read -r line && exit 2 # stdin is empty
echo '{"apiVersion": "%s", "kind": "ExecCredential", "status": {"token": "abc"}}'
]]):format(place.folder, place.folder, V1))
            local fields = "command: ./plugin, args: ['a b', \"c'd\"], env: [{name: VARIABLE, value: 'v w'}]"
            local config = load(exec(fields))
            assert.equal("Bearer abc", authorization(config))
            assert.equal("a b|c'd|v w|", scratch.read(place.folder .. "/seen"))
            assert.same({ kind = "ExecCredential", apiVersion = V1, spec = { interactive = false } },
                core.json_decode(scratch.read(place.folder .. "/info")))

            config = load(exec(fields .. ", provideClusterInfo: true"),
                "tls-server-name: name, proxy-url: 'http://proxy', extensions: [{name: other, extension: {}}, "
                .. "{name: client.authentication.k8s.io/exec, extension: {audience: a, number: 7}}]")
            assert.equal("Bearer abc", authorization(config))
            assert.same({
                server = "https://cluster.example:6443", ["tls-server-name"] = "name", ["proxy-url"] = "http://proxy",
                config = { audience = "a", number = 7 },
            }, core.json_decode(scratch.read(place.folder .. "/info")).spec.cluster)
        end)

        it("see the whole environment of this program", function()
            place:program("plugin", ([[
echo "{\"apiVersion\": \"%s\", \"kind\": \"ExecCredential\", \"status\": {\"token\": \"$CLOUD_VARIABLE\"}}"
]]):format(V1))
            local path = place:config(exec("command: ./plugin"))
            local program = place:write("program.lua", ([[
local config = require("chamvi.sandbox.k8s").load_kube_config({ path = %q })
print(config:request_options().headers.Authorization)
]]):format(path))
            assert.equal("Bearer cloud\n",
                scratch.shell(("CLOUD_VARIABLE=cloud %s %s"):format(programs.LUA, program)))
        end)

        it("fail when they print too much", function()
            place:program("plugin", "head -c 70000 /dev/zero | tr '\\0' x\n")
            assert_failed("config: users[1].user.exec: the credential plugin printed more than 65536 bytes",
                load(exec("command: ./plugin")):request_options())
        end)

        it("are found on PATH, or not, with the hint", function()
            assert_failed("plugin was not found; its installHint tells how to get it",
                load(exec("command: nonexistent-plugin, installHint: get it there")):request_options())
            assert_failed("plugin was not found", load(exec("command: ./plugin")):request_options())
        end)

        it("fail without a word of the command, which may hold a secret", function()
            for _, command in ipairs({ "secret", "./secret", "/bin/x --token=secret", "'secret\n x'", place.folder }) do
                local err = assert_failed("config: users[1].user.exec: the credential plugin ",
                    load(exec(("command: %s, installHint: secret"):format(command))):request_options())
                assert.is_nil((err.message .. err.detail):find("secret", 1, true), err.detail)
                assert.is_nil(err.detail:find(place.folder, 1, true), err.detail)
            end
            place:program("secret", 'echo "$0: log in first; --token=abc" >&2\nexit 1\n')
            local err = assert_failed("exit code 1", load(exec("command: ./secret, args: [abc]")):request_options())
            assert.equal("***: log in first; --token=***\n", err.detail)
            -- Cut in the middle of the last one.
            place:program("plugin", 'for i in 1 2 3 4 5 6 7; do echo "$1" >&2; done\nexit 1\n')
            err = assert_failed("exit code 1", load(exec("command: ./plugin, args: ['" .. ("s"):rep(9999) .. "']"))
                :request_options())
            assert.is_nil(err.detail:find("s", 1, true))
        end)

        it("run anew after one that raised", function()
            plugin('{"token": "abc"}')
            local config = load(exec("command: ./plugin"))
            local run = exec_plugin.run
            exec_plugin.run = function()
                error("on purpose", 0)
            end
            local ok, err = pcall(config.request_options, config)
            exec_plugin.run = run
            assert.is_false(ok)
            assert.equal("on purpose", err)
            assert.equal("Bearer abc", authorization(config))
        end)

        it("fail with its words, but not with what the kubeconfig gave it", function()
            place:program("plugin", 'echo "log in with $TOKEN first" >&2\necho stdout-secret\nexit 3\n')
            local err = assert_failed("the credential plugin failed with exit code 3",
                load(exec("command: ./plugin, env: [{name: TOKEN, value: 'a%s.c'}]")):request_options())
            assert.equal("log in with *** first\n", err.detail)
            place:program("plugin", 'echo "$*; ${2#*=}; ${3#-p}; $5" >&2\nexit 3\n')
            err = assert_failed("exit code 3", load(exec("command: ./plugin, args: "
                .. "[--verbose, --key=s3cr.et, -phidden, -c, 'pass word']")):request_options())
            assert.equal("--verbose *** *** -c ***; ***; ***; ***\n", err.detail)
            for status, words in pairs({
                ["{}"] = "neither a token nor a certificate",
                ['{"token": ""}'] = "neither a token nor a certificate",
                ["null"] = "neither a token nor a certificate",
                ['{"token": 5}'] = "neither a token nor a certificate",
                ['{"clientCertificateData": "x"}'] = "a certificate without its key",
                ['{"token": "t", "clientKeyData": "x"}'] = "or a key alone",
                ['{"token": "stdout-secret", "expirationTimestamp": "soon"}'] = "expirationTimestamp that is no time",
                ['{"token": "stdout-secret\\n"}'] = "a token with control characters",
                ["stdout-secret"] = "printed no ExecCredential",
            }) do
                plugin(status)
                err = assert_failed(words, load(exec("command: ./plugin")):request_options())
                assert.is_nil((err.message .. (err.detail or "")):find("secret", 1, true))
            end
            plugin('{"token": "t"}', V1BETA1)
            assert_failed("does not answer in " .. V1, load(exec("command: ./plugin")):request_options())
            place:program("plugin", "echo '{}'")
            assert_failed("printed no ExecCredential", load(exec("command: ./plugin")):request_options())
        end)
    end)

    it("know times", function()
        for text, expected in pairs({
            ["1970-01-01T00:00:00Z"] = 0,
            ["2000-02-29T12:34:56.789Z"] = 951827696000,
            ["2100-03-01T00:00:00z"] = 4107542400000,
            ["2024-12-31t23:59:60+00:00"] = 1735689600000,
            ["1999-12-31T23:00:00-01:00"] = 946684800000,
            ["2000-01-01T05:30:00+05:30"] = 946684800000,
        }) do
            assert.equal(expected, rfc3339.parse(text), text)
        end
        for _, text in ipairs({
            "", "2000-01-01", "2000-13-01T00:00:00Z", "2000-00-01T00:00:00Z", "2000-01-00T00:00:00Z",
            "2000-01-32T00:00:00Z", "2000-01-01T24:00:00Z", "2000-01-01T00:60:00Z", "2000-01-01T00:00:61Z",
            "2000-01-01T00:00:00", "2000-01-01T00:00:00+1", "2000-01-01 00:00:00Z", "x2000-01-01T00:00:00Z",
        }) do
            assert.is_nil(rfc3339.parse(text), text)
        end
        assert.is_nil(rfc3339.parse(5))
    end)

    describe("reach the server", function()
        if not node_server.available then
            pending("no node here")
            return
        end

        local server

        setup(function()
            server = http_server.start()
        end)

        teardown(function()
            server.stop()
        end)

        local function ask(name, user, cluster)
            local config = load(user, ('server: "https://127.0.0.1:%d", '):format(server.ports[name]) .. cluster)
            local options = assert(config:request_options())
            options.url = config.server .. "/echo"
            local response, err = http.request(options)
            return response and core.json_decode(response.body), err
        end

        it("as header and as certificate", function()
            local ca = ("certificate-authority: %s/ca.pem, tls-server-name: localhost"):format(server.folder)
            assert.equal("Bearer t", assert(ask("tls", "token: t", ca)).headers.authorization)
            local client = "client-certificate: %s/client.pem, client-key: %s/client-key.pem"
            local seen = assert(ask("client", client:format(server.folder, server.folder), ca))
            assert.equal("client", seen.client)
            assert.equal("localhost", seen.name)
            local _, err = ask("tls", "token: t", "tls-server-name: localhost")
            assert.equal("engine_unreachable", err.code)
            assert(ask("tls", "token: t", "insecure-skip-tls-verify: true"))
            local proxy = (', proxy-url: "http://127.0.0.1:%d"'):format(server.ports.proxy)
            seen = assert(ask("tls", "token: t", ca .. proxy))
            assert.equal("Bearer t", seen.headers.authorization)
        end)
    end)
end)
