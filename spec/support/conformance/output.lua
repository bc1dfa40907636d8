-- The output of commands.

local assert = require "luassert"
local sandbox = require "chamvi.sandbox"

return function(kit)
    local proves, fails, sh = kit.proves, kit.fails, kit.sh
    local CAP = sandbox.OUTPUT_MAX_BYTES

    local function run(workspace, script, options)
        return assert(workspace:exec(sh(script), options))
    end

    proves("cap", "exactly", function()
        kit.with(function(workspace)
            for _, bytes in ipairs({ CAP - 1, CAP, CAP + 1, 5 * CAP }) do
                local result = run(workspace, ("head -c %d /dev/zero | tr '\\0' x"):format(bytes))
                assert.equal(("x"):rep(math.min(bytes, CAP)), result.stdout)
                assert.equal(bytes > CAP, result.stdout_truncated)
                assert.equal(bytes, result.stdout_bytes)
                assert.is_false(result.stderr_truncated)
            end
        end)
    end)

    proves("cap", "of each stream, for very much", function()
        kit.with(function(workspace)
            local result = run(workspace, [[
                head -c 8000000 /dev/zero | tr '\0' o &
                head -c 4000000 /dev/zero | tr '\0' e >&2
                wait
            ]])
            assert.equal(("o"):rep(CAP), result.stdout)
            assert.equal(("e"):rep(CAP), result.stderr)
            assert.equal(8000000, result.stdout_bytes)
            assert.equal(4000000, result.stderr_bytes)
            assert.is_true(result.stdout_truncated)
            assert.is_true(result.stderr_truncated)
        end)
    end)

    proves("cap", "never within a character", function()
        kit.with(function(workspace)
            for shift = 0, 3 do
                local result = run(workspace,
                    ("head -c %d /dev/zero | tr '\\0' x; yes '\240\159\152\128' | tr -d '\\n' | head -c %d")
                        :format(CAP - 4 - shift, 40))
                assert.equal(("x"):rep(CAP - 4 - shift) .. "\240\159\152\128", result.stdout)
                assert.is_true(result.stdout_truncated)
            end
        end)
    end)

    proves("invalid_utf8", nil, function()
        kit.with(function(workspace)
            local result = run(workspace, [[printf 'a\377b\303'; printf '\303(' >&2]])
            assert.equal("a\239\191\189b\239\191\189", result.stdout)
            assert.equal("\239\191\189(", result.stderr)
            assert.equal(4, result.stdout_bytes)
        end)
    end)

    proves("exit_led", nil, function()
        kit.with(function(workspace)
            local result = run(workspace, [[
                echo mine
                ( until [ -e go ]; do sleep 0.1; done; echo late; echo on > on; sleep 1000 ) &
            ]])
            assert.equal("mine\n", result.stdout)
            assert.equal(0, result.exit_code)
            assert.is_true(result.streams_held)
            assert(workspace:write_file("go", ""))
            kit.wait_until(function()
                return workspace:read_file("on")
            end, "the job runs on")
        end)
    end)

    proves("no_loss", nil, function()
        kit.with(function(workspace)
            for _ = 1, 25 do
                local result = run(workspace, "head -c 61000 /dev/zero | tr '\\0' x; printf end; printf end >&2")
                assert.equal(61003, result.stdout_bytes)
                assert.equal("end", result.stdout:sub(-3))
                assert.equal("end", result.stderr)
            end
        end)
    end)

    proves("on_output", nil, function()
        kit.with(function(workspace)
            local got = { stdout = 0, stderr = {} }
            local result = run(workspace, [[
                printf '\377\000raw' >&2
                head -c 3000000 /dev/zero
            ]], {
                on_output = function(stream, chunk)
                    if stream == "stdout" then
                        got.stdout = got.stdout + #chunk
                        assert(not chunk:find("[^%z]"))
                    else
                        table.insert(got.stderr, chunk)
                    end
                end,
            })
            assert.equal(3000000, got.stdout)
            assert.equal("\255\0raw", table.concat(got.stderr))
            assert.equal(3000000, result.stdout_bytes)
            assert.equal(CAP, #result.stdout)
        end)
    end)

    proves("on_output_slow", nil, function()
        kit.with(function(workspace)
            local bytes = kit.target.more_than_buffers or 10000000
            local waited = false
            local result = run(workspace, ([[
                began=$(date +%%s%%N)
                head -c %d /dev/zero
                echo $((($(date +%%s%%N) - began) / 1000000)) >&2
            ]]):format(bytes), {
                on_output = function()
                    if not waited then
                        waited = true
                        os.execute("sleep 1.5")
                    end
                end,
            })
            assert.equal(bytes, result.stdout_bytes)
            assert.is_true(tonumber(result.stderr) >= 1000, result.stderr)
        end)
    end)

    proves("on_output_abort", nil, function()
        kit.with(function(workspace)
            local signal = sandbox.signal()
            fails("SandboxError", "aborted", workspace:exec(sh("echo x; sleep 1000"), {
                signal = signal,
                on_output = function()
                    signal:abort()
                end,
            }))
            assert.equal(0, run(workspace, "true").exit_code)
        end)
    end)

    proves("on_output_raises", nil, function()
        kit.with(function(workspace)
            local raised = { "on purpose" }
            local err = fails("SandboxError", "aborted", workspace:exec(sh("echo x; sleep 1000"), {
                on_output = function()
                    error(raised)
                end,
            }))
            assert.equal(raised, err.cause)
        end)
    end)

    proves("on_output_yield", nil, function()
        kit.with(function(workspace)
            sandbox.run(function()
                local err = fails("SandboxError", "aborted", workspace:exec(sh("echo x; sleep 1000"), {
                    on_output = function()
                        coroutine.yield()
                    end,
                }))
                assert.matches("must not yield", err.message)
            end)
        end)
    end)
end
