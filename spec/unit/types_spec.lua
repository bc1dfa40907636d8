-- Holds the definitions under types/ against the sources and against what is there at run time.

local definitions = require "spec.support.definitions"
local docker = require "chamvi.sandbox.docker"
local errors = require "chamvi.sandbox.errors"
local host = require "chamvi.sandbox.host"
local k8s = require "chamvi.sandbox.k8s"
local local_sandbox = require "chamvi.sandbox.local"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"
local workspace_tools = require "chamvi.sandbox.workspace_tools"

local LIBRARY = "lua/chamvi/sandbox/"
local LOCAL = "providers/local/init.lua"
local KUBECONFIG = "providers/k8s/kubeconfig.lua"
local K8S = "providers/k8s/init.lua"
local DOCKER = "providers/docker/init.lua"

local function files(folder, name)
    local list = {}
    for path in scratch.shell(("LC_ALL=C find %s -name '%s'"):format(folder, name)):gmatch("[^\n]+") do
        table.insert(list, path)
    end
    assert(#list > 0, folder)
    return list
end

local function text_of(paths)
    local texts = {}
    for _, path in ipairs(paths) do
        table.insert(texts, scratch.read(path))
    end
    return table.concat(texts, "\n")
end

local TYPES = files("types", "*.lua")

-- Much plain Lua, which no sanitizer looks into.
describe("the definitions #unsanitized", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })
    local declared = definitions.read(TYPES)

    local function assert_declared(class, ...)
        assert.same({}, definitions.differences(declared, class, { ... }))
    end

    it("are Lua", function()
        for _, path in ipairs(TYPES) do
            assert.equal("table", type(assert(loadfile(path))()), path)
        end
    end)

    it("declare every type that they name", function()
        assert.same({}, definitions.undeclared_types(declared, text_of(TYPES)))
    end)

    describe("have all that is there, and nothing else, of", function()
        it("the modules", function()
            assert_declared("chamvi.sandbox", sandbox)
            assert_declared("chamvi.sandbox.local", local_sandbox)
            assert_declared("chamvi.sandbox.k8s", k8s)
            assert_declared("chamvi.sandbox.docker", docker)
            assert_declared("chamvi.sandbox.host", host)
            assert_declared("chamvi.sandbox.tools", sandbox.tools)
        end)

        it("a host adapter", function()
            -- What an adapter may have.
            local given = { serve = print, forbids_waiting = print, guard = print, log = print }
            for name, fn in pairs(host.current()) do
                given[name] = fn
            end
            assert_declared("chamvi.HostAdapter", given)
        end)

        it("the limits", function()
            assert_declared("chamvi.Limits", sandbox.DEFAULT_LIMITS)
        end)

        it("a provider, a workspace and its info", function()
            local repository = scratch.repository(place.folder .. "/repository")
            assert_declared("chamvi.LocalProvider", place.provider())
            assert_declared("chamvi.DockerProvider", docker.create_docker_sandbox())
            assert_declared("chamvi.KubernetesProvider", k8s.create_kubernetes_sandbox({ namespace = "x" }))
            place.with(function(workspace)
                assert_declared("chamvi.Workspace", workspace)
                assert_declared("chamvi.WorkspaceInfo", workspace.info)
            end, { repo = repository.url, ref = "main" })
        end)

        it("a result", function()
            place.with(function(workspace)
                local exited = assert(workspace:exec({ "true" }))
                local signaled = assert(workspace:exec({ "sh", "-c", "kill -KILL $$" }))
                local timed_out = assert(workspace:exec({ "sleep", "60" }, { timeout_ms = 1 }))
                assert_declared("chamvi.ExecResult", exited, signaled, timed_out)
            end)
        end)

        it("an error", function()
            place.with(function(workspace)
                local _, definition = pcall(sandbox.parse_cpu, "")
                local _, validation = sandbox.check_git_ref("")
                local _, raised = workspace:exec({ "echo", "x" }, { on_output = error })
                local _, lost = workspace:exec({ "sh", "-c", "echo x; kill -KILL $PPID; sleep 60" })
                local incomplete = errors.sandbox("gc_failed", "message", { count = 1, detail = "detail" })
                assert_declared("chamvi.Error", definition, validation, raised, lost, incomplete)
                assert_declared("chamvi.PartialOutput", lost.partial)
            end)
        end)

        it("a manager, its hooks and a bound run", function()
            local manager = sandbox.create_workspace_manager({ provider = place.provider() })
            assert_declared("chamvi.WorkspaceManager", manager)
            assert_declared("chamvi.RunHooks", manager:hooks())
            manager:with_run("run", function(run)
                assert_declared("chamvi.BoundRun", run)
            end)
            manager:close()
        end)

        it("tools and their results", function()
            local given = workspace_tools({
                acquire = function()
                    return { id = "id", info = { repo = "https://example.com/a", expires_at = 0 } }, false
                end,
                release = function()
                    return true
                end,
            }, "run")
            assert_declared("chamvi.WorkspaceTools", given)
            assert_declared("chamvi.WorkspaceToolResult", given.create_workspace.execute({}))
            assert_declared("chamvi.DisposeWorkspaceResult", given.dispose_workspace.execute({ workspace = "id" }))
        end)

        it("a signal, a task and a loop", function()
            local signal, aborted = sandbox.signal(), sandbox.signal()
            aborted:abort("reason")
            assert_declared("chamvi.Signal", signal, aborted)
            local task = sandbox.spawn(sandbox.sleep, 0)
            assert_declared("chamvi.Task", task)
            task:join()
            assert_declared("chamvi.Task", task)
            assert_declared("chamvi.Loop", sandbox.loop())
        end)

        it("a kubeconfig", function()
            local path = place.folder .. "/config"
            scratch.write(path, [[
current-context: c
contexts: [{name: c, context: {cluster: k}}]
clusters: [{name: k, cluster: {server: "https://localhost"}}]
]])
            assert_declared("chamvi.KubeConfig", assert(k8s.load_kube_config({ path = path })))
        end)

        it("a client for pods", function()
            assert_declared("chamvi.PodClient", k8s.create_pod_client({ namespace = "x" }))
        end)

        it("a collector", function()
            assert_declared("chamvi.OutputCollector", sandbox.create_output_collector(1))
        end)

        local option_tables = {
            ["chamvi.ExecOptions"] = { LIBRARY .. "exec_request.lua", "EXEC_OPTIONS" },
            ["chamvi.NormalizeRepoOptions"] = { LIBRARY .. "rules.lua", "NORMALIZE_OPTIONS" },
            ["chamvi.RemoteOptions"] = { LIBRARY .. "remote.lua", "REMOTE_OPTIONS" },
            ["chamvi.LocalOptions"] = { LOCAL, "PROVIDER_OPTIONS" },
            ["chamvi.CreateOptions"] = { LIBRARY .. "provider.lua", "CREATE_OPTIONS" },
            ["chamvi.DockerOptions"] = { DOCKER, "PROVIDER_OPTIONS" },
            ["chamvi.DockerHost"] = { DOCKER, "HOST_OPTIONS" },
            ["chamvi.RegistryAuth"] = { DOCKER, "AUTH_OPTIONS" },
            ["chamvi.WorkspaceManagerOptions"] = { LIBRARY .. "manager.lua", "MANAGER_OPTIONS" },
            ["chamvi.AcquireOptions"] = { LIBRARY .. "manager.lua", "ACQUIRE_OPTIONS" },
            ["chamvi.KubeConfigOptions"] = { KUBECONFIG, "OPTIONS" },
            ["chamvi.PodClientOptions"] = { K8S, "CLIENT_OPTIONS" },
            ["chamvi.KubernetesOptions"] = { K8S, "PROVIDER_OPTIONS" },
            ["chamvi.OpenAIOptions"] = { LIBRARY .. "tools.lua", "OPENAI_OPTIONS" },
            ["chamvi.CloseOptions"] = { LIBRARY .. "manager.lua", "CLOSE_OPTIONS" },
        }
        for class, from in pairs(option_tables) do
            it("the options " .. class, function()
                local checked = scratch.read(from[1]):match("local " .. from[2] .. " = (%b{})")
                local names, fields = {}, {}
                for name in checked:gsub("%b()", ""):gmatch("([%w_]+) = [%a_]") do
                    names[name] = true
                end
                for name in pairs(declared.classes[class].members) do
                    fields[name] = true
                end
                assert.is_truthy(next(names))
                assert.same(names, fields)
            end)
        end

        it("the error codes", function()
            local library = text_of(files("lua providers", "*.lua"))
            local native = text_of(files("src", "*.[ch]"))
            local readme = scratch.read("README.md")
            local codes = {}
            for code in declared.aliases["chamvi.ErrorCode"]:gmatch('"([^"]+)"') do
                codes[code] = true
                assert.is_truthy((library .. native):find('"' .. code .. '"', 1, true), code .. ": nobody uses it")
                assert.is_truthy(readme:find("`" .. code .. "`", 1, true), code .. ": not in the README")
            end

            -- Never given to users: they become other codes.
            codes.record_locked, codes.invalid_yaml = true, true
            local function used(text, pattern)
                local count = 0
                for code in text:gmatch(pattern) do
                    count = count + 1
                    assert.is_true(codes[code], code .. ": not declared")
                end
                assert.is_true(count > 0, pattern)
            end
            used(library, 'errors%.[%w_]+%("([%w_]+)"')
            used(native, 'cv_err_%a+%([^,"]+, "([%w_]+)"')
            used(native, 'X%([%u_]+, %d+, "([%w_]+)"%)')
            used(readme:match("\n## Errors\n(.-)\n## "), "`([%l]+_[%l_]+)`")
        end)
    end)

    describe("agree with the sources in", function()
        local sources = definitions.read(files("lua providers", "*.lua"))

        it("the classes", function()
            -- Their functions are local ones of the constructors.
            for class, path in pairs({
                ["chamvi.LocalProvider"] = LOCAL,
                ["chamvi.DockerProvider"] = DOCKER,
                ["chamvi.KubernetesProvider"] = K8S,
            }) do
                local functions = definitions.read({ path }).functions
                local provider = sources.classes[class].members
                provider.create, provider.collect_garbage = functions.create_workspace, functions.collect_garbage
            end
            for class in pairs(declared.classes) do
                if sources.classes[class] then
                    assert.same({}, definitions.disagreements(declared, sources, class))
                end
            end
        end)

        -- By class and name, where the sources call it otherwise.
        local elsewhere = {
            ["chamvi.sandbox"] = {
                create_remote_workspace = { LIBRARY .. "remote.lua", nil, "return" },
                create_workspace_manager = { LIBRARY .. "manager.lua", nil, "create_workspace_manager" },
                is_error = { LIBRARY .. "errors.lua", "errors", "is_error" },
                null = { LIBRARY .. "init.lua", "sandbox", "null" },
                prepare_workspace = { LIBRARY .. "prepare.lua", nil, "return" },
                signal = { LIBRARY .. "signal.lua", "signals", "new" },
            },
            ["chamvi.sandbox.local"] = { create_local_sandbox = { LOCAL, "local_sandbox", "create_local_sandbox" } },
            ["chamvi.sandbox.docker"] = { create_docker_sandbox = { DOCKER, "docker", "create_docker_sandbox" } },
            ["chamvi.sandbox.k8s"] = {},
            ["chamvi.sandbox.host"] = {},
            ["chamvi.sandbox.tools"] = {},
        }
        for _, name in ipairs({ "run", "spawn", "all", "sleep", "async", "loop" }) do
            elsewhere["chamvi.sandbox"][name] = { LIBRARY .. "host/scheduler.lua", "chamvi.Scheduler", name }
        end
        for name in pairs(definitions.read({ LIBRARY .. "rules.lua" }).classes.rules.members) do
            elsewhere["chamvi.sandbox"][name] = { LIBRARY .. "rules.lua", "rules", name }
        end
        for name in pairs(definitions.read({ LIBRARY .. "host/init.lua" }).classes.host.members) do
            elsewhere["chamvi.sandbox.host"][name] = { LIBRARY .. "host/init.lua", "host", name }
        end

        for name in pairs(definitions.read({ K8S }).classes.k8s.members) do
            elsewhere["chamvi.sandbox.k8s"][name] = { K8S, "k8s", name }
        end
        for name in pairs(definitions.read({ LIBRARY .. "tools.lua" }).classes.tools.members) do
            elsewhere["chamvi.sandbox.tools"][name] = { LIBRARY .. "tools.lua", "tools", name }
        end

        it("the functions of the modules, each of which is described there", function()
            for class, names in pairs(elsewhere) do
                for name, from in pairs(names) do
                    local found = definitions.read({ from[1] })
                    local source = from[2] and found.classes[from[2]].members[from[3]] or found.functions[from[3]]
                    local member = assert(declared.classes[class].members[name], name)
                    assert.same({}, definitions.function_disagreements(name, member, source))
                end
            end
            for class in pairs(elsewhere) do
                for name, member in pairs(declared.classes[class].members) do
                    assert.is_true(elsewhere[class][name] ~= nil or member.kind == "field", name)
                end
            end
        end)
    end)
end)

describe("the check of the definitions", function()
    local text = [[
        --- Words.
        ---@class chamvi.Thing
        ---@field size integer words | more words
        ---@field kind? "big"|"small"
        ---@field part chamvi.Part
        ---@field list? string[]
        ---@field call fun(text: string, n?: integer): string?, chamvi.Part words
        local Thing = {}
        Thing.LIMIT = 3

        ---@class chamvi.Part
        ---@field map table<string, boolean>
        ---@field pair { a: integer, b?: string }|nil words

        --- Does it.
        ---@param how string
        ---   in which way
        function Thing:act(how) end
    ]]
    local declared = definitions.parse(text)

    local function thing(changes)
        local result = {
            size = 1,
            kind = "big",
            part = { map = { yes = true }, pair = { a = 1 } },
            list = { "x" },
            call = print,
            LIMIT = 3,
            _private = 1,
        }
        for name, value in pairs(changes or {}) do
            result[name] = value
        end
        return setmetatable(result, { __index = { act = print } })
    end

    local function differences(changes)
        return definitions.differences(declared, "chamvi.Thing", { thing(changes) })
    end

    it("finds nothing where there is nothing", function()
        assert.same({}, differences())
        assert.same({}, differences({ kind = "small", part = { map = {}, pair = { a = 1, b = "x" } } }))
    end)

    it("finds what is not declared, and what is not there", function()
        assert.same({ "chamvi.Thing.more: not declared, a string" }, differences({ more = "x" }))
        local without = thing()
        without.size, without.kind = nil, nil
        assert.same({
            "chamvi.Thing.kind: never there",
            "chamvi.Thing.size: declared as integer, is missing",
            "chamvi.Thing.size: never there",
        }, definitions.differences(declared, "chamvi.Thing", { without }))
        assert.same({ "chamvi.Thing.size: declared as integer, is missing" },
            definitions.differences(declared, "chamvi.Thing", { thing(), without }))
    end)

    it("finds wrong types and values, also inside", function()
        local wrong = {
            { size = 1.5 },
            { size = "1" },
            { kind = "huge" },
            { part = "x" },
            { part = { map = { yes = 1 } } },
            { part = { map = { true } } },
            { part = { map = {}, pair = { b = "x" } } },
            { part = { map = {}, pair = { a = 1, b = 2 } } },
            { part = { map = {}, other = 1 } },
            { list = { 1 } },
            { call = {} },
            { act = true },
            { LIMIT = 4 },
            { LIMIT = "3" },
        }
        for index, changes in ipairs(wrong) do
            assert.equal(1, #differences(changes), index)
        end
    end)

    it("finds what the sources say otherwise", function()
        local function disagreements(from, to)
            local start, stop = text:find(from, 1, true)
            local other = definitions.parse(text:sub(1, start - 1) .. to .. text:sub(stop + 1))
            return #definitions.disagreements(declared, other, "chamvi.Thing")
        end
        assert.equal(0, disagreements("Does it", "Does  it"))
        assert.equal(0, disagreements("act(how)", "act(how)"))
        assert.equal(1, disagreements("Does it", "Does this"))
        assert.equal(1, disagreements("how string", "how number"))
        assert.equal(1, disagreements("act(how)", "act(how, when)"))
        assert.equal(1, disagreements("more words", "other words"))
        assert.equal(1, disagreements("size integer", "size? integer"))
        assert.equal(2, disagreements("size integer", "length integer"))
        assert.equal(1, disagreements("function Thing:act", "function Thing:play"))
    end)

    it("finds types that nobody declares", function()
        assert.same({}, definitions.undeclared_types(declared, text))
        assert.same({ "chamvi.Other" }, definitions.undeclared_types(declared, text .. "---@param x chamvi.Other\n"))
    end)
end)
