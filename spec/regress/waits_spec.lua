-- Waits from where nobody expects them: finalizers, which run in the middle of whatever allocates, and functions that C
-- has called inside a provider's create; and waits for many that wait for many.

local create_local_sandbox = require("chamvi.sandbox.local").create_local_sandbox
local native = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local LUA = jit and "luajit " or "lua5.4 "

-- Has fn called by the collector, now.
local function in_finalizer(fn)
    local results
    local function finalizer()
        results = { pcall(fn) }
    end
    if newproxy then
        getmetatable(newproxy(true)).__gc = finalizer
        jit.off() -- compiled code that a finalizer runs may leave and enter itself for ever
        jit.flush()
    else
        setmetatable({}, { __gc = finalizer })
    end
    collectgarbage()
    collectgarbage()
    if jit then
        jit.on()
    end
    return (table.unpack or unpack)(results)
end

describe("a finalizer", function()
    local root, provider, workspace

    before_each(function()
        root = scratch.folder()
        provider = create_local_sandbox({ root = root .. "/root" })
        workspace = assert(provider:create({ run_id = "waits" }))
    end)

    after_each(function()
        assert(workspace:dispose())
        scratch.remove(root)
    end)

    it("is told from other code, also where the collector stands still", function()
        assert.is_false(native.in_finalizer())
        assert.is_true(select(2, in_finalizer(native.in_finalizer)))
        assert.is_true(select(2, in_finalizer(function()
            return coroutine.wrap(native.in_finalizer)()
        end)))
        local path = root .. "/program.lua"
        local file = assert(io.open(path, "w"))
        file:write('collectgarbage("stop") print(require("chamvi.sandbox.core").in_finalizer())')
        file:close()
        assert.equal("false\n", scratch.shell(LUA .. path))
    end)

    it("can't wait, and is told what to do instead", function()
        for what, wait in pairs({
            exec = function() workspace:exec({ "true" }) end,
            dispose = function() workspace:dispose() end,
            sleep = function() sandbox.sleep(1) end,
            run = function() sandbox.run(function() end) end,
        }) do
            local ok, err = in_finalizer(wait)
            assert.is_false(ok)
            assert.matches(what .. " waits, and a finalizer %(__gc%) must not: use sandbox.spawn there", err)
        end
        assert.is_false((in_finalizer(function()
            sandbox.loop():step()
        end)))
    end)

    it("may spawn a task that waits, which others then run", function()
        local spawned
        assert(in_finalizer(function()
            spawned = sandbox.spawn(function()
                return assert(workspace:exec({ "echo", "x" })).stdout
            end)
        end))
        assert.equal("x\n", spawned:join())
    end)

    it("that tries to wait disturbs nobody, whatever it interrupts", function()
        local path = root .. "/program.lua"
        local file = assert(io.open(path, "w"))
        file:write(([[
            local sandbox = require "chamvi.sandbox"
            local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = %q })
            local function garbage()
                local function finalizer()
                    pcall(sandbox.sleep, 1)
                end
                if newproxy then
                    getmetatable(newproxy(true)).__gc = finalizer
                else
                    setmetatable({}, { __gc = finalizer })
                end
            end
            local ws = assert(provider:create({ run_id = "waits" }))
            collectgarbage("setpause", 0)
            local function work()
                for _ = 1, 200 do
                    garbage()
                    assert(#assert(ws:exec({ "echo", ("x"):rep(3000) })).stdout == 3001)
                end
            end
            for _, results in ipairs(sandbox.all({ work, work })) do
                assert(results.n == 0, results[2])
            end
            assert(ws:dispose())
            print("done")
        ]]):format(root .. "/other"))
        file:close()
        assert.equal("done\n", scratch.shell(LUA .. path))
    end)
end)

describe("a create below a C function", function()
    it("waits there like anybody else", function()
        local root = scratch.folder()
        local provider = create_local_sandbox({ root = root .. "/root" })
        local other = assert(provider:create({ run_id = "other" }))
        local manager = sandbox.create_workspace_manager({
            provider = {
                name = "odd",
                create = function(_, request)
                    local text = string.gsub("ab", "%w", function(letter)
                        return assert(other:exec({ "sh", "-c", "sleep 0.1; printf " .. letter .. letter })).stdout
                    end)
                    assert.equal("aabb", text)
                    assert.equal("late\n", assert(other:exec({ "sh", "-c", "sleep 0.1; echo late" })).stdout)
                    return provider:create(request)
                end,
                collect_garbage = function() return 0 end,
            },
            gc_interval_ms = 0,
        })
        local workspace = assert(manager:acquire("run"))
        assert.equal(0, assert(workspace:exec({ "true" })).exit_code)
        assert(manager:close())
        assert(other:dispose())
        scratch.remove(root)
    end)
end)

describe("a join", function()
    it("looks at each task once that it would wait for, however many ways lead there", function()
        local path = scratch.folder()
        scratch.write(path .. "/program.lua", [[
            local sandbox = require "chamvi.sandbox"
            local joined = 0
            sandbox.run(function()
                local below = {}
                for index = 1, 10 do
                    below[index] = sandbox.spawn(sandbox.sleep, 200)
                end
                for _ = 1, 12 do
                    local waits = {}
                    for index, task in ipairs(below) do
                        waits[index] = function()
                            task:join()
                            joined = joined + 1
                        end
                    end
                    below = {}
                    for index = 1, 10 do
                        below[index] = sandbox.spawn(sandbox.all, waits)
                    end
                end
            end)
            print(joined)
        ]])
        -- By every way it would take 10^12 steps.
        assert.equal("1200\n", scratch.shell("ulimit -t 600; " .. LUA .. path .. "/program.lua"))
        scratch.remove(path)
    end)
end)
