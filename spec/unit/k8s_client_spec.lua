-- What the pod client checks before it asks for anything, and what becomes of a client of the user's own that fails.

local apis = require "chamvi.sandbox.k8s.api"
local clients = require "chamvi.sandbox.k8s.client"
local errors = require "chamvi.sandbox.errors"
local k8s = require "chamvi.sandbox.k8s"
local limits = require "chamvi.sandbox.k8s.limits"
local native = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"

local LABELS = {
    ["app.kubernetes.io/managed-by"] = "chamvi",
    ["app.kubernetes.io/component"] = "sandbox",
    ["chamvi.dev/workspace"] = "x",
}

describe("a pod client", function()
    local requests
    local client = clients.new({
        request = function(_, method, path)
            table.insert(requests, method .. " " .. path)
            return { status = 404, json = {} }
        end,
        failure = function()
            return errors.sandbox("not_found", "not found")
        end,
    })
    before_each(function()
        requests = {}
    end)

    local function refused(code, value, err)
        assert.is_nil(value)
        assert.is_true(sandbox.is_error(err, "ValidationError"), tostring(err))
        assert.equal(code, err.code)
        assert.same({}, requests)
    end

    it("takes no name that is none: it would mean all pods", function()
        for _, name in ipairs({ "", ".", "..", "a/b", "x\0y", "ü", "A", "-a", ("a"):rep(254), 1, {}, false }) do
            refused("invalid_input", client:read(name))
            refused("invalid_input", client:delete(name))
            refused("invalid_input", client:exec(name, { argv = { "true" } }))
            refused("invalid_input", client:create({ metadata = { name = name } }))
        end
        refused("invalid_input", client:read())
        refused("invalid_input", client:create({}))
        refused("invalid_input", client:create())
        refused("invalid_input", client:list())
        assert.is_true(client:delete("a.b-c.1"))
        assert.same({ "DELETE /pods/a.b-c.1?gracePeriodSeconds=0" }, requests)
    end)

    it("ends a list whose pages go in a circle", function()
        local pages = 0
        local circle = clients.new({
            request = function()
                pages = pages + 1
                assert(pages < 100)
                return { status = 200, json = { items = {}, metadata = { continue = pages % 2 == 0 and "a" or "b" } } }
            end,
        })
        local pods, err = circle:list("a=b")
        assert.is_nil(pods)
        assert.equal("engine_failed", err.code)
        assert.is_truthy(err.message:find("circle", 1, true), err.message)
    end)

    it("counts the time of the tries, and gives each what is left", function()
        local kept, clock = limits.TRIES, native.monotonic_ms
        finally(function()
            limits.TRIES, native.monotonic_ms = kept, clock
        end)
        local function again()
            return true
        end
        local times, now = {}, 0
        limits.TRIES = 1500
        function native.monotonic_ms()
            return now
        end
        sandbox.run(function()
            apis.patiently(nil, 5000, function(timeout_ms)
                table.insert(times, timeout_ms)
                now = now + #times * 600
                return nil, errors.sandbox("transport_lost", "cut")
            end, again)
        end)
        assert.equal(2, #times)
        assert.equal(5000, times[1])
        assert.equal(1000, times[2])
    end)

    it("takes no command that a workspace would not take", function()
        for _, argv in ipairs({ {}, { "" }, { "a", 1 }, { "a", "b\0c" }, { [2] = "a" }, "true", 7 }) do
            refused("invalid_argv", client:exec("x", { argv = argv }))
        end
        refused("invalid_argv", client:exec("x", {}))
        refused("invalid_input", client:exec("x"))
        refused("invalid_stdin", client:exec("x", { argv = { "true" }, stdin = 7 }))
    end)
end)

describe("a client of the user's own", function()
    local kept = limits.CLEAN_UP
    local there, left
    before_each(function()
        there, left = {}, {}
    end)
    after_each(function()
        limits.CLEAN_UP = kept
    end)

    local function provider(operations)
        local client = {
            create = function(_, pod)
                there[pod.metadata.name] = true
                return pod
            end,
            read = function()
                return { metadata = { uid = "u" }, status = { phase = "Running", containerStatuses = { {
                    name = k8s.CONTAINER_NAME, ready = true, state = { running = {} },
                } } } }
            end,
            delete = function(_, name)
                local found = there[name] ~= nil
                there[name] = nil
                return true, nil, found
            end,
            list = function()
                return {}
            end,
            exec = function()
                return nil, errors.sandbox("transport_lost", "no exec here")
            end,
        }
        for name, operation in pairs(operations) do
            client[name] = operation
        end
        return k8s.create_kubernetes_sandbox({ namespace = "x", client = client, poll_ms = 10, on_error = function(err)
            table.insert(left, err)
        end })
    end

    local function fails(words, operations)
        local workspace, err = provider(operations):create({ run_id = "run" })
        assert.is_nil(workspace)
        assert.equal("create_failed", err.code, tostring(err))
        assert.is_truthy(err.message:find(words, 1, true), err.message)
        assert.is_nil(next(there))
        return err
    end

    local function boom()
        error("boom", 0)
    end

    it("that raises leaves no pod", function()
        assert.equal("boom", fails("`read` raised: boom", { read = boom }).cause.cause)
        fails("boom", { exec = boom })
        fails("`create` raised: boom", { create = function(_, pod)
            there[pod.metadata.name] = true
            error("boom", 0)
        end })
        assert.same({}, left)
    end)

    it("that gives neither a pod nor an error leaves no pod", function()
        local function nothing() end
        local function oops()
            return nil, "oops"
        end
        local function text()
            return "x"
        end
        fails("neither", { read = nothing })
        fails("`read` failed: oops", { read = oops })
        fails("`read` gave a string", { read = text })
        fails("neither", { exec = nothing })
        fails("oops", { exec = oops })
        assert.same({}, left)
        limits.CLEAN_UP = 200 -- nobody waits for what may still come
        fails("neither", { create = nothing })
        fails("oops", { create = oops })
        fails("`create` gave a string", { create = text })
    end)

    it("whose pods are nonsense leaves no pod", function()
        for _, pod in ipairs({ {}, { metadata = "x", status = "y" }, { status = { phase = {} } },
            { status = { containerStatuses = { "x" } } } }) do
            local signal = sandbox.signal()
            local workspace, err
            sandbox.run(function()
                local job = sandbox.spawn(function()
                    workspace, err = provider({ read = function()
                        return pod
                    end }):create({ run_id = "run", signal = signal })
                end)
                sandbox.sleep(100)
                signal:abort()
                job:join()
            end)
            assert.is_nil(workspace)
            assert.is_true(sandbox.is_error(err), tostring(err))
            assert.is_nil(next(there))
        end
    end)

    it("tells on_error of a pod that may still come, and of one that can't be removed", function()
        local function lost()
            return nil, errors.sandbox("transport_lost", "cut")
        end
        limits.CLEAN_UP = 200
        fails("cut", { create = lost })
        assert.equal(1, #left)
        assert.equal("remove_failed", left[1].code)
        assert.is_truthy(left[1].message:find("nobody knows whether it was made", 1, true), left[1].message)
        local workspace = provider({ read = boom, delete = boom }):create({ run_id = "run" })
        assert.is_nil(workspace)
        assert.equal(2, #left)
        assert.is_truthy(left[2].message:find("boom", 1, true), left[2].message)
    end)

    it("has its answers for a collection looked at", function()
        local function collected(operations)
            local count, err = provider(operations):collect_garbage()
            assert.is_nil(count)
            return err
        end
        assert.equal("engine_failed", collected({ list = boom }).code)
        assert.equal("engine_failed", collected({ list = function() end }).code)
        local asked = {}
        local err = collected({
            list = function()
                local pods = {}
                for _, name in ipairs({ "", "..", "fine" }) do
                    local annotations = { ["chamvi.dev/expires-at"] = "1" }
                    table.insert(pods, { metadata = { name = name, labels = LABELS, annotations = annotations } })
                end
                for _, text in ipairs({ "0x10", " 1", "-inf", "1e3", 5, "" }) do
                    local annotations = { ["chamvi.dev/expires-at"] = text }
                    table.insert(pods, { metadata = { name = "no-time", labels = LABELS, annotations = annotations } })
                end
                return pods
            end,
            delete = function(_, name)
                table.insert(asked, name)
                return true
            end,
        })
        assert.equal("gc_failed", err.code)
        assert.equal(1, err.count)
        assert.same({ "fine" }, asked)
    end)
end)
