-- Commands of a remote workspace that do not begin, on a transport that does whatever a spec wants.

local fails = require("spec.support.fails")("SandboxError")
local fake_transport = require "spec.support.fake_transport"

local new = fake_transport.workspace

describe("a command of a remote workspace", function()
    it("is no_shell when the program could not be started and nothing was reported", function()
        local workspace = new(function(call)
            call:write("stdout", "exec: sh: not found")
            return { exit_code = 127 }
        end)
        local err = fails("no_shell", workspace:exec({ "x" }))
        assert.equal("exec: sh: not found", err.partial.stdout)
    end)

    it("is no_shell without GNU timeout, and start_failed where the system refuses", function()
        local notes = {
            ["sh: 1: timeout: not found\n[1] + Done(127)\n|127|"] = "no_shell",
            ["timeout: invalid option -- 'v'\n[1] + Done(125)\n|125|"] = "no_shell",
            ["Usage: timeout [-s SIG] SECS PROG ARGS\n[1] + Done(1)\n|1|"] = "no_shell",
            ["timeout: fork system call failed: Resource temporarily unavailable\n|125|"] = "start_failed",
            ["sh: timeout: Argument list too long\n|126|"] = "start_failed",
            ["sh: 1: Cannot fork"] = "start_failed",
            [""] = "start_failed",
        }
        for note, code in pairs(notes) do
            local workspace = new(function(call)
                call:write("stdout", call:report("end"))
                call:write("stderr", call:report("exit " .. note))
                return { exit_code = 0 }
            end)
            fails(code, workspace:exec({ "x" }))
        end
    end)

    it("is start_failed when the first shell was refused, with the words of whoever refused", function()
        local refusals = {
            { "stderr", "sh: 13: exec: sh: Argument list too long\n", 126 },
            { "stderr", "exec /usr/bin/sh: argument list too long\n", 1 },
            { "stdout", "message length 5246891 exceed maximum message size of 4194304: unknown\r\n", 126 },
            { "stdout", "\nOCI runtime exec failed: option: read init-p: connection reset by peer\n", 126 },
        }
        for _, refusal in ipairs(refusals) do
            local workspace = new(function(call)
                call:write(refusal[1], refusal[2])
                return { exit_code = refusal[3] }
            end)
            local words = refusal[2]:match("[^\r\n]+")
            for _, err in ipairs({
                fails("start_failed", workspace:exec({ "x" })),
                fails("start_failed", workspace:read_file("x")),
                fails("start_failed", workspace:write_file("x", "y")),
            }) do
                assert.equal("the command could not be started: " .. words, err.message)
                assert.equal(refusal[2], err.detail)
            end
        end
    end)

    it("is start_failed without the transport when no Linux takes that many bytes of arguments", function()
        local calls = 0
        local workspace = new(function(call)
            calls = calls + 1
            call:run("", "", "[1] + Done\n|0|")
            return { exit_code = 0 }
        end)
        local argv = {}
        for index = 1, 48 do
            argv[index] = ("x"):rep(131071)
        end
        assert(workspace:exec(argv))
        table.insert(argv, ("x"):rep(49))
        assert.matches("6291456 bytes together", fails("start_failed", workspace:exec(argv)).message)
        assert.equal(1, calls)
    end)

    it("is never start_failed when it may have run", function()
        local ways = {
            ["no words"] = { "", "", 126 },
            ["a code of a shell's own"] = { "", "sh: 4: Cannot fork\n", 2 },
            ["a shell that was killed"] = { "", "words", 137 },
            ["the shell's report lost"] = { "words", "words", 0 },
            ["an engine that does not know"] = { "", "words", 125 },
            ["a start"] = { "", "start", 1 },
            ["an end alone"] = { "end", "words", 1 },
            ["a stream that was lost"] = { "words", "words" },
        }
        for name, way in pairs(ways) do
            local workspace = new(function(call)
                call:write("stdout", way[1] == "end" and call:report("end") or way[1])
                call:write("stderr", way[2] == "start" and "words" .. call:report("start 7") or way[2])
                if way[3] then
                    return { exit_code = way[3] }
                end
                return nil, "the stream was lost"
            end)
            local _, err = workspace:exec({ "x" })
            assert.equal("transport_lost", err.code, name)
            fails("transport_lost", workspace:read_file("x"))
        end
    end)
end)
