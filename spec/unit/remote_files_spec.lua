-- Files of a remote workspace on a transport that does whatever a spec wants.

local fails = require("spec.support.fails")("SandboxError")
local fake_transport = require "spec.support.fake_transport"
local file_commands = require "chamvi.sandbox.remote.file_commands"
local rejects = require("spec.support.fails")("ValidationError")
local sandbox = require "chamvi.sandbox"

local new = fake_transport.workspace
local DONE = "[1] + Done                 \n|0|"

describe("files of a remote workspace", function()
    -- One whose scripts print that and end so.
    local function printing(stdout, stderr, code)
        return new(function(call)
            call:run(stdout, stderr or "", code and ("|%d|"):format(code) or DONE)
            return { exit_code = 0 }
        end)
    end

    it("are given to the script as they are named, and never to a shell as words", function()
        local workspace, transport = printing("")
        assert.equal("", (workspace:read_file("a b/../-x\n'")))
        assert.is_true(workspace:write_file("/workspace/$(id)", "bytes\0\255"))
        local read, write = transport.calls[1], transport.calls[2]
        assert.equal("", read.argv[5])
        assert.equal("/workspace/-x\n'", read.argv[10])
        assert.is_nil(read.stdin)
        assert.equal("/workspace/$(id)", write.argv[10])
        assert.equal("7", write.argv[11])
        assert.equal("bytes\0\255", write.stdin)
    end)

    it("are checked before anything is sent", function()
        local workspace, transport = new(error)
        rejects("invalid_path", workspace:read_file("../x"))
        rejects("invalid_input", workspace:write_file("x", 7))
        fails("not_a_file", workspace:read_file("x/"))
        fails("file_too_large", workspace:write_file("x", ("x"):rep(sandbox.FILE_MAX_BYTES + 1)))
        assert.equal(0, #transport.calls)
    end)

    it("may be as large as is allowed, and no larger", function()
        local most = ("x"):rep(sandbox.FILE_MAX_BYTES)
        assert.equal(most, (printing(most):read_file("x")))
        fails("file_too_large", printing(most .. "x"):read_file("x"))
        fails("file_too_large", printing(most .. ("x"):rep(100000)):read_file("x"))
    end)

    it("are UTF-8 when read", function()
        for _, text in ipairs({ "é", "\239\191\189", "\0", "" }) do
            assert.equal(text, (printing(text):read_file("x")))
        end
        for _, text in ipairs({ "\255", "caf\233", "\195", "\237\160\128" }) do
            fails("not_utf8", printing(text):read_file("x"))
        end
    end)

    it("that can't be read or written have the error of the script", function()
        local cases = {
            { 40, "", "not_a_file" },
            { 41, "", "outside_workspace" },
            { 1, "head: cannot open '/workspace/x' for reading: No such file or directory\n", "file_not_found" },
            { 1, "head: error reading 'x': Is a directory", "not_a_file" },
            { 1, "mkdir: cannot create directory '/workspace/x': File exists\n", "not_a_file" },
            { 1, "sh: 3: cannot open /workspace/x: Permission denied\n", "permission_denied" },
            { 1, "sh: 3: cannot create ./x: Read-only file system\n", "permission_denied" },
            { 1, "cat: write error: No space left on device\n", "no_space" },
            { 1, "cat: write error: Disk quota exceeded\n", "no_space" },
            { 1, "head: cannot open 'x': Too many levels of symbolic links\n", "file_failed" },
            { 1, "named: Permission denied: head: x\n", "file_failed" },
            { 139, "", "file_failed" },
        }
        for index, case in ipairs(cases) do
            local read = fails(case[3], printing("", case[2], case[1]):read_file("path"))
            local write = fails(case[3], printing("", case[2], case[1]):write_file("path", "x"))
            assert.is_truthy(read.message:find('"path"', 1, true), index)
            assert.is_truthy(write.message:find('"path"', 1, true), index)
        end
        rejects("invalid_path", printing("", "sh: x: File name too long", 1):read_file("path"))
    end)

    it("that were not wholly delivered are as they were", function()
        local err = fails("transport_lost", printing("", "", 42):write_file("x", "content"))
        assert.matches("as it was", err.message)
    end)

    it("that are changed while they are looked at are tried again", function()
        for changes, code in pairs({ [0] = false, [1] = false, [4] = false, [5] = "file_failed" }) do
            local count = 0
            local workspace, transport = new(function(call)
                count = count + 1
                call:run(count > changes and "text" or "", "", count > changes and DONE or "|43|")
                return { exit_code = 0 }
            end)
            local text, err = workspace:read_file("x")
            assert.equal(code or nil, err and err.code)
            assert.equal(not code and "text" or nil, text)
            assert.equal(math.min(changes + 1, 5), #transport.calls)
        end
    end)

    it("that take too long are an error", function()
        local workspace = printing("", "", nil)
        assert.is_true(workspace:write_file("x", ""))
        workspace = new(function(call)
            call:run("half", "", "timeout: sending signal TERM\n|124|")
            return { exit_code = 0 }
        end)
        fails("file_failed", workspace:read_file("x"))
    end)

    it("whose transport fails are an error", function()
        local workspace = new(function()
            return nil, "cut off"
        end)
        fails("transport_lost", workspace:read_file("x"))
        fails("transport_lost", workspace:write_file("x", "y"))
        workspace = new(function(call)
            call:write("stdout", "half of")
            call:write("stderr", call:report("start 7") .. call:report("exit " .. DONE))
            return { exit_code = 0 }
        end)
        fails("transport_lost", workspace:read_file("x"))
    end)

    it("are written to a name that no other write has", function()
        assert.equal(".chamvi-id", file_commands.write("x", 1, "id")[7])
        local workspace, transport = printing("")
        assert(workspace:write_file("x", ""))
        assert(workspace:write_file("x", ""))
        assert.are_not.equal(transport.calls[1].argv[12], transport.calls[2].argv[12])
    end)
end)
