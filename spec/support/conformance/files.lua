-- Files read and written.

local assert = require "luassert"
local sandbox = require "chamvi.sandbox"

return function(kit)
    local proves, fails, sh = kit.proves, kit.fails, kit.sh
    local MAX = sandbox.FILE_MAX_BYTES

    local function run(workspace, script, ...)
        local result = assert(workspace:exec(sh(script, ...)))
        assert.equal(0, result.exit_code, result.stderr)
        return result.stdout
    end

    proves("write_read", nil, function()
        kit.with(function(workspace)
            for _, text in ipairs({ "", "a", "line\nline\n", "\0\1\2", "é\n", ("x\n"):rep(100000) }) do
                assert.is_true(workspace:write_file("file", text))
                assert.equal(text, (workspace:read_file("file")))
                assert.equal(text, (workspace:read_file("/workspace/file")))
            end
            local bytes = {}
            for byte = 0, 255 do
                bytes[byte + 1] = string.char(byte)
            end
            assert(workspace:write_file("bytes", table.concat(bytes)))
            local sum = run(workspace, "cksum < bytes")
            assert.equal(sum, assert(workspace:exec({ "cksum" }, { stdin = table.concat(bytes) })).stdout)
        end)
    end)

    proves("read_regular", nil, function()
        kit.with(function(workspace)
            run(workspace, "mkdir folder; mkfifo pipe; echo text > file")
            for _, path in ipairs({ "folder", "pipe", "file/below", "." }) do
                fails("SandboxError", "not_a_file", workspace:read_file(path))
            end
            fails("SandboxError", "not_a_file", workspace:write_file("folder", "text"))
            fails("SandboxError", "not_a_file", workspace:write_file("file/below", "text"))
        end)
    end)

    proves("read_missing", nil, function()
        kit.with(function(workspace)
            run(workspace, "ln -s nowhere dangling")
            for _, path in ipairs({ "none", "none/below", "dangling" }) do
                fails("SandboxError", "file_not_found", workspace:read_file(path))
            end
        end)
    end)

    proves("read_size", nil, function()
        kit.with(function(workspace)
            local text = ("x"):rep(MAX)
            assert.is_true(workspace:write_file("most", text))
            assert.equal(text, (workspace:read_file("most")))
            fails("SandboxError", "file_too_large", workspace:write_file("more", text .. "x"))
            fails("SandboxError", "file_not_found", workspace:read_file("more"))
            run(workspace, "printf x >> most")
            fails("SandboxError", "file_too_large", workspace:read_file("most"))
        end)
    end)

    proves("read_utf8", nil, function()
        kit.with(function(workspace)
            assert(workspace:write_file("latin", "caf\233\n"))
            fails("SandboxError", "not_utf8", workspace:read_file("latin"))
        end)
    end)

    proves("write_folders", nil, function()
        kit.with(function(workspace)
            assert(workspace:write_file("a/b c/d", "text"))
            assert.equal("755 755\n", run(workspace, "echo $(stat -c %a a 'a/b c')"))
            assert.equal("text", (workspace:read_file("a/b c/d")))
        end)
    end)

    proves("write_atomic", nil, function()
        kit.with(function(workspace)
            local old, new = ("o"):rep(300000), ("n"):rep(300000)
            assert(workspace:write_file("file", old))
            sandbox.run(function()
                -- A reader that is always at it sees the one or the other, whole.
                local reader = sandbox.spawn(workspace.exec, workspace, sh([[
                    until [ -e stop ]; do
                        cp file seen
                        [ "$(wc -c < seen)" = 300000 ] && [ "$(head -c 1 seen)" = "$(tail -c 1 seen)" ] || echo torn
                    done
                    echo ended
                ]]))
                for index = 1, 20 do
                    assert(workspace:write_file("file", index % 2 == 0 and old or new))
                end
                assert(workspace:write_file("stop", ""))
                assert.equal("ended\n", assert(reader:join()).stdout)
            end)
            assert.equal(".git\nfile\nseen\nstop\n", run(workspace, "LC_ALL=C ls -A"))
        end)
    end)

    proves("write_mode", nil, function()
        kit.with(function(workspace)
            assert(workspace:write_file("new", "1"))
            assert.equal("644\n", run(workspace, "stat -c %a new"))
            run(workspace, "echo '#!/bin/sh' > tool; chmod 750 tool; echo secret > closed; chmod 600 closed")
            assert(workspace:write_file("tool", "#!/bin/sh\necho written\n"))
            assert(workspace:write_file("closed", "text"))
            assert.equal("750 600\n", run(workspace, "echo $(stat -c %a tool closed)"))
            assert.equal("written\n", run(workspace, "./tool"))
        end)
    end)

    proves("links_inside", nil, function()
        kit.with(function(workspace)
            run(workspace, [[
                mkdir folder; echo target > folder/target
                ln -s folder/target link; ln -s folder there; ln -s link second; ln -s /workspace/folder absolute
                ln -s folder/made dangling
            ]])
            for _, path in ipairs({ "link", "there/target", "second", "absolute/target" }) do
                assert.equal("target\n", (workspace:read_file(path)), path)
            end
            assert(workspace:write_file("second", "written"))
            assert(workspace:write_file("dangling", "made"))
            assert.equal("written", (workspace:read_file("folder/target")))
            assert.equal("made", (workspace:read_file("folder/made")))
            run(workspace, "[ -L link ] && [ -L second ] && [ -L dangling ] && [ ! -L folder/target ]")
        end)
    end)

    proves("links_outside", nil, function()
        kit.with(function(workspace)
            run(workspace, [[
                ln -s /etc/hostname file; ln -s /etc folder; ln -s ../../../../../etc/hostname up
                ln -s /tmp/no-such-file made; mkdir a; ln -s ../.. a/out
            ]])
            for _, path in ipairs({ "file", "folder/hostname", "up", "made", "a/out/x" }) do
                fails("SandboxError", "outside_workspace", workspace:read_file(path))
                fails("SandboxError", "outside_workspace", workspace:write_file(path, "text"))
            end
        end)
    end)

    proves("paths", nil, function()
        kit.with(function(workspace)
            local wrong = { "", "..", "a/../..", "/etc/passwd", "/workspacex", "a\0b", ("a"):rep(4097), 7, {}, true }
            for _, path in ipairs(wrong) do
                fails("ValidationError", "invalid_path", workspace:read_file(path))
                fails("ValidationError", "invalid_path", workspace:write_file(path, "text"))
            end
            fails("ValidationError", "invalid_path", workspace:read_file(nil))
        end)
    end)

    proves("names", nil, function()
        kit.with(function(workspace)
            local names = { "-x", "--", "a b", "a\nb", "'", '"', "$(id)", "`id`", "*", "?", "\\", "é", "\t", "a;b", "#",
                "~", "-n/-e/-", "...", " " }
            for _, name in ipairs(names) do
                assert.is_true(workspace:write_file(name, name))
                assert.equal(name, (workspace:read_file(name)))
                assert.equal(name, run(workspace, 'cat "./$1"', name))
            end
        end)
    end)

    proves("files_parallel", nil, function()
        kit.with(function(workspace)
            local functions = {}
            for index = 1, 8 do
                functions[index] = function()
                    local path, text = "folder/" .. index, ("%d\n"):format(index):rep(1000 * index)
                    assert(workspace:write_file(path, text))
                    local read = assert(workspace:read_file(path))
                    return read == text and run(workspace, 'cat "$1" | head -n 1', path)
                end
            end
            for index, packed in ipairs(sandbox.all(functions)) do
                assert.equal(index .. "\n", packed[1], tostring(packed[2]))
            end
        end)
    end)

    proves("content", nil, function()
        kit.with(function(workspace)
            for _, wrong in ipairs({ 7, {}, true, sandbox.null }) do
                fails("ValidationError", "invalid_input", workspace:write_file("file", wrong))
            end
            fails("ValidationError", "invalid_input", workspace:write_file("file", nil))
        end)
    end)

    proves("permission", nil, function()
        kit.with(function(workspace)
            if run(workspace, "id -u") == "0\n" then
                return -- root may touch anything
            end
            run(workspace, "mkdir shut; echo text > shut/file; echo text > file; chmod 0 file; chmod 0 shut")
            fails("SandboxError", "permission_denied", workspace:read_file("file"))
            fails("SandboxError", "permission_denied", workspace:read_file("shut/file"))
            fails("SandboxError", "permission_denied", workspace:write_file("shut/file", "text"))
            run(workspace, "chmod 700 shut")
        end)
    end)
end
