-- What a server is asked to run for a command: with real shells in the place of the container's.

local command = require "chamvi.sandbox.k8s.command"
local scratch = require "spec.support.scratch"

local SHELLS = { "dash", "bash", "busybox sh" }

local bytes = {}
for byte = 1, 255 do
    bytes[byte] = string.char(byte)
end
local ALL = table.concat(bytes)

-- The argv that a server gets from the query.
local function argv_of(query)
    local argv = {}
    for word in query:gmatch("command=([^&]*)") do
        table.insert(argv, (word:gsub("%%(%x%x)", function(digits)
            return string.char(tonumber(digits, 16))
        end)))
    end
    return argv
end

-- Runs it by a shell, with more behind the input, as on a protocol that can't end it. Returns its output and exit code.
local function run(shell, folder, argv, stdin)
    local query, input = command.of(argv, stdin)
    local asked = argv_of(query)
    local words = {}
    for index, word in ipairs(asked) do
        words[index] = scratch.quote(word)
    end
    if asked[1] == "sh" then
        words[1] = shell
    end
    scratch.write(folder .. "/input", (input or "") .. "more")
    local from = input and folder .. "/input" or "/dev/null"
    local text = scratch.shell(("%s <%s 2>/dev/null; echo \"=$?\""):format(table.concat(words, " "), from))
    local output, code = text:match("^(.*)=(%d+)\n$")
    return output, tonumber(code)
end

describe("a command for a server", function()
    local folder
    setup(function()
        folder = scratch.folder()
    end)
    teardown(function()
        scratch.remove(folder)
    end)

    it("is in the URL as it is, where it fits", function()
        local query, input = command.of({ "echo", "a b", "&=%", "é" })
        assert.equal("command=echo&command=a%20b&command=%26%3D%25&command=%C3%A9", query)
        assert.is_nil(input)
        assert.is_nil(select(2, command.of({ "cat" }, "")))
    end)

    it("is not in the URL where it is too long, or no text", function()
        for _, word in ipairs({ ("x"):rep(10000), "\255" }) do
            local query, input = command.of({ "echo", word })
            assert.is_true(#query < 2000)
            assert.is_truthy(input:find(word, 1, true))
        end
    end)

    for _, shell in ipairs(SHELLS) do
        it("has its arguments and its standard input whole, by " .. shell, function()
            local print_all = { "sh", "-c", "printf '[%s]' \"$@\"; cat; exit 3", "sh" }
            local long = ("y"):rep(100000)
            local lists = { { "a" }, { "", " ", "a\n\n", "'", "-n" }, { ALL, ALL:reverse() }, { long, "z" } }
            for _, list in ipairs(lists) do
                local argv, expected = {}, ""
                for _, word in ipairs(print_all) do
                    table.insert(argv, word)
                end
                for _, word in ipairs(list) do
                    table.insert(argv, word)
                    expected = expected .. "[" .. word .. "]"
                end
                for _, stdin in ipairs({ false, "in\0put\n", ALL:rep(400) }) do
                    local output, code = run(shell, folder, argv, stdin or nil)
                    assert.is_true(output == expected .. (stdin or ""), #list[1])
                    assert.equal(3, code)
                end
            end
        end)

        it("that is not there is 127, by " .. shell, function()
            for _, argv in ipairs({ { "no-such-program" }, { "no-such-program", ALL } }) do
                for _, stdin in ipairs({ "x", false }) do
                    if stdin or #argv > 1 then
                        assert.equal(127, select(2, run(shell, folder, argv, stdin or nil)))
                    end
                end
            end
        end)

        it("does not run when a part of it is missing, by " .. shell, function()
            local query, input = command.of({ "touch", folder .. "/ran", "\255" })
            local words = {}
            for index, word in ipairs(argv_of(query)) do
                words[index] = scratch.quote(word)
            end
            words[1] = shell
            for _, length in ipairs({ 0, 1, #input - 5, #input - 1 }) do
                scratch.write(folder .. "/input", input:sub(1, length))
                local line = ("%s <%s/input 2>/dev/null; echo $?"):format(table.concat(words, " "), folder)
                assert.equal("125\n", scratch.shell(line))
            end
            assert.is_nil(scratch.read(folder .. "/ran"))
        end)
    end
end)
