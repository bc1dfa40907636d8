-- How pods start, and why they do not: on the spec server.

local http_server = require "spec.support.http_server"
local k8s = require "chamvi.sandbox.k8s"
local k8s_server = require "spec.support.k8s_server"
local limits = require "chamvi.sandbox.k8s.limits"
local native = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local function waiting(reason, message)
    return {
        phase = "Pending",
        containerStatuses = {
            {
                name = k8s.CONTAINER_NAME,
                ready = false,
                restartCount = 0,
                state = { waiting = { reason = reason, message = message } },
            },
        },
    }
end

local UNSCHEDULABLE = {
    phase = "Pending",
    conditions = {
        {
            type = "PodScheduled",
            status = "False",
            reason = "Unschedulable",
            message = "0/3 nodes are available: 3 Insufficient cpu.",
        },
    },
}

describe("the start of a pod", function()
    local missing = k8s_server.missing()
    if missing then
        it("can be watched", function()
            pending(missing)
        end)
        return
    end

    local server = k8s_server.start()
    local kept = {}
    for name, ms in pairs(limits) do
        kept[name] = ms
    end
    teardown(function()
        server:stop()
    end)
    before_each(function()
        limits.TRIES = 60000
        server:order({ rules = {}, statuses = {}, tokens = { "token" }, forget = true })
    end)
    after_each(function()
        for name, ms in pairs(kept) do
            limits[name] = ms
        end
        assert.same({}, server:state().pods)
    end)

    local left
    local function provider(options)
        left = {}
        local given = {
            namespace = k8s_server.NAMESPACE,
            kube_config = assert(k8s.load_kube_config({ path = server:kubeconfig() })),
            poll_ms = 100,
            on_error = function(err)
                table.insert(left, tostring(err))
            end,
        }
        for name, value in pairs(options or {}) do
            given[name] = value
        end
        return k8s.create_kubernetes_sandbox(given)
    end

    -- A create that has to fail.
    local function fails(code, words, options, request)
        request = request or {}
        request.run_id = "run"
        local workspace, err = provider(options):create(request)
        assert.is_nil(workspace)
        assert.equal(code, err.code, tostring(err))
        for _, word in ipairs(words) do
            assert.is_truthy(err.message:find(word, 1, true), err.message)
        end
        assert.same({}, left)
        return err
    end

    -- A create that works, whatever stands in the way.
    local function works(options)
        local workspace = assert(provider(options):create({ run_id = "run" }))
        assert.equal("ok\n", assert(workspace:exec({ "echo", "ok" })).stdout)
        assert(workspace:dispose())
        assert.same({}, left)
    end

    for index, reason in ipairs(k8s.FATAL_WAITING_REASONS) do
        it("fails at once for " .. reason, function()
            server:order({ statuses = { broken = waiting(reason, "the registry's words") } })
            local code = index <= 5 and "image_unavailable" or "not_ready"
            fails(code, { reason, "the registry's words" }, { image = "broken" })
        end)
    end

    it("fails when no node takes it for a while", function()
        server:order({ statuses = { large = UNSCHEDULABLE } })
        fails("not_ready", { "0/3 nodes are available", "Insufficient cpu" },
            { image = "large", unschedulable_timeout_ms = 300 })
    end)

    it("goes on when a node takes it after a while", function()
        server:order({ statuses = { large = UNSCHEDULABLE } })
        sandbox.run(function()
            local stages = {}
            local task = sandbox.spawn(function()
                local made = provider({ image = "large", on_event = function(event)
                    table.insert(stages, event.message)
                end })
                return made:create({ run_id = "run" })
            end)
            local pods
            repeat
                assert(sandbox.sleep(20))
                pods = server:state().pods
            until #pods == 1 and #stages > 1
            server:order({ run = pods[1].metadata.name })
            local workspace = assert(task:join())
            assert.is_truthy(stages[2]:find("Insufficient cpu", 1, true))
            assert(workspace:dispose())
        end)
    end)

    it("fails when its time is over, and says what it waits for", function()
        server:order({ statuses = { slow = waiting("ContainerCreating", "pulling") } })
        local err
        for _, ms in ipairs({ 300, 3000, 30000 }) do -- on a busy machine nobody has looked by then, and it gets more
            err = fails("not_ready", { ms .. " ms" }, { image = "slow", start_timeout_ms = ms })
            if not err.message:find("has not told", 1, true) then
                break
            end
        end
        assert.is_truthy(err.message:find("ContainerCreating", 1, true), err.message)
        assert.is_truthy(err.message:find("pulling", 1, true), err.message)
    end)

    it("fails when its program ends", function()
        server:order({
            statuses = {
                bad = {
                    phase = "Failed",
                    containerStatuses = {
                        {
                            name = k8s.CONTAINER_NAME,
                            state = { terminated = { exitCode = 1, reason = "Error", message = "no sh" } },
                        },
                    },
                },
            },
        })
        fails("not_ready", { "exit code 1", "no sh" }, { image = "bad" })
    end)

    it("fails when somebody deletes the pod", function()
        server:order({ statuses = { slow = waiting("ContainerCreating") } })
        sandbox.run(function()
            local task = sandbox.spawn(function()
                fails("not_ready", { "deleted" }, { image = "slow" })
            end)
            local pods
            repeat
                assert(sandbox.sleep(20))
                pods = server:state().pods
            until #pods == 1
            assert(k8s.create_pod_client({
                namespace = k8s_server.NAMESPACE,
                kube_config = assert(k8s.load_kube_config({ path = server:kubeconfig() })),
            }):delete(pods[1].metadata.name))
            task:join()
        end)
    end)

    it("fails with the words of a quota or of admission", function()
        server:order({ rules = { { method = "POST", status = 403, body = {
            kind = "Status", status = "Failure", reason = "Forbidden", code = 403,
            message = 'pods "x" is forbidden: exceeded quota: sandboxes, requested: pods=1, limited: pods=10',
        } } } })
        local err = fails("create_failed", { "exceeded quota: sandboxes" })
        assert.equal("refused", err.cause.code)
        server:order({ rules = { { method = "POST", status = 422, body = {
            kind = "Status", status = "Failure", reason = "Invalid", code = 422,
            message = 'Pod "x" is invalid: spec.runtimeClassName: Invalid value',
        } } } })
        fails("create_failed", { "spec.runtimeClassName" })
        assert.equal(2, #server:state().requests) -- nothing is looked for that can't be there
    end)

    local VERBS = {
        POST = { "create", "pods" },
        GET = { "get", "pods" },
        EXEC = { "get", "pods/exec" },
    }
    for method, permission in pairs(VERBS) do
        it("says which permission is missing, for " .. permission[1] .. " " .. permission[2], function()
            server:order({ rules = { { method = method, status = 403, body = {
                kind = "Status", status = "Failure", reason = "Forbidden", code = 403,
                message = ('pods "x" is forbidden: User "someone" cannot %s resource "%s" in API group ""'):format(
                    permission[1], permission[2]),
            } } } })
            local words = 'in the namespace "sandboxes" with the verb "%s" on "%s"'
            fails("forbidden", { words:format(permission[1], permission[2]) })
        end)
    end

    it("says which permission is missing for collection, and for disposal", function()
        local workspace = assert(provider():create({ run_id = "run" }))
        local function body(verb)
            return {
                kind = "Status", status = "Failure", reason = "Forbidden", code = 403,
                message = ('pods is forbidden: User "x" cannot %s resource "pods" in API group ""'):format(verb),
            }
        end
        server:order({ rules = { { method = "GET", path = "labelSelector", status = 403, body = body("list") },
            { method = "DELETE", status = 403, body = body("delete") } } })
        local count, err = provider():collect_garbage()
        assert.is_nil(count)
        assert.equal("forbidden", err.code)
        assert.is_truthy(err.message:find('with the verb "list" on "pods"', 1, true))
        local disposed
        disposed, err = workspace:dispose()
        assert.is_nil(disposed)
        assert.equal("forbidden", err.code)
        assert.is_truthy(err.message:find('with the verb "delete" on "pods"', 1, true))
        server:order({ rules = {} })
        assert.is_true(workspace:dispose())
    end)

    it("fails in a namespace that its credentials are not for", function()
        local err = fails("forbidden", { 'in the namespace "elsewhere"', "create" }, { namespace = "elsewhere" })
        assert.is_truthy(err.detail:find("Forbidden", 1, true))
    end)

    it("is refused without valid credentials, which appear nowhere", function()
        server:order({ tokens = { "another" } })
        local err = fails("forbidden", { "401", "credentials" })
        assert.is_nil((err.message .. err.detail):find("token", 1, true))
    end)

    it("shows no credential that the server repeats", function()
        local token = "s3cr/et+%token"
        local options = { kube_config = assert(k8s.load_kube_config({ path = server:kubeconfig(token) })) }
        server:order({ tokens = { token } })
        for _, method in ipairs({ "POST", "GET", "EXEC" }) do
            limits.CLEAN_UP = method == "POST" and 200 or kept.CLEAN_UP -- there is none that could be found
            local words = "bad field Authorization: Bearer " .. token
            for _, body in ipairs({ words, '{"message":"' .. words:gsub("/", "\\/") .. '"}',
                { kind = "Status", message = words } }) do
                server:order({ rules = { { method = method, path = "/pods", times = 1, status = 400, body = body } } })
                local workspace, err = provider(options):create({ run_id = "run" })
                assert.is_nil(workspace)
                repeat
                    local all = err.message .. (err.detail or "")
                    assert.is_nil(all:find("s3cr", 1, true), all)
                    local cause = err.cause
                    assert.is_truthy(cause or all:find("Authorization: Bearer ***", 1, true), all)
                    err = cause
                until not err
            end
        end
    end)

    it("shows no password that the server repeats, however it writes it", function()
        local password = 's3/&"é ü<5'
        server:order({ tokens = {}, rules = {} })
        local text = scratch.read(server:kubeconfig("x"))
        local path = server.folder .. "/basic"
        scratch.write(path, (text:gsub("token: [^}\n]*", function()
            return ("username: alice, password: '%s'"):format(password)
        end)))
        local options = { kube_config = assert(k8s.load_kube_config({ path = path })) }
        for _, written in ipairs({ 's3\\/&\\"é ü<5', 's3/\\u0026\\u0022\\u00e9 \\u00FC\\u003c5',
            '\\u0073\\u0033/&\\"é ü<5' }) do
            local body = ('{"kind":"Status","message":"alice:%s, \\\\","alice:%s":["\\""]}'):format(written, written)
            server:order({ rules = { { path = "/pods", times = 1, status = 401, body = body } } })
            local workspace, err = provider(options):create({ run_id = "run" })
            assert.is_nil(workspace)
            local cause = err.cause or err
            assert.equal('{"kind":"Status","message":"alice:***, \\\\","alice:***":["\\""]}', cause.detail)
            assert.is_truthy(cause.message:find("says 401: alice:***, \\;", 1, true), cause.message)
        end
    end)

    -- ---- The way to the server -----------------------------------------------------------------

    it("makes one pod, wherever the way to it is cut", function()
        for _, method in ipairs({ "POST", "GET", "DELETE" }) do
            for _, cut in ipairs({ "request", "head", "body" }) do
                for _, carry_out in ipairs({ false, true }) do
                    local rule = { method = method, path = "/pods", times = 1, cut = cut, carry_out = carry_out }
                    server:order({ rules = { rule } })
                    works()
                end
            end
        end
    end)

    it("has its pod when the answer to the create is another success", function()
        for _, status in ipairs({ 200, 202 }) do
            local rule = { method = "POST", path = "/pods$", times = 1, status = status, carry_out = true }
            server:order({ rules = { rule } })
            works()
        end
    end)

    it("leaves no pod where an answer does not say that there is none, or comes too late", function()
        for _, rule in ipairs({
            { status = 408 },
            { status = 418 },
            { status = 302, body = "moved" },
            { status = 400, body = "a proxy's words" },
            { status = 403, body = { kind = "Notice" } },
            { status = 201, body = "no JSON" },
        }) do
            rule.method, rule.path, rule.times, rule.carry_out = "POST", "/pods$", 1, true
            server:order({ rules = { rule } })
            fails("create_failed", {})
        end
        limits.REQUEST = 300
        server:order({ rules = { { method = "POST", path = "/pods$", delay_ms = 800, carry_out = true } } })
        assert.equal("timed_out", fails("create_failed", {}).cause.code)
    end)

    it("tries again when quotas are changed at the same time", function()
        server:order({ rules = { { method = "POST", path = "/pods$", times = 2, status = 409, body = {
            kind = "Status", status = "Failure", reason = "Conflict", code = 409,
            message = 'Operation cannot be fulfilled on resourcequotas "q": the object has been modified',
        } } } })
        works()
    end)

    it("waits as long as it is told to by a server that has too much to do", function()
        for method, status in pairs({ POST = 429, GET = 503, DELETE = 500, EXEC = 429 }) do
            server:order({
                rules = { { method = method, times = 1, status = status, headers = { ["Retry-After"] = "1" } } },
            })
            local began = native.monotonic_ms()
            works()
            assert.is_true(native.monotonic_ms() - began >= 700) -- three quarters, at the least
        end
    end)

    it("gives up on a storm of refusals within its bound, and leaves nothing", function()
        limits.TRIES, limits.CLEAN_UP = 1000, 2000
        server:order({ rules = { { method = "POST", status = 429 } } })
        fails("create_failed", { "429" })
        server:order({ rules = { { method = "GET", path = "/pods/", status = 500 } } })
        fails("create_failed", { "500" })
    end)

    it("tells of a pod that may be left", function()
        limits.TRIES, limits.CLEAN_UP = 300, 1000
        server:order({ rules = { { method = "POST", cut = "request", carry_out = true },
            { method = "DELETE", cut = "request" } } })
        local workspace, err = provider():create({ run_id = "run" })
        assert.is_nil(workspace)
        assert.equal("create_failed", err.code)
        assert.equal("transport_lost", err.cause.code)
        assert.equal(1, #left)
        assert.is_truthy(left[1]:find("may be left", 1, true), left[1])
        server:order({ rules = {} })
        local pods = server:state().pods
        assert.equal(1, #pods)
        -- Any provider collects it, later.
        assert.equal(1, provider({ clock = { now = function()
            return 9e15
        end } }):collect_garbage())
    end)

    it("is collected with others, whatever a command had said in its pod", function()
        assert(provider():create({ run_id = "run" }))
        assert(provider():create({ run_id = "another" }))
        local ended = { name = k8s.CONTAINER_NAME, restartCount = 0,
            state = { terminated = { exitCode = 1, reason = "Error", message = "x\0y" } } }
        local name = server:state().pods[1].metadata.name
        server:order({ pod = name, merge = { status = { containerStatuses = { ended } } } })
        assert.equal(2, provider({ clock = { now = function()
            return 9e15
        end } }):collect_garbage())
        assert.same({}, server:state().pods)
    end)

    it("outlives a server that is away for a while", function()
        server:order({ outage = 1000 })
        works()
    end)

    it("fails at once, as far as pods go, on an address where nothing listens", function()
        limits.TRIES = 1000
        local path = server.folder .. "/nobody"
        scratch.write(path, [[
apiVersion: v1
kind: Config
clusters: [{name: spec, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: spec, user: {token: "token"}}]
contexts: [{name: spec, context: {cluster: spec, user: spec}}]
current-context: spec
]])
        fails("engine_unreachable", { "127.0.0.1:1" }, { kube_config = assert(k8s.load_kube_config({ path = path })) })
    end)

    it("fails when its time is over, also while the server does not answer", function()
        server:order({ rules = { { method = "GET", path = "/pods/", delay_ms = 60000 } } })
        local began = native.monotonic_ms()
        fails("not_ready", { "500 ms", "the API server has not told" }, { start_timeout_ms = 500 })
        assert.is_true(native.monotonic_ms() - began < 30000)
    end)

    it("looks again when a look at the pod, or its deletion, gets no answer", function()
        limits.READ = 1000
        for _, method in ipairs({ "GET", "DELETE" }) do
            server:order({ rules = { { method = method, path = "/pods/", times = 1, delay_ms = 2500 } } })
            works()
        end
    end)

    it("fails at once without credentials or on a certificate that is not trusted, with no pod to look for", function()
        local path = server.folder .. "/broken"
        local function broken(user, address)
            scratch.write(path, ([[
apiVersion: v1
kind: Config
clusters: [{name: spec, cluster: {server: "%s"}}]
users: [{name: spec, user: {%s}}]
contexts: [{name: spec, context: {cluster: spec, user: spec}}]
current-context: spec
]]):format(address or server.url, user))
            return { kube_config = assert(k8s.load_kube_config({ path = path })) }
        end
        local began
        local err = fails("create_failed", { "token file" }, broken('tokenFile: "/nowhere/token"'))
        assert.equal("credentials_failed", err.cause.code)
        assert.same({}, server:state().requests)
        local tls = http_server.start()
        began = native.monotonic_ms()
        err = fails("engine_unreachable", { "not trusted" }, broken("token: x", "https://localhost:" .. tls.ports.tls))
        assert.is_true(native.monotonic_ms() - began < 30000, err.message) -- the tries alone would take twice as long
        tls:stop()
    end)

    it("is aborted promptly at every stage, and leaves nothing", function()
        server:order({ statuses = { slow = waiting("ContainerCreating") } })
        for _, rule in ipairs({
            { method = "POST", delay_ms = 300 },
            { method = "GET", delay_ms = 300 },
            { method = "NONE" },
        }) do
            server:order({ rules = { rule } })
            sandbox.run(function()
                local signal = sandbox.signal()
                local task = sandbox.spawn(function()
                    fails("aborted", {}, { image = "slow" }, { signal = signal })
                end)
                assert(sandbox.sleep(150))
                signal:abort()
                task:join()
            end)
        end
    end)

    it("asks again with the token that has replaced another one on disk", function()
        local token, path = server.folder .. "/token", server.folder .. "/rotating"
        scratch.write(token, "old\n")
        scratch.write(path, ([[
apiVersion: v1
kind: Config
clusters: [{name: spec, cluster: {server: "%s"}}]
users: [{name: spec, user: {tokenFile: "%s"}}]
contexts: [{name: spec, context: {cluster: spec, user: spec}}]
current-context: spec
]]):format(server.url, token))
        server:order({ tokens = { "old" } })
        local made = provider({ kube_config = assert(k8s.load_kube_config({ path = path })) })
        local workspace = assert(made:create({ run_id = "run" }))
        scratch.write(token, "new\n")
        server:order({ tokens = { "new" } })
        assert.equal("ok\n", assert(workspace:exec({ "echo", "ok" })).stdout)
        assert(workspace:dispose())
    end)
end)
