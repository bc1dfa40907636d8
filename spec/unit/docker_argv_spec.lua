-- The arguments of commands on their way through JSON, in real shells.

local native = require "chamvi.sandbox.core"
local on_podman = require "chamvi.sandbox.docker.podman"
local scratch = require "spec.support.scratch"
local is_utf8 = require "chamvi.sandbox.is_utf8"
local utf8_argv = require "chamvi.sandbox.docker.argv"

local SHELLS = { "dash", "bash --posix", "busybox sh" }

-- Runs argv by the shell in the place of its first word.
local function run(shell, argv, stdin)
    local words = {}
    for index, argument in ipairs(argv) do
        words[index] = index == 1 and argument == "sh" and shell or scratch.quote(argument)
    end
    local script = os.tmpname() -- too long for an argument
    scratch.write(script, ("{ %s; } | %s 2>&1; echo"):format(stdin or ":", table.concat(words, " ")))
    local text = scratch.shell("sh " .. script)
    os.remove(script)
    return (text:gsub("\n$", ""))
end

describe("an argument", function()
    it("that is UTF-8 stays as it is", function()
        local argv = { "a", "é\\", "", "\n", "\226\130\172" }
        assert.equal(argv, utf8_argv(argv))
    end)

    for _, shell in ipairs(SHELLS) do
        it("that is not arrives all the same, by " .. shell, function()
            if not os.execute("command -v " .. shell:match("^%S+") .. " >/dev/null") then
                return pending(shell .. " is not installed")
            end
            local bytes = {}
            for byte = 1, 255 do
                bytes[byte] = string.char(byte)
            end
            local argv = { "printf", "[%s]", table.concat(bytes), "", "\255\n\n", "\\0377\255", "-\255", "%s\128", "é" }
            local encoded = utf8_argv(argv)
            for _, argument in ipairs(encoded) do
                assert.is_true(is_utf8(argument))
            end
            assert.equal("[" .. table.concat(argv, "][", 3) .. "]", run(shell, encoded))
            -- As long as an argument may be, each byte an escape, and broken into pieces at every place.
            for extra = 0, 5 do
                local long = ("x"):rep(extra) .. ("\255"):rep(131071 - extra)
                local pieces = utf8_argv({ "printf", "%s", long, "\255" })
                for _, argument in ipairs(pieces) do
                    assert.is_true(#argument < 131072)
                end
                assert.equal(long .. "\255", run(shell, pieces))
            end
        end)

        it("is passed on by the script for Podman, by " .. shell, function()
            if not os.execute("command -v " .. shell:match("^%S+") .. " >/dev/null") then
                return pending(shell .. " is not installed")
            end
            local argv = on_podman({ "sh", "-c", "printf '[%s]' \"$@\"; exit 7", "sh", "a b", "", "\n" }, false)
            assert.equal("[a b][][\n]7", run("sh -c '\"$@\"; printf %s $?' sh " .. shell, argv))
            argv = on_podman({ "sh", "-c", "head -c 3; exit 7" }, true)
            -- What is left is read to its end: the writer would be killed by SIGPIPE, and say so.
            assert.equal("abc7", run("sh -c '\"$@\"; printf %s $?' sh " .. shell, argv,
                "sh -c 'printf abc; head -c 3000000 /dev/zero' || echo broken >&2"))
            argv = on_podman({ "no-such-program" }, false)
            assert.matches("not found.*127$", run("sh -c '\"$@\"; printf %s $?' sh " .. shell, argv))
        end)
    end

    it("goes through JSON whole", function()
        for _, argument in ipairs(utf8_argv({ "\255\254", "\1\127" })) do
            local text = assert(native.json_encode({ argument }))
            assert.equal(argument, native.json_decode(text)[1])
        end
    end)
end)
