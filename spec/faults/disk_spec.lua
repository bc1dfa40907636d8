-- Disks that are full, closed or gone.

local programs = require "spec.support.programs"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local NO_SPACE = "No space left on device"

describe("a disk", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })
    local disk = place.folder .. "/disk"
    local root = disk .. "/root"
    local repository

    setup(function()
        scratch.shell("mkdir " .. disk)
        -- More than a small disk holds, however well git packs it.
        repository = scratch.repository(place.folder .. "/repository").url
        scratch.shell(([[
            cd %s/repository; head -c 400000 /dev/urandom >large; git add large
            git -c user.name=Spec -c user.email=spec@example.com commit --quiet -m large
        ]]):format(place.folder))
    end)

    local function can_mount()
        local probe = "mount -t tmpfs tmpfs %s 2>/dev/null && umount %s && echo yes || true"
        return scratch.shell(probe:format(disk, disk)) == "yes\n"
    end

    -- A spec on a disk of its own: `test(provider)` with its root on it.
    local function it_on(options, name, test)
        it(name, function()
            if not can_mount() then
                pending("needs the right to mount a disk")
                return
            end
            scratch.shell(("mount -t tmpfs -o mode=700,%s tmpfs %s"):format(options, disk))
            local ok, err = pcall(test, place.provider({ root = root }))
            scratch.shell(("umount -l %s 2>/dev/null || true"):format(disk))
            if not ok then
                error(err, 0)
            end
        end)
    end

    local function fails(code, text, value, err)
        assert.is_nil(value)
        assert.is_true(sandbox.is_error(err, "SandboxError"), tostring(err))
        assert.equal(code, err.code, tostring(err))
        assert.is_truthy((err.message .. (err.detail or "")):find(text, 1, true), tostring(err))
    end

    it_on("size=1m", "that is full is told by each call, keeps what there was, and can be emptied", function(provider)
        local workspace = assert(provider:create({ run_id = "spec" }))
        local before = ("x"):rep(600000)
        assert(workspace:write_file("f", before))
        fails("no_space", NO_SPACE, workspace:write_file("f", ("y"):rep(600000)))
        assert.equal(before, workspace:read_file("f"))

        local result = assert(workspace:exec({ "sh", "-c", "cat /dev/zero >filling" }))
        assert.equal(1, result.exit_code)
        assert.is_truthy(result.stderr:find(NO_SPACE, 1, true))
        fails("no_space", NO_SPACE, workspace:write_file("f", "y"))
        fails("no_space", NO_SPACE, workspace:write_file("new/f", "y"))
        assert.equal("", assert(workspace:exec({ "sh", "-c", "ls -A . new | grep chamvi || true" })).stdout)

        local names = scratch.list(root)
        fails("create_failed", NO_SPACE, provider:create({ run_id = "spec" }))
        fails("create_failed", NO_SPACE, provider:create({ run_id = "spec", repo = repository }))
        assert.same(names, scratch.list(root))

        assert(workspace:exec({ "rm", "filling" }))
        assert(workspace:write_file("f", "y"))
        assert(workspace:exec({ "sh", "-c", "cat /dev/zero >filling" }))
        assert.equal(0, provider:collect_garbage())
        assert(workspace:dispose())
        assert.same({}, scratch.list(root))
    end)

    it_on("size=300k", "that is too small for a checkout says so, and nothing is left", function(provider)
        fails("checkout_failed", NO_SPACE, provider:create({ run_id = "spec", repo = repository }))
        assert.same({}, scratch.list(root))
    end)

    it("that is full at any step of a create: it says so, and nothing is left", function()
        if not can_mount() then
            pending("needs the right to mount a disk")
            return
        end
        local codes, made = {}, false
        for inodes = 2, 40 do
            scratch.shell(("mount -t tmpfs -o mode=700,size=1m,nr_inodes=%d tmpfs %s"):format(inodes, disk))
            local ok, err = pcall(function()
                local workspace, failure = place.provider({ root = root }):create({ run_id = "spec" })
                if workspace then
                    made = true
                    assert(workspace:dispose())
                else
                    codes[failure.code] = true
                    fails(failure.code, NO_SPACE, nil, failure)
                end
                assert.same({}, scratch.list(root))
            end)
            scratch.shell("umount -l " .. disk)
            assert(ok, err)
            if made then
                break
            end
        end
        assert.is_true(made)
        assert.same({ create_failed = true, checkout_failed = true }, codes)
    end)

    it_on("ro", "that is read-only is told", function(provider)
        fails("create_failed", "Read-only file system", provider:create({ run_id = "spec" }))
        assert.equal(0, provider:collect_garbage())
    end)

    it_on("size=1m", "that is mounted inside a workspace is not deleted from, and goes first", function(provider)
        local workspace = assert(provider:create({ run_id = "spec" }))
        local inside = ("%s/%s/inside"):format(root, workspace.id)
        scratch.shell(("mkdir %s && mount --bind %s/repository %s && mount -o remount,bind,ro %s"):format(inside,
            place.folder, inside, inside))
        local ok, err = pcall(function()
            fails("permission_denied", "Read-only file system", workspace:write_file("inside/name", "new"))
            fails("permission_denied", "Read-only file system", workspace:write_file("inside/new/f", "new"))
            assert.equal("second\n", workspace:read_file("inside/name"))
            fails("remove_failed", "Device or resource busy", workspace:dispose())
        end)
        scratch.shell("umount " .. inside)
        assert(ok, err)
        assert.is_string(scratch.read(place.folder .. "/repository/name"))
        assert(workspace:dispose())
        assert.same({}, scratch.list(root))
    end)

    it_on("size=1m", "that is taken away ends nothing but what was on it", function(provider)
        local workspace = assert(provider:create({ run_id = "spec" }))
        sandbox.run(function()
            local task = sandbox.spawn(workspace.exec, workspace, { "sh", "-c", "touch begun; sleep 0.3; echo end" })
            support.wait_until(function()
                return scratch.read(("%s/%s/begun"):format(root, workspace.id))
            end, "the command runs")
            scratch.shell("umount -l " .. disk)
            assert.equal("end\n", assert(task:join()).stdout)
        end)
        -- The next workspace is made in the folder that the disk was mounted on.
        local other = assert(provider:create({ run_id = "spec" }))
        assert.equal(0, provider:collect_garbage())
        assert(other:dispose())
        assert(workspace:dispose())
        assert.same({}, scratch.list(root))
        scratch.shell("rmdir " .. root)
    end)

    it("that a user may not write to is told, and nothing is left", function()
        local folder = scratch.folder()
        local printed = programs.run_as(65534, "closed_program.lua", folder)
        scratch.remove(folder)
        if not printed then
            pending("needs setpriv")
            return
        end
        local closed = "create_failed making the folder of the workspaces: Permission denied"
        assert.equal(([[
            no root: %s
            closed root: create_failed writing the workspace's record: Permission denied
            unreadable root: create_failed opening the folder of the workspaces: Permission denied
            collection: gc_failed opening the folder of the workspaces: Permission denied
            another's root: create_failed the folder of the workspaces belongs to another user: Operation not permitted
            closed under a workspace: remove_failed deleting the workspace's folders: Permission denied
            open again: disposed
        ]]):format(closed):gsub("\n +", "\n"):gsub("^ +", ""), printed)
    end)
end)

describe("a root", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })
    local folder = place.folder .. "/changing"
    local root = folder .. "/root"

    before_each(function()
        scratch.shell("mkdir " .. folder)
    end)

    after_each(function()
        scratch.remove(folder)
    end)

    -- A workspace whose root has changed while a command ran, which was not disturbed.
    local function changed(script)
        local provider = place.provider({ root = root })
        local workspace = assert(provider:create({ run_id = "spec" }))
        sandbox.run(function()
            local task = sandbox.spawn(workspace.exec, workspace, { "sh", "-c", "touch begun; sleep 0.2; echo end" })
            support.wait_until(function()
                return scratch.read(("%s/%s/begun"):format(root, workspace.id))
            end, "the command runs")
            scratch.shell(("cd %s; %s"):format(folder, script))
            assert.equal("end\n", assert(task:join()).stdout)
        end)
        return workspace, provider
    end

    local function expect_gone(workspace)
        for _, call in ipairs({
            function()
                return workspace:exec({ "true" })
            end,
            function()
                return workspace:read_file("f")
            end,
            function()
                return workspace:write_file("f", "x")
            end,
        }) do
            local value, err = call()
            assert.is_nil(value)
            assert.equal("gone", err.code)
        end
        assert.is_true(workspace.disposed)
    end

    it("that vanishes takes its workspaces along; the next create makes it anew", function()
        local workspace, provider = changed("rm -rf root")
        expect_gone(workspace)
        assert.equal(0, provider:collect_garbage())
        assert(workspace:dispose())
        assert.same({}, scratch.list(folder))
        assert(assert(provider:create({ run_id = "spec" })):dispose())
        assert.same({}, scratch.list(root))
    end)

    it("that becomes a file is no root", function()
        local workspace, provider = changed("rm -rf root; touch root")
        expect_gone(workspace)
        local value, err = provider:create({ run_id = "spec" })
        assert.is_nil(value)
        assert.equal("create_failed", err.code)
        assert.matches("Not a directory", err.message)
        value, err = provider:collect_garbage()
        assert.is_nil(value)
        assert.equal("gc_failed", err.code)
        assert.matches("Not a directory", err.message)
        assert(workspace:dispose())
        assert.same({ "root" }, scratch.list(folder))
    end)

    it("that is moved keeps its workspaces, which are disposed where they are", function()
        local workspace, provider = changed("mv root moved; mkdir -m 700 root")
        assert(workspace:write_file("f", "x"))
        assert.equal("x", scratch.read(("%s/moved/%s/f"):format(folder, workspace.id)))
        assert.equal(0, provider:collect_garbage())
        assert(workspace:dispose())
        assert.same({}, scratch.list(folder .. "/moved"))
        assert.same({}, scratch.list(root))
    end)

    it("that vanishes together with the supervisor leaves nothing to dispose of, and no error", function()
        local workspace = changed("true")
        local killer = "until [ -e go ]; do sleep 0.02; done; kill -KILL $1"
        assert(workspace:exec({ "sh", "-c", ("setsid sh -c '%s' sh $PPID >/dev/null 2>&1 &"):format(killer) }))
        local result, err = workspace:exec({ "sh", "-c", "touch go; exec sleep 60" })
        assert.is_nil(result)
        assert.equal("transport_lost", err.code)
        scratch.remove(root)
        assert(workspace:dispose())
    end)
end)
