local programs = require "spec.support.programs"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local MAX = sandbox.FILE_MAX_BYTES

local function sh(script)
    return { "sh", "-c", script }
end

describe("the files of a workspace", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    local function run(workspace, script)
        local result = assert(workspace:exec(sh(script)))
        assert.equal("", result.stderr)
        assert.equal(0, result.exit_code)
        return result.stdout
    end

    -- Asserts an error of the code, one line that tells the path, and gives its message.
    local function failed(code, name, value, err)
        assert.is_nil(value)
        assert.is_true(sandbox.is_error(err, name), tostring(err))
        assert.equal(code, err.code)
        assert.is_nil(err.message:find("\n", 1, true))
        return err.message
    end

    local function refused(code, value, err)
        return failed(code, "SandboxError", value, err)
    end

    describe("read_file and write_file", function()
        it("bring what was written, of any length", function()
            place.with(function(workspace)
                for _, text in ipairs({ "", "a", "line\n", "a\0b\0", "\195\164\226\130\172\240\159\146\169" }) do
                    assert.is_true(workspace:write_file("f", text))
                    assert.equal(text, workspace:read_file("f"))
                    assert.equal(text, scratch.read(place.path(workspace) .. "/f"))
                end
                for _, size in ipairs({ 255, 32768, 32769, 65536, 262145, MAX - 1, MAX }) do
                    local text = ("0123456789abcdef"):rep(math.ceil(size / 16)):sub(1, size)
                    assert.is_true(workspace:write_file("f", text))
                    assert.is_true(text == workspace:read_file("f"))
                    assert.is_true(text == scratch.read(place.path(workspace) .. "/f"))
                end
            end)
        end)

        it("take paths relative to the root and below /workspace", function()
            place.with(function(workspace)
                assert.is_true(workspace:write_file("/workspace/a/b/f", "1"))
                for _, path in ipairs({
                    "a/b/f",
                    "./a//b/./f",
                    "a/../a/b/f",
                    "/workspace/a/b/f",
                    "/workspace/../workspace/a/b/f",
                    "../workspace/a/b/f",
                }) do
                    assert.equal("1", workspace:read_file(path))
                end
                assert.equal("755 755 644", run(workspace, "stat -c %a a a/b a/b/f | tr '\\n' ' '"):sub(1, -2))
            end)
        end)

        it("write any bytes, and read only UTF-8", function()
            place.with(function(workspace)
                local bytes = {}
                for byte = 0, 255 do
                    bytes[byte + 1] = string.char(byte)
                end
                bytes = table.concat(bytes)
                assert.is_true(workspace:write_file("f", bytes))
                assert.equal(bytes, scratch.read(place.path(workspace) .. "/f"))
                assert.matches('"f" is no UTF%-8 text', refused("not_utf8", workspace:read_file("f")))
                for _, text in ipairs({
                    "\128",
                    "a\192\128", -- overlong
                    "\224\159\191",
                    "\240\143\191\191",
                    "\237\160\128", -- a surrogate
                    "\244\144\128\128", -- past U+10FFFF
                    "\245\128\128\128",
                    "text \226\130", -- cut off
                    ("x"):rep(40000) .. "\255" .. ("x"):rep(40000),
                }) do
                    assert.is_true(workspace:write_file("f", text))
                    refused("not_utf8", workspace:read_file("f"))
                end
                -- The first and the last of each length, and a character that lies in two frames.
                for _, text in ipairs({
                    "\0\127",
                    "\194\128\223\191",
                    "\224\160\128\237\159\191\238\128\128\239\191\191",
                    "\240\144\128\128\244\143\191\191",
                    "\239\187\191with a byte order mark",
                    ("x"):rep(32767) .. "\226\130\172" .. ("x"):rep(32768),
                }) do
                    assert.is_true(workspace:write_file("f", text))
                    assert.equal(text, workspace:read_file("f"))
                end
            end)
        end)

        it("refuse what is no path or no content, as a model's error", function()
            place.with(function(workspace)
                for _, path in ipairs({ "", "a\0b", "../f", "/etc/passwd", "/", "..", "a/../../f", ("p"):rep(4097) }) do
                    failed("invalid_path", "ValidationError", workspace:read_file(path))
                    failed("invalid_path", "ValidationError", workspace:write_file(path, ""))
                end
                for _, path in ipairs({ 5, true, { "f" }, print }) do
                    assert.matches("got a", failed("invalid_path", "ValidationError", workspace:read_file(path)))
                    failed("invalid_path", "ValidationError", workspace:write_file(path, ""))
                end
                failed("invalid_path", "ValidationError", workspace:read_file())
                -- A path that only the file system finds too long.
                failed("invalid_path", "ValidationError", workspace:read_file(("n"):rep(256)))
                failed("invalid_path", "ValidationError", workspace:write_file("a/" .. ("n"):rep(256), ""))
                failed("invalid_path", "ValidationError", workspace:write_file(("n/"):rep(2047) .. "nn", ""))
                for _, content in ipairs({ 5, true, {}, print }) do
                    local message = failed("invalid_input", "ValidationError", workspace:write_file("f", content))
                    assert.matches("must be a string, got a " .. type(content), message)
                end
                failed("invalid_input", "ValidationError", workspace:write_file("f"))
                refused("file_not_found", workspace:read_file("f"))
            end)
        end)

        it("refuse more than FILE_MAX_BYTES", function()
            place.with(function(workspace)
                run(workspace, "head -c 1048577 /dev/zero > large; truncate -s 1T sparse; truncate -s 1048576 fits")
                for _, name in ipairs({ "large", "sparse" }) do
                    local message = refused("file_too_large", workspace:read_file(name))
                    assert.matches('"' .. name .. '" has more than 1048576 bytes', message)
                end
                assert.is_true(("\0"):rep(MAX) == workspace:read_file("fits"))
                assert.is_true(workspace:write_file("fits", "kept"))
                refused("file_too_large", workspace:write_file("fits", ("x"):rep(MAX + 1)))
                refused("file_too_large", workspace:write_file("new", ("x"):rep(8 * MAX)))
                assert.equal("kept", workspace:read_file("fits"))
                refused("file_not_found", workspace:read_file("new"))
            end)
        end)

        it("are for regular files, and wait for nobody", function()
            place.with(function(workspace)
                run(workspace, "mkdir dir; mkfifo fifo; ln -s fifo to_fifo; ln -s dir to_dir; echo text > f")
                for _, path in ipairs({
                    "dir",
                    "fifo",
                    "to_fifo",
                    "to_dir",
                    ".",
                    "/workspace",
                    "/workspace/",
                    "dir/",
                    "dir/.",
                    "dir/..",
                    "f/",
                    "f/../f/",
                    "new/",
                }) do
                    refused("not_a_file", workspace:read_file(path))
                    refused("not_a_file", workspace:write_file(path, "new"))
                end
                refused("not_a_file", workspace:write_file("f/x", "new"))
                refused("not_a_file", workspace:read_file("f/x"))
                assert.equal("text\n", workspace:read_file("f"))
                refused("file_not_found", workspace:read_file("new"))
            end)
        end)

        it("tell what is not there", function()
            place.with(function(workspace)
                run(workspace, "ln -s none dangling; ln -s loop loop")
                assert.matches('"none": list its folder', refused("file_not_found", workspace:read_file("none")))
                refused("file_not_found", workspace:read_file("none/of/it"))
                refused("file_not_found", workspace:read_file("dangling"))
                refused("file_failed", workspace:read_file("loop"))
                refused("file_failed", workspace:write_file("loop", "new"))
                local message = refused("file_not_found", workspace:read_file("a\nb\27" .. ("c"):rep(250)))
                assert.matches('"a%?b%?c+%.%.%."', message)
            end)
        end)
    end)

    describe("links", function()
        -- What a link holds, with the workspace's own folder for FOLDER; what reading it gives.
        local INSIDE = {
            { link = "file", read = "f" },
            { link = "dir/g", read = "g" },
            { link = "dir/../file", read = "f" },
            { link = "FOLDER/file", read = "f" },
            { link = "FOLDER/dir/../dir/g", read = "g" },
            { link = "FOLDER/to_dir/g", read = "g" },
            { link = "/workspace/file", read = "f" },
            { link = "/workspace/to_dir/g", read = "g" },
            { link = "to_dir/back", read = "f" },
            { link = "alias_dir/g", read = "g" },
        }
        local OUTSIDE = {
            "/etc/passwd",
            "/dev/zero",
            "/",
            "..",
            "../outside",
            "FOLDER/../outside",
            "/workspace/../outside",
            "/workspaces",
            "FOLDERx",
            "dir/../../outside",
            "to_out/f",
        }

        local function prepare(workspace)
            run(workspace, [[
                mkdir dir; printf f > file; printf g > dir/g; ln -s dir to_dir; ln -s ../file dir/back
                ln -s /workspace/dir alias_dir; ln -s .. to_out
            ]])
        end

        local function link(workspace, text)
            text = text:gsub("FOLDER", place.path(workspace))
            assert(workspace:exec({ "ln", "-sfn", text, "link" }))
        end

        it("that stay inside are followed by a read", function()
            place.with(function(workspace)
                prepare(workspace)
                for _, case in ipairs(INSIDE) do
                    link(workspace, case.link)
                    assert.equal(case.read, workspace:read_file("link"))
                end
            end)
        end)

        it("that stay inside are followed by a write, and stay", function()
            place.with(function(workspace)
                prepare(workspace)
                for _, case in ipairs(INSIDE) do
                    link(workspace, case.link)
                    assert.is_true(workspace:write_file("link", "new"))
                    assert.equal("symbolic link", run(workspace, "stat -c %F link"):sub(1, -2))
                    local target = case.read == "f" and "file" or "dir/g"
                    assert.equal("new", scratch.read(place.path(workspace) .. "/" .. target))
                    assert.is_true(workspace:write_file(target, case.read))
                end
                for _, text in ipairs({ "made", "dir/made", "new/folder/made", "/workspace/also/made", "FOLDER/m" }) do
                    link(workspace, text)
                    assert.is_true(workspace:write_file("link", text))
                    assert.equal(text, run(workspace, "cat " .. text:gsub("^/workspace/", ""):gsub("^FOLDER/", "")))
                end
            end)
        end)

        it("that lead out are refused, on the way and at the end", function()
            local outside = place.root .. "/outside"
            scratch.write(outside, "outside")
            place.with(function(workspace)
                prepare(workspace)
                for _, text in ipairs(OUTSIDE) do
                    link(workspace, text)
                    for _, path in ipairs({ "link", "link/f" }) do
                        refused("outside_workspace", workspace:read_file(path))
                        assert.matches("leads out of the workspace",
                            refused("outside_workspace", workspace:write_file(path, "new")))
                    end
                end
            end)
            assert.equal("outside", scratch.read(outside))
            assert.same({ "outside" }, scratch.list(place.root))
            os.remove(outside)
        end)

        it("count by the folder's real path, too, where the root was given through a link", function()
            scratch.shell(("ln -s workspaces %s/through"):format(place.folder))
            local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = place.folder .. "/through" })
            local workspace = assert(provider:create({ run_id = "spec" }))
            run(workspace, ([[printf f > file; ln -s "$PWD/file" real; ln -s %s/through/%s/file given]]):format(
                place.folder, workspace.id))
            assert.equal("f", workspace:read_file("real"))
            assert.equal("f", workspace:read_file("given"))
            assert(workspace:dispose())
            os.remove(place.folder .. "/through")
        end)
    end)

    it("keep their mode when they are written again", function()
        place.with(function(workspace)
            for _, mode in ipairs({ "644", "755", "600", "400", "664" }) do
                run(workspace, ("rm -f f; echo old > f; chmod %s f"):format(mode))
                assert.is_true(workspace:write_file("f", "new"))
                assert.equal(mode .. "\n", run(workspace, "stat -c %a f"))
                assert.equal("new", run(workspace, "cat f"))
            end
            assert.equal(".git\nf\n", run(workspace, "ls -A"))
        end)
    end)

    it("are closed to who may not use them", function()
        local folder = scratch.folder()
        local report = programs.run_as(65534, "files_program.lua", folder)
        scratch.remove(folder)
        if not report then
            pending("needs setpriv")
            return
        end
        local denied = "SandboxError permission_denied"
        local expected = {
            "secret\t" .. denied,
            "shut/f\t" .. denied,
            "open_shut/f\t" .. denied,
            "closed/f\tok",
            "closed/f written\t" .. denied,
            "closed/new written\t" .. denied,
            "closed/new/f written\t" .. denied,
            "shut/f written\t" .. denied,
            "secret written\tok",
            "read_only written\tok",
            "secret 0",
            "read_only 444",
        }
        assert.equal(table.concat(expected, "\n") .. "\n", report)
    end)

    it("make a blocking call inside a callback an error, before anything is done", function()
        place.with(function(workspace)
            local ok, err
            assert(workspace:exec({ "echo", "x" }, {
                on_output = function()
                    ok, err = pcall(workspace.write_file, workspace, "f", "x")
                end,
            }))
            assert.is_false(ok)
            assert.matches("write_file waits", err)
            refused("file_not_found", workspace:read_file("f"))
        end)
    end)
end)
