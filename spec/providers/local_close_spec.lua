if jit then
    return -- to-be-closed variables came with Lua 5.4
end

local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"
local supervised = require "chamvi.sandbox.supervised"
local workspaces = require "chamvi.sandbox.workspace"
local written_to_stderr = require "spec.support.stderr"

-- Calls `fn(workspace)` in a block that closes the workspace. By `load`, since LuaJIT reads this file too.
local within = load([[
    local workspace, fn = ...
    local closed <close> = workspace
    return fn(workspace)
]])

describe("a to-be-closed workspace", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    local function create()
        return assert(place.provider():create({ run_id = "spec" }))
    end

    local function assert_gone(workspace)
        assert.is_true(workspace.disposed)
        assert.same({}, scratch.list(place.root))
    end

    -- For disposals in the background.
    local function wait_until_gone(workspace)
        support.wait_until(function()
            return #scratch.list(place.root) == 0
        end, "the end of the workspace")
        assert_gone(workspace)
        assert(workspace:dispose()) -- when that returns, its supervisor is reaped too
    end

    local function silently(fn)
        assert.same({}, written_to_stderr(fn))
    end

    it("is disposed at the end of its block, which passes its results through", function()
        silently(function()
            local workspace = create()
            local exit_code, more = within(workspace, function()
                return assert(workspace:exec({ "sh", "-c", "sleep 60 & exit 3" })).exit_code, nil
            end)
            assert.equal(3, exit_code)
            assert.is_nil(more)
            assert_gone(workspace)
        end)
    end)

    it("is disposed under an error, which stays as it is", function()
        silently(function()
            local workspace, raised = create(), { "raised" }
            local ok, err = pcall(within, workspace, error, raised)
            assert.is_false(ok)
            assert.equal(workspace, err) -- `error` was called with the workspace
            assert_gone(workspace)
        end)
    end)

    it("may have been disposed", function()
        silently(function()
            local workspace = create()
            within(workspace, function()
                assert(workspace:dispose())
            end)
            within(workspace, function() end)
            assert_gone(workspace)
        end)
    end)

    it("may be gone", function()
        silently(function()
            local workspace = create()
            within(workspace, function()
                scratch.shell("rm -rf " .. place.path(workspace))
                local _, err = workspace:exec({ "true" })
                assert.equal("gone", err.code)
            end)
            assert_gone(workspace)
        end)
    end)

    it("is waited for in a task, while others go on, also under an error", function()
        silently(function()
            for _, how in ipairs({ "end", "error" }) do
                local workspace, closing, seen, raised = create(), false, false, { "raised" }
                local ok, err = pcall(sandbox.run, function()
                    sandbox.spawn(function()
                        while not workspace.disposed do
                            sandbox.sleep(0)
                        end
                        seen = closing
                    end)
                    within(workspace, function()
                        sandbox.sleep(1)
                        closing = true
                        if how == "error" then
                            error(raised)
                        end
                    end)
                    closing = false
                    assert_gone(workspace)
                end)
                if how == "error" then
                    assert.equal(raised, err)
                else
                    assert(ok, err)
                end
                assert.is_true(seen)
                assert_gone(workspace)
            end
        end)
    end)

    it("is disposed when the coroutine that has it is closed", function()
        silently(function()
            local function abandon(workspace)
                local thread = coroutine.create(within)
                assert(coroutine.resume(thread, workspace, coroutine.yield))
                assert.is_true(coroutine.close(thread))
                assert_gone(workspace)
            end
            abandon(create())
            sandbox.run(function()
                abandon(create())
            end)
        end)
    end)

    it("is disposed in the background where its task can't yield", function()
        silently(function()
            local workspace = create()
            sandbox.run(function()
                ("x"):gsub("x", function()
                    within(workspace, function() end)
                end)
                assert.is_true(workspace.disposed)
                wait_until_gone(workspace)
            end)
        end)
    end)

    it("is disposed in the background by on_output, which its own command survives not", function()
        silently(function()
            local workspace = create()
            local result, err = workspace:exec({ "sh", "-c", "echo x; sleep 60" }, {
                on_output = function()
                    within(workspace, function() end)
                end,
            })
            assert.is_nil(result)
            assert.equal("disposed", err.code)
            wait_until_gone(workspace)
        end)
    end)

    it("is disposed in the background by a callback that wrongly yields, when that is ended", function()
        silently(function()
            local workspace, other = create(), create()
            local _, err = workspace:exec({ "sh", "-c", "echo x; sleep 60" }, {
                on_output = function()
                    within(other, coroutine.yield)
                end,
            })
            assert.equal("aborted", err.code)
            assert.matches("must not yield", err.message)
            assert.is_true(other.disposed)
            assert(workspace:dispose())
            wait_until_gone(other)
        end)
    end)

    it("is disposed in the background by an abort listener", function()
        silently(function()
            local workspace, signal = create(), sandbox.signal()
            signal:on_abort(function()
                within(workspace, function() end)
            end)
            signal:abort()
            wait_until_gone(workspace)
        end)
    end)

    describe("reports a failure in one line and never raises it", function()
        -- `remove` fails at first.
        local function failing(fail)
            local calls = 0
            return workspaces.new({
                id = "id",
                info = {},
                backend = supervised.new(0, function()
                    calls = calls + 1
                    if calls > 1 then
                        return true
                    end
                    return fail()
                end),
            })
        end

        local ways = {
            returned = function()
                return nil, { message = "on purpose" }
            end,
            raised = function()
                error("on purpose\nand more", 0)
            end,
            late = function()
                sandbox.sleep(1)
                error({}, 0)
            end,
        }
        for way, fail in pairs(ways) do
            it(way, function()
                local workspace = failing(fail)
                local function close()
                    within(workspace, function() end)
                end
                local lines = written_to_stderr(close)
                assert.equal(1, #lines)
                assert.matches("^chamvi%.sandbox: closing the workspace id failed: ", lines[1])
                silently(close) -- tries again

                workspace = failing(fail)
                lines = written_to_stderr(function()
                    local signal = sandbox.signal()
                    signal:on_abort(close)
                    signal:abort()
                    for _ = 1, 20 do -- turns of the loop, whatever time they take
                        sandbox.sleep(1)
                    end
                end)
                assert.equal(1, #lines)
                assert.matches("^chamvi%.sandbox: closing the workspace id failed: ", lines[1])
                silently(close)
            end)
        end
    end)
end)
