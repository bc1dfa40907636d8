-- The manager on the provider.

local assert = require "luassert"
local sandbox = require "chamvi.sandbox"

return function(kit)
    local target, proves, fails = kit.target, kit.proves, kit.fails
    local url = target.repository.url

    -- Calls `use(manager, place)` with a new manager, and closes it however that ends.
    local function managed(use, options)
        local place = { errors = {}, time = os.time() * 1000 }
        local clock = {
            now = function()
                return place.time
            end,
        }
        local given = {
            provider = target.provider({ clock = clock }),
            clock = clock,
            allow_file_repos = true,
            gc_interval_ms = 0,
            on_error = function(err)
                table.insert(place.errors, tostring(err))
            end,
        }
        for name, value in pairs(options or {}) do
            given[name] = value
        end
        local manager = sandbox.create_workspace_manager(given)
        local ok, err = pcall(use, manager, place)
        assert.is_true(manager:close())
        if not ok then
            error(err, 0)
        end
        assert.same({}, place.errors)
        assert.same({}, target.left())
    end

    proves("shared_create", nil, function()
        managed(function(manager)
            local function acquire()
                return manager:acquire("run", { repo = url })
            end
            local results = sandbox.all({ acquire, acquire, acquire })
            local reused = 0
            for index = 1, 3 do
                local workspace = assert(results[index][1], results[index][2])
                assert.equal(results[1][1], workspace)
                reused = reused + (results[index][2] and 1 or 0)
            end
            assert.equal(2, reused)
            assert.equal(1, #target.left())
        end)
    end)

    proves("reuse", nil, function()
        managed(function(manager)
            local first = assert(manager:acquire("run", { repo = url, ref = "main" }))
            local second, reused = assert(manager:acquire("run", { repo = url }))
            assert.equal(first, second)
            assert.is_true(reused)
            fails("SandboxError", "ref_conflict", manager:acquire("run", { repo = url, ref = "v1" }))
            assert(manager:release("run", first.id))
            local third = assert(manager:acquire("run", { repo = url, ref = "v1" }))
            assert.are_not.equal(first.id, third.id)
            assert.equal(target.repository.first, third.info.commit)
        end)
    end)

    proves("acquire_aborted", nil, function()
        managed(function(manager)
            sandbox.run(function()
                local signal = sandbox.signal()
                local task = sandbox.spawn(manager.acquire, manager, "run", { repo = url, signal = signal })
                assert(sandbox.sleep(1))
                signal:abort()
                fails("SandboxError", "aborted", task:join())
                assert.is_true(manager:release("run")) -- waits for the create that ends
                assert.same({}, target.left())
            end)
        end)
    end)

    proves("release_run", nil, function()
        managed(function(manager)
            assert(manager:acquire("run"))
            assert(manager:acquire("run", { repo = url }))
            local other = assert(manager:acquire("other"))
            assert.is_true(manager:release("run"))
            assert.same({ other.id }, target.left())
            fails("SandboxError", "no_workspace", manager:get("run"))
        end)
    end)

    proves("release_creating", nil, function()
        managed(function(manager)
            sandbox.run(function()
                local task = sandbox.spawn(manager.acquire, manager, "run", { repo = url })
                assert(sandbox.sleep(1))
                assert.is_true(manager:release("run"))
                fails("SandboxError", "released", task:join())
                assert.same({}, target.left())
            end)
        end)
    end)

    proves("replace_gone", nil, function()
        managed(function(manager)
            local lost = assert(manager:acquire("run"))
            target.lose(lost)
            kit.wait_until(function()
                return not lost:exec({ "true" }) and lost.disposed
            end, "the workspace knows that it is gone")
            fails("SandboxError", "gone", manager:get("run", lost.id))
            local fresh, reused = assert(manager:acquire("run"))
            assert.is_false(reused)
            assert.equal(0, assert(fresh:exec({ "true" })).exit_code)
            kit.wait_until(function()
                return #target.left() == 1
            end, "what was left of the lost one is removed")
        end)
    end)

    proves("replace_expired", nil, function()
        managed(function(manager, place)
            local old = assert(manager:acquire("run"))
            place.time = place.time + 1000
            fails("SandboxError", "workspace_expired", manager:get("run", old.id))
            local fresh, reused = assert(manager:acquire("run"))
            assert.is_false(reused)
            assert.equal(fresh, (manager:get("run")))
            kit.wait_until(function()
                return #target.left() == 1
            end, "the expired one is removed")
        end, { limits = { timeout_ms = 1000 } })
    end)

    proves("collect_managed", nil, function()
        managed(function(manager, place)
            local abandoned = assert(target.provider({
                clock = {
                    now = function()
                        return place.time
                    end,
                },
            }):create({ run_id = "abandoned", limits = { timeout_ms = 1000 } }))
            local held = assert(manager:acquire("run"))
            assert.equal(0, manager:collect_garbage())
            place.time = place.time + 1000
            assert.equal(2, manager:collect_garbage())
            assert.is_true(held.disposed)
            assert.same({}, target.left())
            assert(abandoned:dispose())
        end, { limits = { timeout_ms = 1000 } })
    end)

    proves("collect_exec", nil, function()
        managed(function(manager, place)
            local workspace = assert(manager:acquire("run"))
            sandbox.run(function()
                local task = sandbox.spawn(workspace.exec, workspace, { "sleep", "1000" })
                assert(sandbox.sleep(50))
                place.time = place.time + 1000
                assert.equal(1, manager:collect_garbage())
                fails("SandboxError", "disposed", task:join())
            end)
        end, { limits = { timeout_ms = 1000 } })
    end)

    proves("precedence", nil, function()
        local provider = target.provider({
            env = { ONE = "provider", BOTH = "provider" },
            limits = { timeout_ms = 70000 },
        })
        local function sees(workspace, lifetime_ms, both)
            assert.equal(lifetime_ms, workspace.info.expires_at - workspace.info.created_at)
            local result = assert(workspace:exec({ "sh", "-c", 'echo "$ONE $BOTH"' }))
            assert.equal("provider " .. both .. "\n", result.stdout)
        end
        managed(function(manager)
            sees(assert(manager:acquire("run")), 70000, "manager")
        end, { provider = provider, env = { BOTH = "manager" } })
        managed(function(manager)
            sees(assert(manager:acquire("run")), 80000, "provider")
        end, { provider = provider, limits = { timeout_ms = 80000 } })
    end)

    proves("close", nil, function()
        managed(function(manager)
            sandbox.run(function()
                assert(manager:acquire("run"))
                local task = sandbox.spawn(manager.acquire, manager, "other", { repo = url })
                assert(sandbox.sleep(1))
                assert.is_true(manager:close())
                assert.same({}, target.left())
                fails("SandboxError", "closed", task:join())
                fails("SandboxError", "closed", manager:acquire("run"))
            end)
        end)
    end)

    proves("with_run", nil, function()
        managed(function(manager)
            assert.equal("hello\n", manager:with_run("run", function(run)
                local workspace = assert(run:acquire())
                return assert(workspace:exec({ "echo", "hello" })).stdout
            end))
            assert.same({}, target.left())
            local ok, err = pcall(manager.with_run, manager, "run", function(run)
                assert(run:acquire())
                error("on purpose", 0)
            end)
            assert.is_false(ok)
            assert.equal("on purpose", err)
            assert.same({}, target.left())
        end)
    end)

    proves("settled", nil, function()
        managed(function(manager)
            local listeners = {}
            manager:attach({
                on = function(_, event, listener)
                    listeners[event] = listener
                    return function()
                        listeners[event] = nil
                    end
                end,
            })
            for _, event in ipairs({ "completed", "failed", "cancelled" }) do
                assert(manager:acquire("run"))
                listeners[event]({ run_id = "run" })
                kit.wait_until(function()
                    return #target.left() == 0
                end, "the run is released")
                assert(manager:acquire("run"))
                manager:hooks()[event]("run")
                kit.wait_until(function()
                    return #target.left() == 0
                end, "the run is released")
            end
        end)
    end)

    proves("tools", nil, function()
        managed(function(manager)
            local tools, context = manager:tools(), { run_id = "run" }
            local text, is_error = sandbox.tools.call(tools, "create_workspace", '{"repo":"' .. url .. '"}', context)
            assert.is_false(is_error, text)
            local workspace = assert(manager:get("run"))
            assert.is_truthy(text:find(workspace.id, 1, true))
            assert.is_truthy(text:find(target.repository.main, 1, true))
            text, is_error = sandbox.tools.call(tools, "dispose_workspace", { workspace = workspace.id }, context)
            assert.is_false(is_error, text)
            assert.same({}, target.left())
        end)
    end)
end
