-- The body of a workspace's pod, and the names in it.

local constants = require "chamvi.sandbox.constants"
local k8s = require "chamvi.sandbox.k8s"
local names = require "chamvi.sandbox.k8s.names"
local native = require "chamvi.sandbox.core"
local pod = require "chamvi.sandbox.k8s.pod"
local sandbox = require "chamvi.sandbox"

local ID = "6f1ed002-ab5f-4a31-8b0c-0123456789ab"

local function body(more)
    local given = {
        id = ID,
        run_id = "run-1",
        image = "image",
        env = { A = "1" },
        limits = sandbox.resolve_limits({ cpu = "500m", memory = "1Gi", storage = "3Gi", timeout_ms = 60500 }),
        expires_at = 1234567890123,
        start_timeout_ms = 120000,
        image_pull_policy = "IfNotPresent",
    }
    for name, value in pairs(more or {}) do
        given[name] = value
    end
    return pod.body(given)
end

describe("the body of a pod", function()
    it("is JSON", function()
        assert.is_string(native.json_encode(body()))
    end)

    it("has its name, its labels and its annotations", function()
        local metadata = body({ labels = { team = "blue", [constants.RUN_LABEL] = "mine" } }).metadata
        assert.equal(k8s.POD_NAME_PREFIX .. ID, metadata.name)
        assert.same({
            ["app.kubernetes.io/managed-by"] = "chamvi",
            ["app.kubernetes.io/component"] = "sandbox",
            ["chamvi.dev/run"] = "run-1",
            ["chamvi.dev/workspace"] = ID,
            team = "blue",
        }, metadata.labels)
        assert.same({
            ["chamvi.dev/expires-at"] = "1234567890123",
            ["chamvi.dev/run"] = "run-1",
        }, metadata.annotations)
    end)

    it("has a run's id in the label when it may be there, and else what identifies it", function()
        for _, id in ipairs({ "r", "Run_1.x", ("a"):rep(63) }) do
            assert.equal(id, body({ run_id = id }).metadata.labels[constants.RUN_LABEL])
        end
        for _, id in ipairs({ "", "-r", "r-", "a b", "a/b", "é", ("a"):rep(64) }) do
            local metadata = body({ run_id = id }).metadata
            assert.matches("^%x+$", metadata.labels[constants.RUN_LABEL])
            assert.equal(native.sha256(id):sub(1, 32), metadata.labels[constants.RUN_LABEL])
            assert.equal(id, metadata.annotations[constants.RUN_LABEL])
        end
    end)

    -- https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted, line by line.
    it("passes the restricted Pod Security Standard", function()
        local spec = body().spec
        for _, name in ipairs({ "hostNetwork", "hostPID", "hostIPC" }) do
            assert.is_nil(spec[name])
        end
        for _, volume in ipairs(spec.volumes) do
            assert.is_table(volume.emptyDir)
        end
        assert.is_true(spec.securityContext.runAsNonRoot)
        assert.equal(1000, spec.securityContext.runAsUser)
        assert.equal(1000, spec.securityContext.runAsGroup)
        assert.same({ type = "RuntimeDefault" }, spec.securityContext.seccompProfile)
        for _, name in ipairs({ "seLinuxOptions", "sysctls", "windowsOptions" }) do
            assert.is_nil(spec.securityContext[name])
        end
        assert.is_nil(spec.initContainers)
        assert.equal(1, #spec.containers)
        assert.same({
            allowPrivilegeEscalation = false,
            capabilities = { drop = { "ALL" } },
            privileged = false,
            readOnlyRootFilesystem = true,
            runAsNonRoot = true,
            seccompProfile = { type = "RuntimeDefault" },
        }, spec.containers[1].securityContext)
        assert.is_nil(spec.containers[1].ports)
    end)

    it("asks for what the limits say, and for nothing of the cluster's", function()
        local spec = body({ runtime_class_name = "gvisor" }).spec
        local amounts = { cpu = "500m", memory = "1Gi", ["ephemeral-storage"] = "3Gi" }
        assert.same({ requests = amounts, limits = amounts }, spec.containers[1].resources)
        assert.equal("3Gi", spec.volumes[1].emptyDir.sizeLimit)
        assert.same({ medium = "Memory", sizeLimit = constants.TMP_SIZE }, spec.volumes[2].emptyDir)
        assert.equal(181, spec.activeDeadlineSeconds)
        assert.equal("Never", spec.restartPolicy)
        assert.is_false(spec.automountServiceAccountToken)
        assert.is_false(spec.enableServiceLinks)
        assert.equal("gvisor", spec.runtimeClassName)
        local long = sandbox.resolve_limits({ timeout_ms = 2 ^ 53 })
        assert.equal(2147483647, body({ limits = long }).spec.activeDeadlineSeconds)
    end)

    it("has variables that nothing is replaced in", function()
        assert.same({ { name = "A", value = "$$(B) $$$$ $$" }, { name = "B", value = "b" } },
            body({ env = { B = "b", A = "$(B) $$ $" } }).spec.containers[1].env)
        for _, argument in ipairs(body().spec.containers[1].args) do
            assert.is_nil(argument:gsub("%$%$", ""):find("$", 1, true))
        end
    end)
end)

describe("overrides", function()
    local function with(overrides)
        return body({ overrides = overrides })
    end

    it("are merged field by field, lists of names by their names, other lists as a whole", function()
        local given = {
            metadata = { labels = { team = "blue" }, annotations = { note = "x" } },
            spec = {
                nodeSelector = { disk = "fast" },
                tolerations = { { key = "sandbox", operator = "Exists" } },
                priorityClassName = "low",
                containers = {
                    { name = "sandbox", resources = { requests = { cpu = "10m" } } },
                    { name = "sidecar", image = "x" },
                },
                volumes = { { name = "cache", emptyDir = {} } },
            },
        }
        local before = assert(native.json_encode(given))
        local made = with(given)
        assert.equal("blue", made.metadata.labels.team)
        assert.equal("run-1", made.metadata.labels[constants.RUN_LABEL])
        assert.equal("x", made.metadata.annotations.note)
        assert.same({ disk = "fast" }, made.spec.nodeSelector)
        assert.same({ { key = "sandbox", operator = "Exists" } }, made.spec.tolerations)
        assert.equal(2, #made.spec.containers)
        assert.equal("10m", made.spec.containers[1].resources.requests.cpu)
        assert.equal("500m", made.spec.containers[1].resources.limits.cpu)
        assert.is_table(made.spec.containers[1].securityContext)
        assert.equal("sidecar", made.spec.containers[2].name)
        assert.equal(3, #made.spec.volumes)
        assert.equal(before, assert(native.json_encode(given)))
        assert.equal(1, #body().spec.containers)
    end)

    local function refused(overrides, words)
        local ok, err = pcall(k8s.create_kubernetes_sandbox, { namespace = "x", pod_overrides = overrides })
        assert.is_false(ok, words)
        assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), tostring(err))
        assert.is_truthy(err.message:find(words, 1, true), err.message)
    end

    local function taken(overrides)
        assert.is_table(k8s.create_kubernetes_sandbox({ namespace = "x", pod_overrides = overrides }))
        return with(overrides)
    end

    it("may not switch profiles off by annotations", function()
        for _, name in ipairs({
            "container.seccomp.security.alpha.kubernetes.io/sandbox",
            "container.apparmor.security.beta.kubernetes.io/sandbox",
            "seccomp.security.alpha.kubernetes.io/pod",
        }) do
            refused({ metadata = { annotations = { [name] = "unconfined" } } }, '"metadata.annotations.' .. name)
        end
        taken({ metadata = { annotations = { ["security.example.com/x"] = "y", ["a.kubernetes.io/security"] = "y" } } })
    end)

    it("may have the volumes that stay in the cluster's own objects", function()
        for _, kind in ipairs({ "hostPath", "nfs", "iscsi", "image", "gitRepo", "flexVolume" }) do
            refused({ spec = { volumes = { { name = "v", [kind] = { path = "/" } } } } }, "spec.volumes[1]." .. kind)
        end
        refused({ spec = { volumes = { { name = "workspace", emptyDir = sandbox.null, hostPath = {} } } } }, "hostPath")
        refused({ spec = { volumes = { { emptyDir = {} } } } }, "must have a name")
        local function projected(source)
            return { spec = { volumes = { { name = "v", projected = { sources = { source } } } } } }
        end
        refused(projected({ serviceAccountToken = { path = "t" } }),
            '"spec.volumes[1].projected.sources[1].serviceAccountToken"')
        taken(projected({ secret = { name = "s" } }))
        for _, kind in ipairs({ "configMap", "secret", "emptyDir", "persistentVolumeClaim", "csi", "ephemeral",
            "downwardAPI" }) do
            taken({ spec = { volumes = { { name = "v", [kind] = {} } } } })
        end
    end)

    it("may not take away what limits a workspace", function()
        local null = sandbox.null
        local function own(fields)
            fields.name = "sandbox"
            return { spec = { containers = { fields } } }
        end
        refused(own({ resources = null }), '"spec.containers[1].resources": it must be a table')
        refused(own({ resources = { limits = null } }), '"spec.containers[1].resources.limits": it must be a table')
        for _, name in ipairs({ "cpu", "memory", "ephemeral-storage" }) do
            for _, amount in ipairs({ null, "900Gi" }) do
                refused(own({ resources = { limits = { [name] = amount } } }),
                    ('"spec.containers[1].resources.limits.%s", which is one of the option `limits`'):format(name))
            end
        end
        refused(own({ volumeMounts = null }), '"spec.containers[1].volumeMounts": it must be a list')
        refused(own({ volumeMounts = { { mountPath = "/x" } } }), "spec.containers[1].volumeMounts[1]")
        for _, name in ipairs({ "workspace", "tmp" }) do
            refused(own({ volumeMounts = { { name = name, readOnly = true } } }), ('has the mount "%s"'):format(name))
            refused({ spec = { volumes = { { name = name, emptyDir = { sizeLimit = "900Gi" } } } } },
                ('has the volume "%s"'):format(name))
            refused({ spec = { volumes = { { name = name, emptyDir = null } } } }, ('has the volume "%s"'):format(name))
        end
        refused({ spec = { volumes = null } }, '"spec.volumes": it must be a list')
        refused({ spec = { containers = null } }, '"spec.containers": it must be a list')
        for _, path in ipairs({ "/workspace", "/workspace/", "//tmp", "/x/../tmp/.", "tmp" }) do
            refused(own({ volumeMounts = { { name = "v", mountPath = path } } }),
                '"spec.containers[1].volumeMounts[1].mountPath"')
        end
        local made = taken(own({
            resources = { requests = { cpu = "10m" }, limits = { ["example.com/gpu"] = 1 } },
            volumeMounts = { { name = "v", mountPath = "/workspace/cache" }, { name = "v", mountPath = "/cache" } },
        })).spec.containers[1]
        assert.same({ cpu = "500m", memory = "1Gi", ["ephemeral-storage"] = "3Gi", ["example.com/gpu"] = 1 },
            made.resources.limits)
        assert.equal(4, #made.volumeMounts)
        -- Another container's are its own.
        taken({ spec = { containers = { { name = "more", resources = { limits = { memory = "2Gi" } },
            volumeMounts = { { name = "workspace", mountPath = "/workspace" } } } } } })
    end)

    it("may add containers as far as the restricted standard goes, and those pass it", function()
        local wrong = {
            { "privileged", true }, { "allowPrivilegeEscalation", true }, { "runAsNonRoot", false }, { "runAsUser", 0 },
            { "capabilities", { add = { "SYS_ADMIN" } } }, { "capabilities", { drop = { "KILL" } } },
            { "capabilities", { drop = {} } }, { "seccompProfile", { type = "Unconfined" } },
            { "appArmorProfile", { type = "Unconfined" } }, { "procMount", "Unmasked" },
            { "seLinuxOptions", { type = "spc_t" } }, { "windowsOptions", {} },
        }
        for _, list in ipairs({ "containers", "initContainers" }) do
            for _, field in ipairs(wrong) do
                local container = { name = "more", image = "x", securityContext = { [field[1]] = field[2] } }
                refused({ spec = { [list] = { container } } }, ("spec.%s[1].securityContext.%s"):format(list, field[1]))
            end
            local made = taken({ spec = { [list] = { { name = "more", image = "x", securityContext = {
                capabilities = { add = { "NET_BIND_SERVICE" } }, runAsUser = 7, seccompProfile = { type = "Localhost" },
            } }, { name = "bare", image = "x" } } } }).spec[list]
            assert.same({
                allowPrivilegeEscalation = false,
                capabilities = { add = { "NET_BIND_SERVICE" }, drop = { "ALL" } },
                runAsNonRoot = true,
                runAsUser = 7,
                seccompProfile = { type = "Localhost" },
            }, made[#made - 1].securityContext)
            assert.same({ drop = { "ALL" } }, made[#made].securityContext.capabilities)
            assert.is_true(made[#made].securityContext.runAsNonRoot)
        end
    end)

    it("may not have containers that reach the node's own network", function()
        for _, name in ipairs({ "sandbox", "more" }) do
            local function container(fields)
                fields.name = name
                return { spec = { containers = { fields } } }
            end
            refused(container({ ports = { { hostPort = 1 } } }), "spec.containers[1].ports[1].hostPort")
            refused(container({ livenessProbe = { httpGet = { host = "x" } } }), "livenessProbe.httpGet.host")
            taken(container({ ports = { { containerPort = 1 } }, readinessProbe = { tcpSocket = { port = 1 } } }))
        end
        local hook = { preStop = { tcpSocket = { host = "x" } } }
        refused({ spec = { containers = { { name = "more", lifecycle = hook } } } }, "lifecycle.preStop.tcpSocket.host")
    end)

    it("that are empty change nothing", function()
        assert.same(body(), with({ spec = { containers = {}, volumes = {} }, metadata = {} }))
    end)

    it("may not name what makes a pod a workspace", function()
        local cyclic = {}
        cyclic.spec = { a = cyclic }
        local wrong = {
            [{ kind = "Job" }] = '"kind"',
            [{ metadata = { name = "x" } }] = '"metadata.name"',
            [{ metadata = { namespace = "x" } }] = '"metadata.namespace"',
            [{ metadata = { labels = { ["chamvi.dev/run"] = "x" } } }] = '"metadata.labels.chamvi.dev/run"',
            [{ metadata = { labels = { ["app.kubernetes.io/managed-by"] = "x" } } }] = "managed-by",
            [{ metadata = { annotations = { ["chamvi.dev/expires-at"] = "x" } } }] = "chamvi.dev/expires-at",
            [{ spec = { securityContext = {} } }] = '"spec.securityContext"',
            [{ spec = { hostNetwork = true } }] = '"spec.hostNetwork"',
            [{ spec = { shareProcessNamespace = true } }] = '"spec.shareProcessNamespace"',
            [{ spec = { restartPolicy = "Always" } }] = '"spec.restartPolicy"',
            [{ spec = { containers = { { name = "sandbox", securityContext = {} } } } }] =
                '"spec.containers[1].securityContext"',
            [{ spec = { containers = { { name = "a" }, { name = "sandbox", args = {} } } } }] =
                '"spec.containers[2].args"',
            [{ spec = { containers = { { name = "sandbox", image = "x" } } } }] = "option `image`",
            [{ spec = 7 }] = "must be a table, got a number",
            [{ metadata = { labels = "x" } }] = "must be a table, got a string",
            [{ spec = { containers = { "x" } } }] = "must be a table, got a string",
            [{ spec = { containers = { { image = "x" } } } }] = "must have a name",
            [{ "x" }] = "must have names, but is a list",
            [{ metadata = { "x" } }] = '"metadata": it must have names',
            [{ metadata = { labels = { "x" } } }] = '"metadata.labels": it must have names',
            [{ spec = { { hostNetwork = true } } }] = '"spec": it must have names',
            [{ spec = sandbox.null }] = "must be a table, got a userdata",
            [{ spec = { containers = { a = {} } } }] = '"spec.containers": it must be a list',
            [{ spec = { containers = { nil, { name = "sandbox" } } } }] = "no JSON form",
            [{ spec = { priority = 0 / 0 } }] = "no JSON form",
            [cyclic] = "no JSON form",
            [{ metadata = { finalizers = { "a.b/c" } } }] = '"metadata.finalizers"',
            [{ spec = { automountServiceAccountToken = true } }] = '"spec.automountServiceAccountToken"',
            [{ spec = { enableServiceLinks = true } }] = '"spec.enableServiceLinks"',
        }
        for overrides, words in pairs(wrong) do
            refused(overrides, words)
        end
    end)
end)

describe("the options of the provider", function()
    it("are checked when it is made, which contacts nothing", function()
        local function refused(options, words)
            local ok, err = pcall(k8s.create_kubernetes_sandbox, options)
            assert.is_false(ok)
            assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), tostring(err))
            assert.is_truthy(err.message:find(words, 1, true), err.message)
        end
        refused({}, '"namespace" is missing')
        for _, namespace in ipairs({ "", "A", "a/b", "-a", "a-", ("a"):rep(64), 7 }) do
            refused({ namespace = namespace }, '"namespace"')
        end
        refused({ namespace = "x", pod_labels = { ["chamvi.dev/run"] = "x" } }, "chamvi.dev/run")
        refused({ namespace = "x", pod_labels = { ["a b"] = "x" } }, "a b")
        refused({ namespace = "x", pod_labels = { a = "x y" } }, "no label may have: a")
        refused({ namespace = "x", pod_labels = { a = 7 } }, "no label may have: a")
        refused({ namespace = "x", pod_labels = { "a" } }, "no label may have: 1")
        refused({ namespace = "x", image_pull_policy = "Never" }, '"IfNotPresent" or "Always"')
        refused({ namespace = "x", kube_config = {} }, "load_kube_config")
        refused({ namespace = "x", client = { create = print } }, "must be a client")
        refused({ namespace = "x", poll_ms = 0 }, "poll_ms")
        refused({ namespace = "x", start_timeout_ms = 1.5 }, "start_timeout_ms")
        refused({ namespace = "x", env = { A = "\255" } }, "A")
        refused({ namespace = "x", colour = "red" }, "colour")
        local ok, err = pcall(k8s.create_pod_client, { namespace = "X" })
        assert.is_false(ok)
        assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"))
        local provider = k8s.create_kubernetes_sandbox({ namespace = "x" })
        assert.equal("k8s", provider.name)
    end)

    it("may have a client of the user's own, whose pods are as told", function()
        local seen = {}
        local client = {
            create = function(_, made)
                seen.made = made
                return nil, sandbox.is_error and require("chamvi.sandbox.errors").sandbox("refused", "no"), false
            end,
            read = print,
            delete = print,
            list = function(_, selector)
                seen.selector = selector
                return {}
            end,
            exec = print,
        }
        local provider = k8s.create_kubernetes_sandbox({
            namespace = "x",
            client = client,
            pod_labels = { team = "blue" },
            image = "i",
        })
        local workspace, err = provider:create({ run_id = "r", image = "other", env = { X = "y" } })
        assert.is_nil(workspace)
        assert.equal("create_failed", err.code)
        assert.equal("other", seen.made.spec.containers[1].image)
        assert.equal("blue", seen.made.metadata.labels.team)
        assert.equal(0, provider:collect_garbage())
        assert.equal("app.kubernetes.io/managed-by=chamvi,app.kubernetes.io/component=sandbox", seen.selector)
    end)
end)

describe("names", function()
    it("are those that Kubernetes takes", function()
        for _, key in ipairs({ "a", "a.b/c", "example.com/A_b.c-d", ("a"):rep(63) }) do
            assert.is_true(names.is_label_key(key), key)
        end
        for _, key in ipairs({ "", "/a", "a/", "A.b/c", "a/b/c", "-a", "a b", ("a"):rep(64), "a..b/c", 7 }) do
            assert.is_false(names.is_label_key(key), tostring(key))
        end
        for _, value in ipairs({ "", "a", "A_b.c-d", ("a"):rep(63) }) do
            assert.is_true(names.is_label_value(value), value)
        end
        for _, value in ipairs({ "-", "a b", "a/b", ("a"):rep(64), "é", 7 }) do
            assert.is_false(names.is_label_value(value), tostring(value))
        end
    end)
end)
