-- Commands in pods, and what can go wrong with them: on the spec server.

local k8s = require "chamvi.sandbox.k8s"
local k8s_server = require "spec.support.k8s_server"
local limits = require "chamvi.sandbox.k8s.limits"
local sandbox = require "chamvi.sandbox"
local support = require "spec.support.local_workspace"

local MB = ("0123456789abcdef"):rep(65536)

local function sh(script, ...)
    return { "sh", "-c", script, "sh", ... }
end

for _, version in ipairs({ "v5", "v4" }) do
    describe("a command in a pod, by " .. version .. ",", function()
        local missing = k8s_server.missing()
        if missing then
            it("can be run", function()
                pending(missing)
            end)
            return
        end

        local server = k8s_server.start()
        server:order({ protocols = { version .. ".channel.k8s.io" } })
        local kube_config = assert(k8s.load_kube_config({ path = server:kubeconfig() }))
        local provider = k8s.create_kubernetes_sandbox({ namespace = k8s_server.NAMESPACE, kube_config = kube_config })
        local client = k8s.create_pod_client({ namespace = k8s_server.NAMESPACE, kube_config = kube_config })
        local kept = {}
        for name, ms in pairs(limits) do
            kept[name] = ms
        end
        teardown(function()
            server:stop()
        end)

        local workspace, name
        before_each(function()
            limits.TRIES = 60000
            workspace = assert(provider:create({ run_id = "run" }))
            name = k8s.POD_NAME_PREFIX .. workspace.id
            server:order({ rules = {}, forget = true })
        end)
        after_each(function()
            server:order({ rules = {} })
            assert(workspace:dispose())
            assert.same({}, server:state().pods)
            for key, ms in pairs(kept) do
                limits[key] = ms
            end
        end)

        -- A fault of the next exec, once.
        local function fault(exec)
            server:order({ rules = { { method = "EXEC", times = 1, exec = exec } } })
        end

        local function works()
            assert.equal("ok\n", assert(workspace:exec({ "echo", "ok" })).stdout)
            assert.is_false(workspace.disposed)
        end

        -- The outcome must be unknown. Returns the error.
        local function is_lost(result, err)
            assert.is_nil(result)
            assert.equal("transport_lost", err.code, tostring(err))
            return err
        end

        it("gets 5 MB of stdin and gives it back byte for byte", function()
            local bytes = {}
            for byte = 0, 255 do
                bytes[byte + 1] = string.char(byte)
            end
            local stdin = table.concat(bytes):rep(20000)
            local chunks = {}
            local result = assert(workspace:exec({ "cat" }, {
                stdin = stdin,
                on_output = function(_, chunk)
                    table.insert(chunks, chunk)
                end,
            }))
            assert.equal(0, result.exit_code)
            assert.is_true(table.concat(chunks) == stdin)
        end)

        it("gets no stdin, or an empty one, and ends", function()
            for _, stdin in ipairs({ false, "" }) do
                local result = assert(workspace:exec({ "cat" }, { stdin = stdin or nil }))
                assert.equal(0, result.exit_code)
                assert.equal("", result.stdout)
            end
        end)

        it("is run through the client with its exit code, and its output in sinks", function()
            local text = { stdout = "", stderr = "" }
            local function sink(stream)
                return {
                    write = function(_, chunk)
                        text[stream] = text[stream] .. chunk
                    end,
                }
            end
            local result = assert(client:exec(name, {
                argv = sh("echo out; echo err >&2; cat; exit 7"),
                stdin = "in",
                stdout = sink("stdout"),
                stderr = sink("stderr"),
            }))
            assert.same({ exit_code = 7 }, result)
            assert.same({ stdout = "out\nin", stderr = "err\n" }, text)
            local ok, cause = pcall(client.exec, client, name, { argv = { "echo", "x" }, stdout = {
                write = function()
                    error("on purpose", 0)
                end,
            } })
            assert.is_false(ok)
            assert.equal("on purpose", cause)
        end)

        it("may have arguments that no URL holds and that are no text", function()
            local long = ("x"):rep(100000)
            local script = "printf %s \"$1$2\" | tr -d x | wc -c; printf %s \"$1$2\" | wc -c"
            local count = assert(workspace:exec(sh(script, long, long)))
            assert.equal("0\n200000\n", count.stdout)
            local result = assert(workspace:exec({ "printf", "%s", "a\255b'c\nd\n" }))
            assert.equal("a\239\191\189b'c\nd\n", result.stdout)
        end)

        it("is not started when its arguments are too long together", function()
            local argv = { "true" }
            for index = 2, 60 do
                argv[index] = ("x"):rep(100000)
            end
            for _, stdin in ipairs({ false, "in" }) do
                local result, err = workspace:exec(argv, { stdin = stdin or nil })
                assert.is_nil(result)
                assert.equal("start_failed", err.code, tostring(err))
                assert.is_truthy(err.message:find("Argument list too long", 1, true), err.message)
            end
            works()
        end)

        it("counts as lost when it kills the shells around it", function()
            is_lost(workspace:exec(sh("kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat); sleep 1")))
            works()
        end)

        it("counts as lost when the connection is cut, at any stage", function()
            for _, rule in ipairs({ { cut = "request" }, { cut = "head" } }) do
                rule.method, rule.times = "EXEC", 1
                server:order({ rules = { rule } })
                is_lost(workspace:exec({ "true" }))
            end
            fault({ output_bytes = 0 })
            is_lost(workspace:exec({ "echo", "x" }))
            fault({ output_bytes = 200000 })
            local err = is_lost(workspace:exec(sh("echo begun; yes | head -c 1000000")))
            assert.is_truthy(err.partial.stdout:find("^begun\ny\n"))
            fault({ stdin_bytes = 100000 })
            is_lost(workspace:exec({ "cat" }, { stdin = MB }))
            works()
        end)

        it("counts as lost when the stream ends without a status", function()
            fault({ status = sandbox.null })
            is_lost(client:exec(name, { argv = { "true" } }))
        end)

        it("ends soon after its status where the server does not close", function()
            for _, stays in ipairs({ "silent", "loud" }) do
                fault({ stays = stays })
                assert.same({ exit_code = 0 }, client:exec(name, { argv = { "true" } }))
                fault({ stays = stays })
                assert.same({ exit_code = 7 }, client:exec(name, { argv = sh("exit 7") }))
                fault({ stays = stays, status = '{"status":"Failure","reason":"InternalError","message":"x"}' })
                is_lost(client:exec(name, { argv = { "true" } }))
                fault({ stays = stays, status = "nonsense" })
                is_lost(client:exec(name, { argv = { "true" } }))
                fault({ stays = stays })
                assert.equal("ok\n", assert(workspace:exec({ "echo", "ok" })).stdout:sub(1, 3))
            end
        end)

        it("counts as lost when the status is nonsense", function()
            for _, status in ipairs({ "", "{", "[]", "0", '{"status":"Failure"}',
                '{"status":"Failure","reason":"NonZeroExitCode"}',
                '{"status":"Failure","reason":"NonZeroExitCode",'
                    .. '"details":{"causes":[{"reason":"ExitCode","message":"x"}]}}' }) do
                fault({ status = status })
                is_lost(client:exec(name, { argv = { "true" } }))
            end
        end)

        it("shows no credential that the status repeats", function()
            fault({ status = '{"status":"Failure","reason":"InternalError","message":"no ' .. server.token .. '"}' })
            local err = is_lost(client:exec(name, { argv = { "true" } }))
            assert.is_truthy(err.message:find("InternalError: no ***", 1, true), err.message)
        end)

        it("has its status whole when that comes in many frames", function()
            fault({ fragments = 20 })
            local result = assert(client:exec(name, { argv = sh("exit 9") }))
            assert.equal(9, result.exit_code)
            fault({ fragments = 7 })
            assert.equal("ok\n", assert(workspace:exec({ "echo", "ok" })).stdout)
        end)

        it("counts as lost when a proxy cuts the silence", function()
            fault({ idle_ms = 300 })
            is_lost(workspace:exec({ "sleep", "1000" }))
            works()
        end)

        it("is silent for long behind such a proxy when pings come more often", function()
            -- Counted instead of timed: such a proxy looks at nothing else.
            limits.PING = 100
            sandbox.run(function()
                local task = sandbox.spawn(workspace.exec, workspace,
                    sh("until [ -e go ]; do sleep 0.05; done; echo done"))
                local pings = 0
                support.wait_until(function()
                    pings = server:state().pings
                    return pings >= 10
                end, "pings")
                limits.PING = kept.PING
                assert(workspace:write_file("go", ""))
                assert.equal("done\n", assert(task:join()).stdout)
            end)
        end)

        it("ends within its bound in a storm of refusals, and has not run", function()
            limits.TRIES = 500
            server:order({ rules = { { method = "EXEC", status = 429, headers = { ["Retry-After"] = "1" } } } })
            local result, err = workspace:exec({ "touch", "ran" })
            assert.is_nil(result)
            assert.equal("transport_lost", err.code, tostring(err))
            assert.is_truthy(err.message:find("429", 1, true), err.message)
            server:order({ rules = {} })
            assert.equal("file_not_found", select(2, workspace:read_file("ran")).code)
            server:order({ rules = { { method = "DELETE", status = 429 } } })
            local disposed
            disposed, err = workspace:dispose()
            assert.is_nil(disposed)
            assert.is_truthy(err.message:find("429", 1, true), err.message)
            server:order({ rules = {} })
        end)

        it("is not run when the server speaks none of the protocols, or no WebSocket", function()
            server:order({ protocols = { "channel.k8s.io" } })
            local result, err = workspace:exec({ "touch", "ran" })
            server:order({ protocols = { version .. ".channel.k8s.io" } })
            assert.is_nil(result)
            assert.equal("forbidden", err.code)
            for _, exec in ipairs({ { protocol = "v6.channel.k8s.io" }, { accept = "c3RyYW5nZXI=" } }) do
                fault(exec)
                is_lost(workspace:exec({ "true" }))
            end
            assert.equal("file_not_found", select(2, workspace:read_file("ran")).code)
        end)

        it("is not run again, whatever became of it", function()
            for _, rule in ipairs({
                { cut = "request" },
                { cut = "head" },
                { status = 500 },
                { status = 503 },
                { exec = { output_bytes = 0 } },
                { exec = { status = sandbox.null } },
            }) do
                rule.method, rule.times = "EXEC", 1
                server:order({ forget = true, rules = { rule } })
                client:exec(name, { argv = { "true" } })
                assert.equal(1, #server:state().requests)
            end
        end)

        it("is run once a server has time for it", function()
            server:order({ rules = { { method = "EXEC", times = 1, status = 429 } } })
            works()
        end)

        it("counts as lost when the server goes away, and the workspace outlives that", function()
            sandbox.run(function()
                local task = sandbox.spawn(workspace.exec, workspace, { "sleep", "1000" })
                repeat
                    assert(sandbox.sleep(20))
                until server:state().execs == 1
                server:order({ outage = 500 })
                is_lost(task:join())
                works()
            end)
        end)

        -- Runs a command and calls `act` once it runs.
        local function while_running(act)
            local err
            sandbox.run(function()
                local begun = false
                local task = sandbox.spawn(workspace.exec, workspace, sh("echo begun; sleep 1000"), {
                    on_output = function()
                        begun = true
                    end,
                })
                support.wait_until(function()
                    return begun
                end, "the command runs")
                limits.EVIDENCE = 60000
                act()
                err = is_lost(task:join())
            end)
            return err
        end

        local ENDS = {
            evicted = { phase = "Failed", reason = "Evicted", message = "The node was low on resource: memory." },
            oom_killed = {
                phase = "Failed",
                containerStatuses = {
                    {
                        name = k8s.CONTAINER_NAME,
                        restartCount = 0,
                        -- The message may be the command's own words: it can write to /dev/termination-log.
                        state = { terminated = { exitCode = 137, reason = "OOMKilled", message = "x\0y" } },
                    },
                },
            },
            expired = { phase = "Failed", reason = "DeadlineExceeded" },
            node_lost = { phase = "Failed", reason = "NodeLost", message = "Node x is unresponsive" },
        }
        for code, status in pairs(ENDS) do
            it("ends with its pod, which says why: " .. code, function()
                local err = while_running(function()
                    server:order({ pod = name, merge = { status = status } })
                    server:order({ kill = name })
                end)
                assert.equal(code, err.cause.code)
                assert.equal("begun\n", err.partial.stdout)
                assert.is_true(workspace.disposed)
                assert.equal("gone", select(2, workspace:exec({ "true" })).code)
            end)
        end

        it("ends with its pod, which is deleted", function()
            local err = while_running(function()
                assert(client:delete(name))
            end)
            assert.equal("deleted", err.cause.code)
            assert.is_true(workspace.disposed)
        end)

        it("is not run in a pod that has ended, and the error says how that ended", function()
            server:order({ kill = name })
            repeat
                assert(sandbox.sleep(20))
            until server:state().pods[1].status.phase == "Failed"
            server:order({ pod = name, merge = { status = ENDS.evicted } })
            local result, err = workspace:exec({ "true" })
            assert.is_nil(result)
            assert.equal("gone", err.code, tostring(err))
            assert.is_truthy(err.message:find("low on resource", 1, true), err.message)
            assert.equal("evicted", err.cause.code)
        end)

        it("is gone with a pod that was replaced, or whose container was started again", function()
            for _, merge in ipairs({ { metadata = { uid = "another" } }, { status = { containerStatuses = { {
                name = k8s.CONTAINER_NAME, ready = true, restartCount = 1, state = { running = {} },
            } } } } }) do
                limits.IDENTITY = 60000
                local other = assert(provider:create({ run_id = "other" }))
                server:order({ pod = k8s.POD_NAME_PREFIX .. other.id, merge = merge })
                local result, err = other:exec({ "true" })
                assert.is_nil(result)
                assert.equal("gone", err.code)
                assert.is_true(other.disposed)
                assert(other:dispose())
            end
        end)

        it("runs on a node that does not report, and is lost without an end of the pod when it is", function()
            server:order({ pod = name, merge = { status = { conditions = { { type = "Ready", status = "False" } } } } })
            works()
            fault({ output_bytes = 0 })
            local err = is_lost(workspace:exec({ "echo", "x" }))
            assert.equal("node_lost", err.cause.code)
            server:order({ rules = { { method = "EXEC", times = 1, status = 500, body = "error dialing backend" } } })
            is_lost(workspace:exec({ "true" }))
            works()
        end)
    end)
end
