-- Kubeconfigs: finding, merging, checking. Where there is a kubectl, what it says of the same files is compared.

local base64 = require "chamvi.sandbox.base64"
local core = require "chamvi.sandbox.core"
local k8s = require "chamvi.sandbox.k8s"
local kubeconfig = require "chamvi.sandbox.k8s.kubeconfig"
local kubeconfigs = require "spec.support.kubeconfigs"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local CA = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
local KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"

local has_kubectl = os.execute("command -v kubectl >/dev/null 2>&1")
has_kubectl = has_kubectl == true or has_kubectl == 0

describe("kubeconfig", function()
    local place

    before_each(function()
        place = kubeconfigs.place()
    end)

    after_each(function()
        place:remove()
    end)

    local function load(user, cluster)
        return k8s.load_kube_config({ path = place:config(user, cluster) })
    end

    local function options_of(user, cluster)
        return assert(assert(load(user, cluster)):request_options())
    end

    local function assert_refused(words, config, err)
        assert.is_nil(config)
        assert.is_true(sandbox.is_error(err, "SandboxError"), tostring(err))
        assert.equal("invalid_kube_config", err.code)
        assert.is_truthy(err.message:find(words, 1, true), err.message)
        return err
    end

    -- As if the environment were this one.
    local function with(env, options)
        return kubeconfig.load(options, {
            getenv = function(name)
                return env[name]
            end,
            service_account = place.folder .. "/account",
        })
    end

    it("gives server, namespace and context", function()
        local config = assert(load("token: abc"))
        assert.equal("https://cluster.example:6443", config.server)
        assert.equal("space", config.namespace)
        assert.equal("c", config.context)
        local options = assert(config:request_options())
        assert.same({
            insecure = false, proxy_env = true, headers = { Authorization = "Bearer abc" },
        }, options)
    end)

    it("takes the context that is asked for", function()
        local path = place:write("config", [[
contexts:
- {name: a, context: {cluster: k}}
- {name: b, context: {cluster: k2, namespace: nb}}
clusters:
- {name: k, cluster: {server: "https://one"}}
- {name: k2, cluster: {server: "https://two/"}}
]])
        local config = assert(k8s.load_kube_config({ path = path, context = "b" }))
        assert.equal("https://two", config.server)
        assert.equal("nb", config.namespace)
        config = assert(k8s.load_kube_config({ path = path, context = "a" }))
        assert.equal("default", config.namespace)
        assert.same({}, config:request_options().headers)
        assert_refused("give the option context", k8s.load_kube_config({ path = path }))
        assert_refused('the kubeconfig has no context "c"', k8s.load_kube_config({ path = path, context = "c" }))
    end)

    it("raises for wrong options", function()
        for _, wrong in ipairs({ { path = 1 }, { path = "" }, { context = false }, { contxt = "x" }, "x" }) do
            local ok, err = pcall(k8s.load_kube_config, wrong)
            assert.is_false(ok)
            assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"))
        end
    end)

    describe("is found", function()
        it("in KUBECONFIG's files, then at home", function()
            local one = place:write("one", "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n")
            local two = place:write("two", 'clusters: [{name: k, cluster: {server: "https://two"}}]\n')
            scratch.shell("mkdir -p " .. place.folder .. "/.kube")
            place:write(".kube/config", 'current-context: h\ncontexts: [{name: h, context: {cluster: k}}]\n'
                .. 'clusters: [{name: k, cluster: {server: "https://home"}}]\n')
            local env = { KUBECONFIG = (":%s::/nonexistent:%s:"):format(one, two), HOME = place.folder }
            assert.equal("https://two", assert(with(env)).server)
            env.KUBECONFIG = ""
            assert.equal("https://home", assert(with(env)).server)
            env.KUBECONFIG = nil
            assert.equal("https://home", assert(with(env)).server)
            env.KUBECONFIG = two -- home does not count any more
            assert_refused("no current-context", with(env))
        end)

        it("nowhere, and then says where it looked", function()
            assert_refused("looked for /nonexistent/.kube/config", with({ HOME = "/nonexistent" }))
            assert_refused("looked for /a, /b)", with({ HOME = "/nonexistent", KUBECONFIG = "/a:/b" }))
            assert_refused("for want of HOME", with({}))
            assert_refused("there is no kubeconfig /nonexistent", k8s.load_kube_config({ path = "/nonexistent" }))
            assert_refused("is empty", k8s.load_kube_config({ path = place:write("config", "# nothing\n") }))
            assert_refused("can't be read", k8s.load_kube_config({ path = place.folder }))
        end)

        it("in the pod's service account when there is none", function()
            scratch.shell(("mkdir %s/account"):format(place.folder))
            local env = { KUBERNETES_SERVICE_HOST = "10.0.0.1", KUBERNETES_SERVICE_PORT = "443", HOME = "/nonexistent" }
            assert_refused("nor is this a pod", with(env))
            place:write("account/token", "first\n")
            local config = assert(with(env))
            assert.equal("https://10.0.0.1:443", config.server)
            assert.equal("default", config.namespace)
            assert.is_nil(config.context)
            local options = assert(config:request_options())
            assert.equal("Bearer first", options.headers.Authorization)
            assert.is_nil(options.ca_file)

            place:write("account/namespace", "pods\n")
            place:write("account/ca.crt", CA)
            env.KUBERNETES_SERVICE_HOST = "fd00::1"
            config = assert(with(env))
            assert.equal("https://[fd00::1]:443", config.server)
            assert.equal("pods", config.namespace)
            assert.equal(place.folder .. "/account/ca.crt", config:request_options().ca_file)
            env.POD_NAMESPACE = "given"
            assert.equal("given", assert(with(env)).namespace)

            -- A context is no service account's.
            assert_refused("there is no kubeconfig", with(env, { context = "c" }))
            env.KUBERNETES_SERVICE_PORT = ""
            assert_refused("nor is this a pod", with(env))
        end)
    end)

    describe("merged", function()
        local ONE = [[
current-context: c
current-context: d
clusters:
- name: k
  cluster: {server: "https://one", certificate-authority: ca.pem}
contexts:
- name: c
  context: {cluster: k, user: u, namespace: space}
users:
- name: u
  user: &x {token: secret}
- name: v
  user: *x
---
ignored: ]
]]
        local TWO = [[
current-context: c
clusters:
- name: k
  cluster: {server: "https://two", tls-server-name: two, insecure-skip-tls-verify: true}
- name: k2
  cluster: {server: "https://k2"}
contexts:
- name: c
  context: {cluster: k2, user: v}
- name: d
  context: {cluster: k2, user: u}
users:
- name: u
  user: {tokenFile: token}
- name: v
  user: {token: never}
]]

        it("has whole entries of the first file that has the name", function()
            local one, two = place:write("one", ONE), place:write("two", TWO)
            place:write("ca.pem", CA)
            place:write("token", "of the file")
            local function merged(first, second, context)
                return assert(with({ KUBECONFIG = first .. ":" .. second }, { context = context }))
            end
            assert.equal("d", merged(one, two).context) -- the last of a file, the first of the files
            assert.equal("c", merged(two, one).context)
            local config = merged(one, two, "c")
            assert.equal("https://one", config.server)
            assert.equal("space", config.namespace)
            local options = config:request_options()
            assert.is_nil(options.server_name) -- nothing of the second's k
            assert.is_false(options.insecure)
            assert.equal("Bearer secret", options.headers.Authorization)
            config = merged(two, one, "d")
            assert.equal("Bearer of the file", config:request_options().headers.Authorization)
        end)

        it("is what kubectl makes of it", function()
            if not has_kubectl then
                pending("no kubectl here")
                return
            end
            local one, two = place:write("one", ONE), place:write("two", TWO)
            place:write("ca.pem", CA)
            place:write("token", "of the file")
            local template = "'{.current-context}|{.clusters[0].cluster.server}|{.clusters[0].cluster.tls-server-name}|"
                .. "{.contexts[0].context.namespace}|{.users[0].user.token}|{.users[0].user.tokenFile}'"
            for _, order in ipairs({ one .. ":/nonexistent:" .. two, two .. ":" .. one }) do
                for _, context in ipairs({ "c", "d" }) do
                    -- A minified view has one element in each list.
                    local said = scratch.shell(("HOME=/nonexistent KUBECONFIG=%s kubectl config view --raw --minify "
                        .. "--context=%s -o jsonpath=%s"):format(order, context, template))
                    local config = kubeconfig.load({ context = context }, {
                        getenv = function(name)
                            return name == "KUBECONFIG" and order or nil
                        end,
                        service_account = "/nonexistent",
                    })
                    local options = assert(config):request_options()
                    local _, server, name, namespace, token, file = said:match("^(.-)|(.-)|(.-)|(.-)|(.-)|(.-)%s*$")
                    assert.equal(server, config.server)
                    assert.equal(name, options.server_name or "")
                    assert.equal(namespace ~= "" and namespace or "default", config.namespace)
                    local expected = file ~= "" and scratch.read(file:gsub("^[^/]", place.folder .. "/%0")) or token
                    assert.equal("Bearer " .. expected, options.headers.Authorization)
                end
            end
        end)
    end)

    describe("takes", function()
        it("certificates as data and as files beside the kubeconfig", function()
            local function b64(text)
                return base64.encode(text)
            end
            local options = options_of(
                ("client-certificate-data: %s, client-key-data: %s"):format(b64(CA), b64(KEY)),
                "certificate-authority-data: " .. b64(CA))
            assert.equal(CA, options.ca)
            assert.equal(CA, options.cert)
            assert.equal(KEY, options.key)

            scratch.shell("mkdir " .. place.folder .. "/pki")
            place:write("pki/ca.crt", CA)
            place:write("pki/client.crt", CA)
            local key = place:write("client.key", KEY)
            options = options_of("client-certificate: pki/client.crt, client-key: " .. key,
                "certificate-authority: ./pki/ca.crt")
            assert.equal(place.folder .. "/./pki/ca.crt", options.ca_file)
            assert.equal(place.folder .. "/pki/client.crt", options.cert_file)
            assert.equal(key, options.key_file)
            assert.is_nil(options.ca or options.cert or options.key)
        end)

        it("paths of a relative kubeconfig", function()
            place:write("token", "relative")
            place:config("tokenFile: token")
            local folder = core.current_folder()
            local up = folder:gsub("/[^/]+", "../")
            local config = assert(k8s.load_kube_config({ path = up .. place.folder:sub(2) .. "/config" }))
            assert.equal("Bearer relative", config:request_options().headers.Authorization)
        end)

        it("every way to say who one is", function()
            assert.equal("Basic dXM6cHc=", options_of("username: us, password: pw").headers.Authorization)
            assert.equal("Basic dXM6", options_of("username: us").headers.Authorization)
            assert.is_nil(options_of("").headers.Authorization)
            local headers = options_of("token: t, as: other, as-uid: id, as-groups: [g]").headers
            assert.same({
                Authorization = "Bearer t", ["Impersonate-User"] = "other", ["Impersonate-Uid"] = "id",
                ["Impersonate-Group"] = "g",
            }, headers)
        end)

        it("servers and proxies as client-go does", function()
            for given, expected in pairs({
                ["https://h:1/prefix/"] = "https://h:1/prefix", ["HTTP://h"] = "http://h", ["h:1"] = "http://h:1",
                ["https://[::1]:65535"] = "https://[::1]:65535", ["https://[::1]"] = "https://[::1]",
            }) do
                assert.equal(expected, assert(load("", ("server: %q"):format(given))).server)
            end
            assert.equal("https://h:1", load("", 'server: "h:1", insecure-skip-tls-verify: true').server)
            for given, expected in pairs({
                ["http://p:1"] = "http://p:1", ["https://u:p@p:1"] = "https://u:p@p:1",
                ["socks5://p:1"] = "socks5h://p:1",
            }) do
                local options = options_of("", ("proxy-url: %q"):format(given))
                assert.equal(expected, options.proxy)
                assert.is_false(options.proxy_env)
            end
            local options = options_of("", "tls-server-name: other, insecure-skip-tls-verify: true")
            assert.equal("other", options.server_name)
            assert.is_true(options.insecure)
        end)

        it("a byte order mark, as some editors write it", function()
            local text = scratch.read(place:config("token: _123"))
            local path = place:write("config", "\239\187\191" .. text)
            assert.equal("Bearer _123", k8s.load_kube_config({ path = path }):request_options().headers.Authorization)
            -- Twice, it makes what follows the first key no part of the document.
            path = place:write("config", "\239\187\191\239\187\191" .. text)
            assert_refused("at line 2, column 1: ", k8s.load_kube_config({ path = path }))
        end)

        it("unknown fields, nulls and empty ones for nothing", function()
            assert.is_nil(options_of("token: '', tokenFile: null, Token: x, unknown: {a: [1]}").headers.Authorization)
        end)
    end)

    it("names the file and the field of what is wrong, and no value", function()
        local pem = place:write("nopem", "secret")
        place:write("pem", CA)
        scratch.shell("mkdir " .. place.folder .. "/folder-secret")
        for fields, words in pairs({
            ["token: 123"] = "users[1].user.token must be a string",
            ["token: yes"] = "users[1].user.token must be a string",
            ["tokenFile: [secret]"] = "users[1].user.tokenFile must be a string",
            ["token: secret, username: secret"] = "users[1].user has both a token and a username",
            ["tokenFile: secret, password: secret"] = "has both a token and a username",
            ["client-certificate-data: '!secret!'"] = "users[1].user.client-certificate-data is no Base64",
            ["client-certificate-data: c2VjcmV0"] = "client certificate without its key",
            ["client-certificate-data: c2VjcmV0, client-key-data: c2VjcmV0"] = ".client-certificate-data is no PEM",
            ["client-certificate: nopem, client-key: nopem"] = ".client-certificate is no PEM",
            ["client-certificate: secret, client-key: nopem"] = ".client-certificate can't be read: No such file",
            ["client-certificate: pem, client-key: c2VjcmV0/secret=="] = ".client-key can't be read: No such file",
            ["client-certificate: pem, client-key: pem/secret"] = ".client-key can't be read: Not a directory",
            ["client-certificate: pem, client-key: folder-secret"] = ".client-key can't be read: Is a directory",
            ["client-certificate: nopem, client-certificate-data: c2VjcmV0, client-key: nopem"] =
                "has both client-certificate and client-certificate-data",
            ["auth-provider: {name: secret}"] = "users[1].user.auth-provider is not supported",
            ["as-groups: [secret]"] = "as-groups or as-user-extra without as",
            ["as: secret, as-groups: [secret, secret]"] = "several as-groups, which are not supported",
            ["as: secret, as-user-extra: {secret: [secret]}"] = "as-user-extra or several",
            ["as-groups: secret"] = "users[1].user.as-groups must be a list",
            ['token: "secret\\nsecret"'] = "users[1].user.token has control characters",
            ['as: "secret\\x01"'] = "users[1].user.as has control characters",
            ['as: secret, as-groups: ["secret\\r"]'] = ".as-groups has control characters",
            ["exec: secret"] = "users[1].user.exec must be a map",
            ["exec: {args: [secret, 1]}"] = "users[1].user.exec.args[2] must be a string",
            ["exec: {env: [{name: VAR, value: {}}]}"] = "users[1].user.exec.env[1].value must be a string",
            ["tokenFile: \"secret\\0\""] = "users[1].user.tokenFile has a NUL byte",
            ["exec: {command: \"secret\\0\"}"] = "users[1].user.exec.command has a NUL byte",
            ["exec: {args: [\"secret\\0\"]}"] = "users[1].user.exec.args[1] has a NUL byte",
            ["exec: {env: [{name: \"secret\\0\"}]}"] = "users[1].user.exec.env[1].name has a NUL byte",
            ["exec: {env: [{name: VAR, value: \"secret\\0\"}]}"] = "users[1].user.exec.env[1].value has a NUL byte",
            ["exec: {provideClusterInfo: secret}"] = ".exec.provideClusterInfo must be a boolean",
            ["exec: {apiVersion: client.authentication.k8s.io/v1}"] = ".exec.command is missing",
            ["exec: {command: secret, apiVersion: client.authentication.k8s.io/v1alpha1}"] = ".apiVersion must be",
            ["exec: {command: secret, apiVersion: client.authentication.k8s.io/v1}"] = ".interactiveMode is missing",
            ["exec: {command: secret, apiVersion: client.authentication.k8s.io/v1, interactiveMode: secret}"] =
                ".interactiveMode must be Never",
            ["exec: {command: secret, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}"] =
                "there is no terminal",
            ["exec: {command: secret, apiVersion: client.authentication.k8s.io/v1beta1, env: [{value: secret}]}"] =
                ".exec.env[1].name is missing",
        }) do
            local err = assert_refused(words, load(fields))
            assert.is_truthy(err.message:find(place.folder, 1, true), err.message)
            assert.is_nil(err.message:find("secret", 1, true), err.message)
        end
        for fields, words in pairs({
            ["server: 1"] = "clusters[1].cluster.server must be a string",
            ["server: ''"] = "clusters[1].cluster.server is missing",
            ["server: 'ftp://secret'"] = ".server must be an https or http URL",
            ["server: 'https://user:secret@host'"] = ".server must have no user name",
            ["server: 'https://host?secret'"] = ".server must have no user name, query",
            ["server: 'https://secret:0'"] = "clusters[1].cluster.server must have a host, and a port",
            ["server: 'https://secret:65536'"] = ".server must have a host, and a port",
            ["server: 'secret:http'"] = ".server must have a host, and a port",
            ["server: 'https://[::1]:99999'"] = ".server must have a host, and a port",
            ["server: 'https://:1'"] = ".server must have a host, and a port",
            ["server: 'host/secret'"] = ".server must be a URL, or host:port",
            ["insecure-skip-tls-verify: 'true'"] = ".insecure-skip-tls-verify must be a boolean",
            ["insecure-skip-tls-verify: true, certificate-authority: nopem"] = "no PEM",
            ["proxy-url: 'ftp://secret'"] = ".proxy-url must be an http, https or socks5 URL",
            ["certificate-authority: secret"] = ".certificate-authority can't be read: No such file",
            ["tls-server-name: \"secret\\0\""] = "clusters[1].cluster.tls-server-name has a NUL byte",
            ["certificate-authority-data: '*'"] = ".certificate-authority-data is no Base64",
        }) do
            local err = assert_refused(words, load("", fields))
            assert.is_nil(err.message:find("secret", 1, true), err.message)
        end
        scratch.write(pem, CA)
        assert_refused("and insecure-skip-tls-verify", load("",
            "insecure-skip-tls-verify: true, certificate-authority: nopem"))
    end)

    it("refuses files that are none", function()
        for text, words in pairs({
            ["a: [secret"] = ": at line 2, column 1: did not find expected ',' or ']'",
            ["- secret"] = "the file must be a map",
            ["secret"] = "the file must be a map",
            ["apiVersion: v2"] = 'apiVersion must be "v1"',
            ["kind: Secret"] = 'kind must be "Config"',
            ["current-context: 1"] = "current-context must be a string",
            ["current-context: secret"] = "config: current-context: there is no context of that name",
            ["contexts: [{name: secret}]"] = "has no current-context: set it, or give the option context",
            ["contexts: [{name: \"secret\\0\"}]"] = "config: contexts[1].name has a NUL byte",
            ["clusters: {secret: x}"] = "clusters must be a list",
            ["clusters: [secret]"] = "clusters[1] must be a map",
            ["clusters: [{name: [secret]}]"] = "clusters[1].name must be a string",
            ["clusters: [{name: a, cluster: secret}]"] = "clusters[1].cluster must be a map",
            ["users: [{name: a}, {name: b}, {name: a}]"] = "users[3].name is that of an earlier one",
            ["contexts: [{name: a, context: {cluster: secret}}]\ncurrent-context: a"] =
                "contexts[1].context.cluster: there is no cluster of that name",
            ["contexts: [{name: a}]\ncurrent-context: a"] = "contexts[1].context names no cluster",
            ["contexts: [{name: a, context: {cluster: k, user: secret}}]\ncurrent-context: a\n"
                .. "clusters: [{name: k, cluster: {server: 'https://h'}}]"] =
                "contexts[1].context.user: there is no user of that name",
        }) do
            local err = assert_refused(words, k8s.load_kube_config({ path = place:write("config", text) }))
            assert.is_nil(err.message:find("secret", 1, true), err.message)
        end
    end)

    it("shows no secret when it is looked at", function()
        local config = assert(load("token: secret"))
        local seen = {}
        for key, value in pairs(config) do
            seen[key] = value
        end
        assert.same({ server = "https://cluster.example:6443", namespace = "space", context = "c" }, seen)
    end)
end)
