-- How workspaces begin and end.

local assert = require "luassert"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

return function(kit)
    local target, proves, fails, sh = kit.target, kit.proves, kit.fails, kit.sh
    local repository = target.repository

    local function printed(workspace, ...)
        local result = assert(workspace:exec({ ... }))
        assert.equal(0, result.exit_code, result.stderr)
        return (result.stdout:gsub("\n$", ""))
    end

    proves("info", nil, function()
        kit.with(function(workspace)
            local info = workspace.info
            assert.same({ "spec", target.provider().name, repository.url, "topic/one", repository.topic },
                { info.run_id, info.provider, info.repo, info.ref, info.commit })
            assert.is_true(info.created_at > 1.6e12 and info.created_at % 1 == 0)
            assert.is_false(workspace.disposed)
        end, { repo = repository.url, ref = "topic/one" })
    end)

    proves("expiry", nil, function()
        local clock = {
            now = function()
                return 1234567
            end,
        }
        local requests = {
            [1234567 + sandbox.DEFAULT_LIMITS.timeout_ms] = {},
            [1234567 + 70000] = { { limits = { timeout_ms = 70000 } } },
            [1234567 + 80000] = { { limits = { timeout_ms = 80000 } }, { timeout_ms = 70000 } },
        }
        for expires_at, given in pairs(requests) do
            kit.with(function(workspace)
                assert.equal(1234567, workspace.info.created_at)
                assert.equal(expires_at, workspace.info.expires_at)
            end, given[1], { clock = clock, limits = given[2] })
        end
    end)

    proves("ids", nil, function()
        kit.with(function(one)
            kit.with(function(two)
                for _, workspace in ipairs({ one, two }) do
                    assert.matches("^%x+%-%x+%-4%x+%-[89ab]%x+%-%x+$", workspace.id)
                    assert.equal(36, #workspace.id)
                end
                assert.are_not.equal(one.id, two.id)
            end)
        end)
    end)

    proves("empty", nil, function()
        kit.with(function(workspace)
            assert.equal("true", printed(workspace, "git", "rev-parse", "--is-inside-work-tree"))
            assert.equal(".git", printed(workspace, "ls", "-A"))
            assert.is_nil(workspace.info.commit)
            assert.is_nil(workspace.info.repo)
        end)
    end)

    local refs = {
        { nil, "main" },
        { "main", "main" },
        { "topic/one", "topic" },
        { "v1", "first" },
        { "v2", "main" },
        { "refs/heads/topic/one", "topic" },
        { repository.first, "first" },
    }
    for _, case in ipairs(refs) do
        proves("checkout", case[1] or "no ref", function()
            kit.with(function(workspace)
                assert.equal(repository[case[2]], printed(workspace, "git", "rev-parse", "HEAD"))
                assert.equal(repository[case[2]], workspace.info.commit)
                assert.equal("", printed(workspace, "git", "status", "--porcelain"))
            end, { repo = repository.url, ref = case[1] })
        end)
    end

    proves("checkout_failed", nil, function()
        local provider = target.provider()
        for _, ref in ipairs({ "no-such-branch", ("f"):rep(40) }) do
            local err = fails("SandboxError", "checkout_failed",
                provider:create({ run_id = "run", repo = repository.url, ref = ref }))
            assert.is_true(#err.detail > 0)
        end
    end)

    proves("repo_refused", nil, function()
        local provider = target.provider()
        fails("ValidationError", "invalid_repo", provider:create({ run_id = "run", repo = "ssh://host/name" }))
        fails("ValidationError", "invalid_ref", provider:create({ run_id = "run", repo = repository.url, ref = "-x" }))
    end)

    proves("create_aborted", "before it begins", function()
        local signal = sandbox.signal()
        signal:abort()
        fails("SandboxError", "aborted", target.provider():create({ run_id = "run", signal = signal }))
    end)

    proves("create_aborted", "at any moment", function()
        local provider = target.provider()
        sandbox.run(function()
            for delay_ms = 0, 60, 6 do
                local signal = sandbox.signal()
                local task = sandbox.spawn(provider.create, provider,
                    { run_id = "run", repo = repository.url, signal = signal })
                assert(sandbox.sleep(delay_ms))
                signal:abort()
                local workspace, err = task:join()
                if workspace then -- it was quicker
                    assert(workspace:dispose())
                else
                    assert.equal("aborted", err.code, tostring(err))
                end
            end
        end)
    end)

    proves("create_options", nil, function()
        local provider = target.provider()
        for _, wrong in ipairs({ {}, { run_id = 7 }, { run_id = "r", env = 7 }, { run_id = "r", colour = "red" } }) do
            local ok, err = pcall(provider.create, provider, wrong)
            assert.is_false(ok)
            assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), tostring(err))
        end
    end)

    proves("env", nil, function()
        local options = { env = { FROM_PROVIDER = "provider", FROM_BOTH = "provider" } }
        kit.with(function(workspace)
            local function value(name)
                return printed(workspace, "sh", "-c", ("printf %%s \"${%s-unset}\""):format(name))
            end
            assert.equal("provider", value("FROM_PROVIDER"))
            assert.equal("create", value("FROM_BOTH"))
            assert.equal("a 'b' \"c\" $d", value("ODD"))
            assert.equal("true", value("CI"))
            assert.equal("0", value("GIT_TERMINAL_PROMPT"))
            assert.equal("unset", value("LUA_PATH"))
            assert.equal("unset", value("LUA_CPATH"))
        end, { env = { FROM_BOTH = "create", ODD = "a 'b' \"c\" $d" } }, options)
    end)

    proves("constant_env", nil, function()
        kit.with(function(workspace)
            for name, value in pairs(sandbox.SANDBOX_ENV) do
                local seen = printed(workspace, "printenv", name)
                -- A provider may have a home elsewhere, and names its own folder as safe.
                assert.is_true(seen == value or name == "HOME" or name:find("^GIT_CONFIG_VALUE_") ~= nil, name)
                assert.is_true(#seen > 0, name)
            end
        end)
    end)

    proves("dispose", nil, function()
        -- Seconds to sleep that nobody else has, nor the same spec on the other Lua.
        local word = ("7%s.%d"):format(tostring(os.time()):sub(-6), scratch.pid())
        kit.with(function(workspace)
            assert(workspace:exec(sh("setsid sleep " .. word .. " >/dev/null 2>&1 </dev/null & echo kept > file")))
            kit.wait_until(function()
                return target.running(word)
            end, "the daemon runs")
            assert.is_true(workspace:dispose())
            assert.is_true(workspace.disposed)
            if target.dies_later then
                kit.wait_until(function()
                    return not target.running(word)
                end, "the daemon is dead")
            end
            assert.is_false(target.running(word))
            assert.same({}, target.left())
        end)
    end)

    proves("dispose_again", nil, function()
        kit.with(function(workspace)
            local results = sandbox.all({
                function()
                    return workspace:dispose()
                end,
                function()
                    return workspace:dispose()
                end,
            })
            assert.is_true(results[1][1])
            assert.is_true(results[2][1])
            assert.is_true(workspace:dispose())
        end)
    end)

    proves("dispose_exec", nil, function()
        kit.with(function(workspace)
            sandbox.run(function()
                local task = sandbox.spawn(workspace.exec, workspace, { "sleep", "1000" })
                assert(sandbox.sleep(50))
                assert(workspace:dispose())
                fails("SandboxError", "disposed", task:join())
            end)
        end)
    end)

    proves("after_dispose", nil, function()
        kit.with(function(workspace)
            assert(workspace:dispose())
            fails("SandboxError", "disposed", workspace:exec({ "true" }))
            fails("SandboxError", "disposed", workspace:read_file("x"))
            fails("SandboxError", "disposed", workspace:write_file("x", ""))
        end)
    end)

    proves("gone", nil, function()
        kit.with(function(workspace)
            target.lose(workspace)
            local result, err = workspace:exec({ "true" })
            assert.is_nil(result)
            assert.is_true(err.code == "gone" or err.code == "transport_lost", tostring(err))
            kit.wait_until(function()
                return workspace.disposed or not workspace:exec({ "true" }) and workspace.disposed
            end, "the workspace knows that it is gone")
            fails("SandboxError", "gone", workspace:exec({ "true" }))
            fails("SandboxError", "gone", workspace:read_file("x"))
            fails("SandboxError", "gone", workspace:write_file("x", ""))
            assert.is_true(workspace:dispose())
            fails("SandboxError", "disposed", workspace:exec({ "true" }))
        end)
    end)

    proves("lost_exec", nil, function()
        kit.with(function(workspace)
            sandbox.run(function()
                local begun = false
                local task = sandbox.spawn(workspace.exec, workspace, sh("echo begun; sleep 1; exit 7"), {
                    on_output = function()
                        begun = true
                    end,
                })
                kit.wait_until(function()
                    return begun
                end, "the command runs")
                target.lose(workspace)
                local result, err = task:join()
                if result then
                    assert.same({ "exited", 7, "begun\n" }, { result.status, result.exit_code, result.stdout })
                else
                    assert.is_true(err.code == "gone" or err.code == "transport_lost", tostring(err))
                    assert.is_true(err.code == "gone" or err.partial.stdout == "begun\n")
                end
            end)
        end)
    end)

    proves("closing", nil, function()
        kit.with(function(workspace)
            local close = assert.is_function(getmetatable(workspace).__close) and getmetatable(workspace).__close
            close(workspace, nil)
            assert.is_true(workspace.disposed)
            assert.same({}, target.left())
            close(workspace, "an error")
        end)
    end)

    proves("collect", nil, function()
        local time = os.time() * 1000
        local options = {
            clock = {
                now = function()
                    return time
                end,
            },
        }
        local provider = target.provider(options)
        kit.with(function(live)
            local expired = assert(provider:create({ run_id = "run", limits = { timeout_ms = 1000 } }))
            time = time + 999
            assert.equal(0, provider:collect_garbage())
            time = time + 1
            sandbox.run(function()
                local task = sandbox.spawn(expired.exec, expired, { "sleep", "1000" })
                assert(sandbox.sleep(50))
                assert.equal(1, provider:collect_garbage())
                local result, err = task:join()
                assert.is_nil(result)
                assert.is_true(sandbox.is_error(err, "SandboxError"), tostring(err))
            end)
            assert.equal(0, provider:collect_garbage())
            assert.same({ live.id }, target.left())
            assert.is_true(expired:dispose())
            assert.equal(0, assert(live:exec({ "true" })).exit_code)
        end, nil, options)
    end)
end
