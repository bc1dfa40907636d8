local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local LUA = jit and "luajit" or "lua5.4"
local STRAY = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"

describe("collect_garbage", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    -- A provider whose clock stands `ms` after now, with workspaces that live for a minute.
    local function provider_at(ms)
        local core = require "chamvi.sandbox.core"
        return place.provider({
            limits = { timeout_ms = 60000 },
            clock = {
                now = function()
                    return core.now_ms() + ms
                end,
            },
        })
    end

    -- Makes what a workspace owns by hand, with a record of the given text.
    local function stray(text)
        local path = place.root .. "/" .. STRAY
        scratch.shell(("mkdir -p %s/deep %s.home %s.tmp"):format(path, path, path))
        scratch.write(path .. ".json", text)
        return path
    end

    after_each(function()
        os.remove(place.folder .. "/report")
    end)

    it("removes nothing before its time, and gives 0 without a root", function()
        local workspace = assert(provider_at(0):create({ run_id = "spec" }))
        assert.equal(0, provider_at(0):collect_garbage())
        assert.equal(0, assert(workspace:exec({ "true" })).exit_code)
        assert(workspace:dispose())
        local nowhere = place.provider({ root = place.folder .. "/nowhere" })
        assert.equal(0, nowhere:collect_garbage())
        assert.is_nil(scratch.read(place.folder .. "/nowhere"))
    end)

    it("removes what a killed program left, when its time is over", function()
        local command = ("%s spec/support/host_program.lua %s killed"):format(LUA, place.folder)
        local pid = scratch.shell(command .. " >/dev/null 2>&1 & echo $!"):match("%d+")
        support.wait_until(function()
            return scratch.read(place.folder .. "/report")
        end, "a report")
        local guard = scratch.read(("/proc/%s/task/%s/children"):format(pid, pid)):match("%d+")
        scratch.shell("kill -9 " .. pid)
        support.wait_until(function()
            return not scratch.is_alive(guard)
        end, "the end of the guard, and so of all others")
        local names = scratch.list(place.root)
        assert.equal(4, #names)
        assert.equal(0, provider_at(0):collect_garbage())
        assert.same(names, scratch.list(place.root))
        assert.equal(1, provider_at(1800001):collect_garbage())
        assert.same({}, scratch.list(place.root))
    end)

    it("ends an expired workspace that another program still looks after", function()
        local command = ("%s spec/support/host_program.lua %s killed"):format(LUA, place.folder)
        local pid = tonumber((scratch.shell(command .. " >/dev/null 2>&1 & echo $!"):match("%d+")))
        support.wait_until(function()
            return scratch.read(place.folder .. "/report")
        end, "a report")
        assert.equal(1, provider_at(1800001):collect_garbage())
        assert.same({}, scratch.list(place.root))
        -- Its exec has ended with an error, so the program has, too.
        support.wait_until(function()
            return not scratch.is_alive(pid)
        end, "the end of the other program")
    end)

    it("ends one of this program's own, which is gone then", function()
        local workspace = assert(provider_at(0):create({ run_id = "spec" }))
        sandbox.run(function()
            local task = sandbox.spawn(workspace.exec, workspace, { "sleep", "60" })
            sandbox.sleep(20)
            assert.equal(1, provider_at(60001):collect_garbage())
            local result, err = task:join()
            assert.is_nil(result)
            assert.equal("transport_lost", err.code)
        end)
        assert.is_true(workspace.disposed)
        assert.same({}, scratch.list(place.root))
        assert(workspace:dispose())
    end)

    it("shares the work with another collector", function()
        for _ = 1, 5 do
            local path = stray('{"expires_at":1}')
            local counts = sandbox.run(function()
                local function collect()
                    return provider_at(0):collect_garbage()
                end
                return sandbox.all({ collect, collect, collect })
            end)
            local sum = 0
            for _, packed in ipairs(counts) do
                assert.is_number(packed[1], tostring(packed[2]))
                sum = sum + packed[1]
            end
            assert.equal(1, sum)
            assert.is_nil(scratch.read(path .. ".json"))
            assert.same({}, scratch.list(place.root))
        end
    end)

    describe("reads records as hostile input:", function()
        local damaged = {
            ["empty"] = "",
            ["no JSON"] = "{",
            ["no object"] = "[1]",
            ["no time"] = "{}",
            ["a time that is no number"] = '{"expires_at":"1"}',
            ["deep"] = ("["):rep(100000),
            ["long"] = '{"expires_at":1,"x":"' .. ("x"):rep(70000) .. '"}',
            ["binary"] = "\0\255\1",
        }
        for what, text in pairs(damaged) do
            it("one that is " .. what .. " counts from when it was written", function()
                stray(text)
                assert.equal(0, provider_at(0):collect_garbage())
                assert.equal(1, provider_at(1800001):collect_garbage())
                assert.same({}, scratch.list(place.root))
            end)
        end

        it("a damaged one leaves a workspace that somebody looks after alone", function()
            place.with(function(workspace)
                scratch.write(place.path(workspace) .. ".json", "{")
                assert.equal(0, provider_at(1800001):collect_garbage())
                assert.equal(0, assert(workspace:exec({ "true" })).exit_code)
            end)
        end)

        it("links and fifos in the place of records are not followed, nor waited for", function()
            local path = stray("")
            scratch.write(place.folder .. "/outside", '{"expires_at":1}')
            scratch.shell(("ln -sf %s/outside %s.json"):format(place.folder, path))
            assert.equal(0, provider_at(0):collect_garbage())
            scratch.shell(("rm %s.json && mkfifo %s.json"):format(path, path))
            assert.equal(0, provider_at(0):collect_garbage())
            assert.equal(1, provider_at(1800001):collect_garbage())
            assert.same({}, scratch.list(place.root))
            assert.is_string(scratch.read(place.folder .. "/outside"))
        end)
    end)

    it("leaves alone what is not a workspace's", function()
        scratch.shell(("cd %s && mkdir notes && touch notes.json x.json %s.JSON %s-.json && ln -s / root.json"):format(
            place.root, STRAY:upper(), STRAY))
        scratch.shell(("mkdir %s/%s"):format(place.root, STRAY)) -- without a record
        local names = scratch.list(place.root)
        assert.equal(0, provider_at(1e12):collect_garbage())
        assert.same(names, scratch.list(place.root))
        scratch.shell(("rm -r %s/*"):format(place.root))
    end)

    it("goes on past one that can't be removed, and says how many went", function()
        local probe = "cd " .. place.folder .. " && touch i && chattr +i i 2>&1 && chattr -i i || echo no"
        if scratch.shell(probe):find("no") then
            pending("this file system has no immutable files")
            return
        end
        local path = stray('{"expires_at":1}')
        scratch.shell(("touch %s/deep/fixed && chattr +i %s/deep/fixed"):format(path, path))
        local other = place.root .. "/bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
        scratch.shell("mkdir " .. other)
        scratch.write(other .. ".json", '{"expires_at":1}')
        local count, err = provider_at(0):collect_garbage()
        scratch.shell(("chattr -i %s/deep/fixed"):format(path))
        assert.is_nil(count)
        assert.equal("gc_failed", err.code)
        assert.equal(1, err.count)
        assert.is_truthy(err.message:find(STRAY, 1, true))
        assert.equal(1, provider_at(0):collect_garbage())
        assert.same({}, scratch.list(place.root))
    end)

    it("refuses a root that is another user's", function()
        if scratch.shell("id -u") ~= "0\n" then
            pending("needs root to make another user's folder")
            return
        end
        scratch.shell(("mkdir %s/other && chown 65534 %s/other"):format(place.folder, place.folder))
        local count, err = place.provider({ root = place.folder .. "/other" }):collect_garbage()
        assert.is_nil(count)
        assert.equal("gc_failed", err.code)
    end)
end)
