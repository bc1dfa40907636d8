local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local MAX = sandbox.FILE_MAX_BYTES

local function sh(script)
    return { "sh", "-c", script }
end

-- Calls several functions side by side and gives a list of their first results; each second one must be nil.
local function all(functions)
    local values = {}
    sandbox.run(function()
        for index, packed in ipairs(sandbox.all(functions)) do
            assert.is_nil(packed[2])
            values[index] = packed[1]
        end
    end)
    return values
end

describe("the files of a workspace", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    local function run(workspace, script)
        local result = assert(workspace:exec(sh(script)))
        assert.equal("", result.stderr)
        assert.equal(0, result.exit_code)
        return result.stdout
    end

    local function refused(code, value, err)
        assert.is_nil(value)
        assert.is_true(sandbox.is_error(err, "SandboxError"), tostring(err))
        assert.equal(code, err.code)
    end

    describe("at the same time", function()
        it("are read whole while they are written", function()
            place.with(function(workspace)
                local texts = { ("a"):rep(100), ("b"):rep(300000) }
                assert.is_true(workspace:write_file("f", texts[1]))
                sandbox.run(function()
                    local reader = sandbox.spawn(function()
                        return workspace:exec(sh([[
                            reads=0
                            while [ ! -e stop ]; do
                                reads=$((reads + 1))
                                case $(tr -d '\n' < f | tr -s ab | wc -c -) in 1*) ;; *) echo torn; exit ;; esac
                                size=$(wc -c < f)
                                case $size in 100 | 300000) ;; *) echo "size $size"; exit ;; esac
                            done
                            echo whole
                        ]]))
                    end)
                    for index = 1, 200 do
                        assert(workspace:write_file("f", texts[index % 2 + 1]))
                        local text = assert(workspace:read_file("f"))
                        assert.is_true(text == texts[index % 2 + 1])
                    end
                    assert(workspace:write_file("stop", ""))
                    assert.equal("whole\n", assert(reader:join()).stdout)
                end)
            end)
        end)

        it("are many: a hundred writes, then a hundred reads, of 64 KiB to 1 MiB", function()
            place.with(function(workspace)
                local writes, reads = {}, {}
                local function text(index)
                    return ("%08d"):format(index):rep(8192 * (index % 16 + 1))
                end
                for index = 1, 100 do
                    writes[index] = function()
                        return workspace:write_file("dir/" .. index, text(index))
                    end
                    reads[index] = function()
                        return workspace:read_file("dir/" .. index) == text(index)
                    end
                end
                for _, ok in ipairs(all(writes)) do
                    assert.is_true(ok)
                end
                local results = all(reads)
                assert.equal(100, #results)
                for _, ok in ipairs(results) do
                    assert.is_true(ok)
                end
                assert.equal("100\n", run(workspace, "ls -A dir | wc -l"))
            end)
        end)

        it("do not wait for a loud command, nor it for them", function()
            place.with(function(workspace)
                assert.is_true(workspace:write_file("f", ("x"):rep(MAX)))
                local printed, functions = 0, {}
                functions[1] = function()
                    local result = assert(workspace:exec({ "head", "-c", "50000000", "/dev/zero" }, {
                        on_output = function(_, chunk)
                            printed = printed + #chunk
                        end,
                    }))
                    return result.stdout_bytes
                end
                for index = 2, 20 do
                    functions[index] = function()
                        return #assert(workspace:read_file("f"))
                    end
                end
                local results = all(functions)
                assert.equal(50000000, results[1])
                assert.equal(50000000, printed)
                for index = 2, 20 do
                    assert.equal(MAX, results[index])
                end
            end)
        end)
    end)

    describe("of a workspace that ends", function()
        it("are disposed: reads and writes under way, and later ones", function()
            place.with(function(workspace)
                assert.is_true(workspace:write_file("f", ("x"):rep(MAX)))
                sandbox.run(function()
                    local tasks = {}
                    for index = 1, 60 do
                        tasks[index] = sandbox.spawn(function()
                            if index % 2 == 0 then
                                return workspace:read_file("f")
                            end
                            return workspace:write_file("g" .. index, ("y"):rep(MAX))
                        end)
                    end
                    coroutine.yield()
                    assert(workspace:dispose())
                    for _, task in ipairs(tasks) do
                        local value, err = task:join()
                        if not value then
                            assert.equal("disposed", err.code)
                        end
                    end
                end)
                refused("disposed", workspace:read_file("f"))
                refused("disposed", workspace:write_file("f", ""))
            end)
        end)

        it("are gone with its folder", function()
            for _, script in ipairs({ "rm -rf %s", "mv %s %s.moved; mkdir %s; mv %s.moved %s/moved" }) do
                for _, name in ipairs({ "read_file", "write_file" }) do
                    place.with(function(workspace)
                        local path = place.path(workspace)
                        scratch.shell(script:format(path, path, path, path, path))
                        refused("gone", workspace[name](workspace, "f", "text"))
                        assert.is_true(workspace.disposed)
                        refused("gone", workspace:read_file("f"))
                    end)
                end
            end
        end)

        it("are lost with its supervisor", function()
            place.with(function(workspace)
                assert.is_true(workspace:write_file("f", ("x"):rep(MAX)))
                sandbox.run(function()
                    local tasks = { sandbox.spawn(workspace.exec, workspace, sh("kill -9 $PPID; sleep 60")) }
                    for index = 2, 40 do
                        tasks[index] = sandbox.spawn(workspace.read_file, workspace, "f")
                    end
                    for _, task in ipairs(tasks) do
                        local value, err = task:join()
                        if not value then
                            assert.equal("transport_lost", err.code)
                        end
                    end
                end)
                refused("gone", workspace:read_file("f"))
                refused("gone", workspace:write_file("f", ""))
            end)
        end)
    end)
end)
