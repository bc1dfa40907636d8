-- Faults of the manager that attacks from outside have found, one spec each.

local compat = require "chamvi.sandbox.compat"
local managed = require "spec.support.managed"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"
local written_to_stderr = require "spec.support.stderr"

local function raise()
    error("raised by a metamethod", 0)
end

-- Can be printed, indexed and compared by nobody.
local function untouchable()
    return setmetatable({}, { __tostring = raise, __index = raise })
end

-- A manager over a provider whose create does that.
local function manager_over(create, collect_garbage)
    local told = {}
    local manager = sandbox.create_workspace_manager({
        provider = {
            name = "spec",
            create = create,
            collect_garbage = collect_garbage or function()
                return 0
            end,
        },
        gc_interval_ms = 0,
        on_error = function(err)
            table.insert(told, err)
        end,
    })
    return manager, told
end

local function workspace_with(fields)
    local workspace = { id = "ws", info = { expires_at = 1e15 }, disposed = false }
    for name, value in pairs(fields) do
        workspace[name] = value
    end
    return workspace
end

describe("a provider's create", function()
    -- What acquire answers, and that nothing of the create is left behind that release would wait for.
    local function failure_of(create)
        local manager, told = manager_over(create)
        local workspace, err = manager:acquire("run")
        assert.is_nil(workspace)
        assert.equal("create_failed", err.code)
        assert.is_true(manager:release("run"))
        assert.is_true(manager:close())
        assert.same({}, told)
        return err.message
    end

    it("may fail with what can't be printed", function()
        assert.equal("the provider's create raised: a table", failure_of(function()
            error(untouchable())
        end))
        assert.equal("the provider's create failed: a table", failure_of(function()
            return nil, untouchable()
        end))
    end)

    it("may return what can't be read", function()
        assert.equal(
            "the provider's create returned what is no workspace: raised by a metamethod",
            failure_of(untouchable)
        )
    end)

    local MALFORMED = {
        ["it has no `id`"] = { id = 5 },
        ["it has no `info.expires_at`"] = { info = {} },
    }

    it("has what is no workspace disposed, before acquire returns", function()
        for wrong, fields in pairs(MALFORMED) do
            local disposed = 0
            function fields.dispose()
                sandbox.sleep(1)
                disposed = disposed + 1
                return true
            end
            assert.equal("the provider's create returned what is no workspace: " .. wrong, failure_of(function()
                return workspace_with(fields)
            end))
            assert.equal(1, disposed)
        end
    end)

    it("has a workspace disposed whose expiry is no number at all", function()
        local disposed = false
        failure_of(function()
            return workspace_with({
                info = { expires_at = 0 / 0 },
                dispose = function()
                    disposed = true
                    return true
                end,
            })
        end)
        assert.is_true(disposed)
    end)

    it("has on_error told when what is no workspace can't be disposed", function()
        local manager, told = manager_over(function()
            return workspace_with({
                info = {},
                dispose = function()
                    error("still there", 0)
                end,
            })
        end)
        assert.equal("create_failed", select(2, manager:acquire("run")).code)
        assert.equal(1, #told)
        assert.equal("remove_failed", told[1].code)
        assert.equal("the workspace that create returned could not be disposed: still there", told[1].message)
        manager:close()
    end)

    it("has what is no workspace disposed also when it comes too late", function()
        local disposed, go_on = false, false
        local manager, told = manager_over(function()
            while not go_on do
                sandbox.sleep(1)
            end
            return workspace_with({
                info = {},
                dispose = function()
                    disposed = true
                    return true
                end,
            })
        end)
        sandbox.run(function()
            local acquire = sandbox.spawn(manager.acquire, manager, "run")
            sandbox.sleep(1)
            local release = sandbox.spawn(manager.release, manager, "run")
            sandbox.sleep(1)
            go_on = true
            assert.is_true(release:join())
            assert.is_true(disposed)
            assert.equal("released", select(2, acquire:join()).code)
        end)
        assert.equal(1, #told)
        assert.equal("create_failed", told[1].code)
        manager:close()
    end)
end)

describe("a workspace's dispose", function()
    it("may fail with what can't be printed", function()
        for _, dispose in ipairs({
            function()
                error(untouchable())
            end,
            function()
                return nil, untouchable()
            end,
        }) do
            local manager, told = manager_over(function()
                return workspace_with({ dispose = dispose })
            end)
            assert(manager:acquire("run"))
            local released, err = manager:release("run", "ws")
            assert.is_nil(released)
            assert.equal("the workspace ws could not be disposed: a table", err.message)
            assert.is_true(manager:release("run"))
            assert.equal(1, #told)
        end
    end)
end)

describe("a provider's collection", function()
    it("may fail with what can't be printed", function()
        local manager = manager_over(raise, function()
            error(untouchable())
        end)
        local count, err = manager:collect_garbage()
        assert.is_nil(count)
        assert.equal("gc_failed", err.code)
    end)

    it("has failed when it returns no count", function()
        for _, wrong in ipairs({ 0 / 0, -1, 1.5, 1 / 0, "3", true }) do
            local manager = manager_over(raise, function()
                return wrong
            end)
            local count, err = manager:collect_garbage()
            assert.is_nil(count)
            assert.equal("gc_failed", err.code)
            assert.equal(0, err.count)
        end
    end)
end)

describe("what is raised to nobody", function()
    it("is reported also when it can't be printed", function()
        local lines = written_to_stderr(function()
            local signal = sandbox.signal()
            signal:on_abort(function()
                error(untouchable())
            end)
            signal:abort()
            sandbox.async(function() end, function()
                error(untouchable())
            end)
            sandbox.run(function()
                sandbox.spawn(function()
                    error(untouchable())
                end)
            end)
            local manager = sandbox.create_workspace_manager({
                provider = {
                    create = function()
                        return workspace_with({
                            dispose = function()
                                return nil, "stuck"
                            end,
                        })
                    end,
                    collect_garbage = raise,
                },
                gc_interval_ms = 0,
                on_error = function()
                    error(untouchable())
                end,
            })
            assert(manager:acquire("run"))
            manager:release("run")
        end)
        assert.same({
            "chamvi.sandbox: an abort listener failed: a table",
            "chamvi.sandbox: the callback of async failed: a table",
            "chamvi.sandbox: a task failed and nobody joined it: a table",
            "chamvi.sandbox: on_error failed: a table; it was called for: "
                .. "SandboxError: the workspace ws could not be disposed: stuck",
        }, lines)
    end)
end)

describe("a manager", function()
    it("closes with every time limit that close takes", function()
        local manager, place = managed.new()
        function place.fake.plan_dispose()
            return { "turns", 2 }
        end
        assert(manager:acquire("run"))
        assert.is_true(manager:close({ timeout_ms = 2 ^ 53 }))
        place.fake:assert_nothing_left()
    end)

    it("stays unsubscribed from an engine that closes it while it subscribes", function()
        local manager = managed.new()
        local subscribed = 0
        local unsubscribe = manager:attach({
            on = function()
                subscribed = subscribed + 1
                manager:close()
                return function()
                    subscribed = subscribed - 1
                end
            end,
        })
        assert.equal(0, subscribed)
        unsubscribe()
        assert.equal(0, subscribed)
    end)

    it("waits for no create that found no stack to begin on", function()
        local manager = manager_over(function(_, request)
            return workspace_with({
                id = request.run_id,
                dispose = function()
                    return true
                end,
            })
        end)
        local function nest(depth, fn, ...)
            if depth == 0 then
                return fn(...)
            end
            return pcall(nest, depth - 1, fn, ...)
        end
        for depth = 100, 200 do -- of C calls; Lua 5.4 allows 200
            local run = "run " .. depth
            nest(depth, pcall, manager.acquire, manager, run)
            assert.equal(run, assert(manager:acquire(run)).id)
        end
        assert.is_true(manager:close())
    end)

    it("has hooks that never raise, whatever the event", function()
        local manager, place = managed.new()
        manager:hooks().completed(untouchable())
        assert.equal(1, #place.errors)
        assert.equal("invalid_input", place.errors[1].code)
        manager:close()
    end)
end)

describe("an aborted create of a local workspace", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    it("is reported when what it had made could not be removed", function()
        local probe = "cd " .. place.folder .. " && touch i && chattr +i i 2>&1 && chattr -i i || echo no"
        if scratch.shell(probe):find("no") then
            pending("this file system has no immutable files")
            return
        end
        local bin, ready = place.folder .. "/bin", place.folder .. "/ready"
        scratch.shell("mkdir " .. bin)
        scratch.write(bin .. "/git",
            ("#!/bin/sh\ntouch fixed && chattr +i fixed && pwd > %s\nexec sleep 60\n"):format(ready))
        scratch.shell("chmod +x " .. bin .. "/git")
        local told = {}
        local manager = sandbox.create_workspace_manager({
            provider = place.provider({ env = { PATH = bin .. ":/usr/bin:/bin" } }),
            limits = { timeout_ms = 1 },
            gc_interval_ms = 0,
            on_error = function(err)
                table.insert(told, err)
            end,
        })
        sandbox.run(function()
            local signal = sandbox.signal()
            local acquire = sandbox.spawn(manager.acquire, manager, "run", { signal = signal })
            local folder
            support.wait_until(function()
                folder = (scratch.read(ready) or ""):match("^(.*)\n")
                return folder
            end, "a create under way")
            signal:abort("changed my mind")
            assert.equal("aborted", select(2, acquire:join()).code)
            manager:release("run") -- waits for the create
            scratch.shell(("chattr -i %s/fixed"):format(folder))
        end)
        assert.equal(1, #told)
        assert.equal("create_failed", told[1].code)
        assert.equal("aborted", told[1].cause.code)
        assert.is_truthy(told[1].message:find("changed my mind", 1, true))
        assert.is_truthy(told[1].message:find("could not be removed", 1, true))
        assert.equal(1, manager:collect_garbage())
        assert.same({}, scratch.list(place.root))
        manager:close()
    end)
end)

if jit then
    return -- coroutine.close came with Lua 5.4
end

describe("when the coroutine of a task is closed", function()
    it("with_run releases its run", function()
        local manager, place = managed.new()
        sandbox.run(function()
            local thread
            local task = sandbox.spawn(function()
                thread = coroutine.running()
                manager:with_run("run", function(run)
                    assert(run:acquire())
                    sandbox.sleep(60000)
                end)
            end)
            managed.settle()
            assert.same({ 1 }, place.fake:alive())
            assert.is_true(coroutine.close(thread))
            managed.settle()
            place.fake:assert_nothing_left()
            assert.same({ n = 2, nil, "the coroutine of the task was closed" }, compat.pack(task:join()))
        end)
        assert.same({}, place.errors)
        manager:close()
    end)

    it("an acquire that waited counts as left", function()
        local manager, place = managed.new()
        place.fake.plan_create = managed.wait
        sandbox.run(function()
            local thread
            local task = sandbox.spawn(function()
                thread = coroutine.running()
                manager:acquire("run")
            end)
            managed.settle()
            assert.equal(1, #place.fake:waiting().creates)
            assert.is_true(coroutine.close(thread))
            managed.settle()
            place.fake:assert_nothing_left()
            task:join()
        end)
        manager:close()
    end)
end)
