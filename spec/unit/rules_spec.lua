local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local luajit = rawget(_G, "jit") ~= nil

-- Values of every type that is no string.
local function other_types()
    return { 5, 1.5, true, false, {}, print, coroutine.create(print), io.stdout, sandbox.null, n = 9 }
end

local function is_type_error(value, message)
    assert.matches("must be a string, got a " .. type(value) .. "$", message)
end

-- What a rule returns for wrong input: `nil, err`, nothing more.
local function refusal(code, rule, ...)
    local results = { n = select("#", rule(...)), rule(...) }
    assert.equal(2, results.n)
    assert.is_nil(results[1])
    local err = results[2]
    assert.is_true(sandbox.is_error(err, "ValidationError"), tostring(err))
    assert.equal(code, err.code)
    assert.not_matches("\n", err.message)
    return err.message
end

-- What a wrong configuration raises.
local function failure(code, rule, ...)
    local ok, err = pcall(function(...)
        rule(...)
        return nil -- so that the call is no tail call and this file is the caller
    end, ...)
    assert.is_false(ok)
    assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"), tostring(err))
    assert.equal(code, err.code)
    assert.matches("rules_spec%.lua:%d+$", err.where)
    return err.message
end

-- As one string, and only that.
local function only(...)
    assert.equal(1, select("#", ...))
    return (...)
end

describe("normalize_repo", function()
    it("gives each repository one URL that stays the same", function()
        local github = "https://github.com/owner/name.git"
        for input, url in pairs({
            ["owner/name"] = github,
            ["owner/name.git"] = github,
            ["https://github.com/owner/name"] = github,
            ["HTTPS://GITHUB.com:443/owner/name.git///"] = github,
            ["https://gitlab.com/a/b/c"] = "https://gitlab.com/a/b/c.git",
            ["https://bitbucket.org/a/b/"] = "https://bitbucket.org/a/b.git",
            ["https://codeberg.org/a/b.git"] = "https://codeberg.org/a/b.git",
            ["https://Example.com:8443/A/b%20c/"] = "https://example.com:8443/A/b%20c",
            ["https://[2001:DB8::1]/x"] = "https://[2001:db8::1]/x",
        }) do
            assert.equal(url, only(sandbox.normalize_repo(input)))
            assert.equal(url, only(sandbox.normalize_repo(url)))
        end
    end)

    it("accepts a file only when it is told so", function()
        local file = "file:///srv/git/repo"
        assert.equal(file, only(sandbox.normalize_repo(file .. "//", { allow_file_repos = true })))
        assert.matches("files are not accepted here", refusal("invalid_repo", sandbox.normalize_repo, file))
        refusal("invalid_repo", sandbox.normalize_repo, file, {})
        refusal("invalid_repo", sandbox.normalize_repo, file, { allow_file_repos = false })
    end)

    it("refuses everything else, and says why without showing it", function()
        for input, why in pairs({
            [""] = "is empty",
            ["name"] = "neither owner/name nor an https URL",
            ["http://host.example/s3cret"] = "a scheme",
            ["git@host.example:s3cret"] = "host:path",
            ["https://user:s3cret@host.example/x"] = "a user name or password",
            ["https://host.example/x?s3cret"] = "a query",
            ["https://host.example/x#s3cret"] = "a fragment",
            ["https://host.example/ s3cret"] = "white space",
            ["https://host.example/\0s3cret"] = "a control byte",
            ["https://host.example/s3cret\127"] = "a control byte",
            ["https://host.example\\s3cret"] = "a backslash",
            ["https://host.example/s3cret\195\164"] = "outside ASCII",
            ["https://s3cret..example/x"] = "an empty label",
            ["https://s3cret-.example/x"] = "begins or ends with a dash",
            ["https://s3cret:/x"] = "no port",
            ["https://s3cret:65536/x"] = "not from 1 to 65535",
            ["https://s3cret"] = "no path",
            ["https://host.example/s3cret//x"] = "an empty segment",
            ["https://host.example/s3cret/../x"] = "a . or .. segment",
            ["https://host.example/s3cret/%2E%2e/x"] = "a . or .. segment",
            ["https://host.example/s3cret/-x"] = "begins with a dash",
            ["https://host.example/s3cret%2fx"] = "an escaped slash",
            ["https://host.example/s3cret%0a"] = "an escaped control byte",
            ["https://host.example/s3cret%4"] = "a malformed escape",
            ["https://github.com/owner/s3cret/x"] = "owner/name",
            ["https://host.example/" .. ("s3cret"):rep(400)] = "more than 2048 bytes",
        }) do
            local message = refusal("invalid_repo", sandbox.normalize_repo, input, { allow_file_repos = true })
            assert.is_truthy(message:find(why, 1, true), message)
            assert.is_nil(message:find("s3cret", 1, true))
            assert.is_nil(message:find("host.example", 1, true))
        end
    end)

    it("refuses a value of any other type", function()
        for _, value in ipairs(other_types()) do
            is_type_error(value, refusal("invalid_repo", sandbox.normalize_repo, value))
        end
        assert.matches("got a nil", refusal("invalid_repo", sandbox.normalize_repo, nil))
        assert.matches("got a nil", refusal("invalid_repo", sandbox.normalize_repo))
    end)

    it("raises for wrong options", function()
        assert.matches('unknown option "allow_files"',
            failure("unknown_option", sandbox.normalize_repo, "a/b", { allow_files = true }))
        assert.matches('"allow_file_repos" must be a boolean, got a string',
            failure("invalid_option", sandbox.normalize_repo, "a/b", { allow_file_repos = "yes" }))
        failure("invalid_option", sandbox.normalize_repo, "a/b", true)
    end)
end)

describe("check_git_ref", function()
    -- What git says of the refs, in their order.
    local function ask_git(refs)
        local folder = scratch.folder()
        local lines = {}
        for _, ref in ipairs(refs) do
            local name = scratch.quote("refs/heads/" .. ref)
            table.insert(lines, ("git check-ref-format %s && echo y || echo n"):format(name))
        end
        scratch.write(folder .. "/ask", table.concat(lines, "\n"))
        local answers = scratch.shell("sh " .. folder .. "/ask")
        scratch.remove(folder)
        local list = {}
        for answer in answers:gmatch("[yn]") do
            table.insert(list, answer == "y")
        end
        assert.equal(#refs, #list)
        return list
    end

    local function expect_as_git(refs)
        for index, accepted in ipairs(ask_git(refs)) do
            local ref = refs[index]
            if accepted and ref:sub(1, 1) ~= "-" then
                assert.equal(ref, only(sandbox.check_git_ref(ref)), ("%q"):format(ref))
            else
                refusal("invalid_ref", sandbox.check_git_ref, ref)
            end
        end
    end

    it("says what git says", function()
        expect_as_git({
            "main", "a", "topic/one", "refs/heads/main", "refs/tags/v1.0", "HEAD", "@", "@a", "a@", "a@b{", "{a", "+a",
            ("0123456789"):rep(4), ("0123456789abcdef"):rep(4), "a-", "a/-b", "-a", "--upload-pack=x", "a.b",
            "a.lockb", "lock", "a.lock.b", "a!\"#$%&'()+,;<=>]_`|}", "\195\164", "\255\128", "a..b", "..", "a/../b",
            ".", ".a", "a/.b", "a.", "a./b", "a.lock", "a.lock/b", ".lock", "/", "/a", "a/", "a//b", "@{", "a@{1}",
            "a~1", "a^", "a:b", "a?", "a*", "[a", "a\\b", "a b", " ", "",
        })
    end)

    it("says what git says of every byte", function()
        local refs = {}
        for byte = 1, 255 do
            table.insert(refs, "a" .. string.char(byte) .. "b")
        end
        for _, byte in ipairs({ 0x20, 0x2e, 0x2f, 0x40, 0x7f, 0x80, 0xff }) do
            table.insert(refs, string.char(byte))
            table.insert(refs, "a" .. string.char(byte))
            table.insert(refs, string.char(byte) .. "a")
        end
        expect_as_git(refs)
    end)

    it("says what git says of names at random", function()
        local parts = { "a", "b", ".", "/", "..", ".lock", "@", "{", "-", "lo", "ck", "\127", "\195\164", "x" }
        local random = 1
        local function next_random(limit)
            random = (random * 16807) % 2147483647 -- exact in doubles
            return random % limit + 1
        end
        local refs = {}
        for _ = 1, 300 do
            local ref = {}
            for _ = 1, next_random(7) do
                table.insert(ref, parts[next_random(#parts)])
            end
            table.insert(refs, table.concat(ref))
        end
        expect_as_git(refs)
    end)

    it("takes 1 to 255 bytes without NUL", function()
        local longest = ("a"):rep(255)
        assert.equal(longest, only(sandbox.check_git_ref(longest)))
        assert.matches("256 bytes; at most 255", refusal("invalid_ref", sandbox.check_git_ref, longest .. "a"))
        assert.matches("is empty", refusal("invalid_ref", sandbox.check_git_ref, ""))
        assert.matches("a control byte", refusal("invalid_ref", sandbox.check_git_ref, "a\0b"))
    end)

    it("refuses a value of any other type", function()
        for _, value in ipairs(other_types()) do
            is_type_error(value, refusal("invalid_ref", sandbox.check_git_ref, value))
        end
        refusal("invalid_ref", sandbox.check_git_ref)
    end)
end)

describe("resolve_workspace_path", function()
    it("gives the absolute path", function()
        for path, absolute in pairs({
            ["."] = "/workspace",
            ["/workspace"] = "/workspace",
            ["/workspace//"] = "/workspace",
            ["a"] = "/workspace/a",
            ["./a//b/../c/"] = "/workspace/a/c",
            ["/workspace/a/."] = "/workspace/a",
            ["../workspace/src"] = "/workspace/src",
            ["/etc/../workspace/a"] = "/workspace/a",
            ["..."] = "/workspace/...",
            ["-a b\n"] = "/workspace/-a b\n",
        }) do
            assert.equal(absolute, only(sandbox.resolve_workspace_path(path)))
            assert.equal(absolute, only(sandbox.resolve_workspace_path(absolute)))
        end
    end)

    it("refuses what is outside, empty, too long or has NUL bytes", function()
        for _, path in ipairs({ "..", "/", "/etc", "a/../..", "/workspaces", "/workspace/..", "../Workspace" }) do
            assert.matches("leads out of the workspace", refusal("invalid_path", sandbox.resolve_workspace_path, path))
        end
        assert.matches("is empty", refusal("invalid_path", sandbox.resolve_workspace_path, ""))
        assert.matches("NUL", refusal("invalid_path", sandbox.resolve_workspace_path, "a\0b"))
        assert.equal("/workspace/" .. ("a"):rep(4096), sandbox.resolve_workspace_path(("a"):rep(4096)))
        assert.matches("4097 bytes", refusal("invalid_path", sandbox.resolve_workspace_path, ("a"):rep(4097)))
    end)

    it("refuses a value of any other type", function()
        for _, value in ipairs(other_types()) do
            is_type_error(value, refusal("invalid_path", sandbox.resolve_workspace_path, value))
        end
        refusal("invalid_path", sandbox.resolve_workspace_path)
    end)
end)

describe("quantities", function()
    it("of CPU are cores", function()
        for text, cores in pairs({
            ["1"] = 1, ["500m"] = 0.5, ["0.1"] = 0.1, ["100m"] = 0.1, [".5"] = 0.5, ["2."] = 2, ["1e-1"] = 0.1,
            ["1k"] = 1000, ["1100m"] = 1.1, ["4.35"] = 4.35, ["0.0000000001"] = 1e-9,
        }) do
            assert.equal(cores, only(sandbox.parse_cpu(text)))
        end
    end)

    it("of memory are bytes, rounded up", function()
        for text, bytes in pairs({
            ["1"] = 1, ["0.1"] = 1, ["1.5"] = 2, ["1500m"] = 2, ["1k"] = 1000, ["1Ki"] = 1024, ["2Gi"] = 2147483648,
            ["1.1Mi"] = 1153434, ["512Mi"] = 536870912, ["1E3"] = 1000, ["12e+2"] = 1200, ["1e-3"] = 1, ["1T"] = 1e12,
            ["9007199254740992"] = 2 ^ 53, ["8Pi"] = 2 ^ 53,
        }) do
            local result = only(sandbox.parse_memory(text))
            assert.equal(bytes, result)
            if math.type then
                assert.equal("integer", math.type(result))
            end
        end
    end)

    it("go up to the largest integer that this Lua counts to", function()
        if luajit then
            for _, parse in ipairs({ sandbox.parse_memory, sandbox.parse_cpu }) do
                assert.equal(2 ^ 53, parse("9007199254740992"))
                assert.matches("at most 2^53", failure("invalid_option", parse, "9.1P"), 1, true)
            end
            assert.matches("at most 2^53", failure("invalid_option", sandbox.parse_memory, "9007199254740993"), 1, true)
            failure("invalid_option", sandbox.parse_memory, "9007199254740992.1")
        else
            assert.equal(math.maxinteger, sandbox.parse_memory("9223372036854775807"))
            assert.equal(9007199254740993, sandbox.parse_memory("9007199254740993"))
            assert.equal(2 ^ 63, sandbox.parse_cpu("9223372036854775807"))
        end
        for _, parse in ipairs({ sandbox.parse_memory, sandbox.parse_cpu }) do
            for _, text in ipairs({ "9223372036854775808", "8Ei", "1e19", "1e99999999999", "99E" }) do
                assert.matches("is too large", failure("invalid_option", parse, text))
            end
        end
    end)

    it("raise for anything else and do not show it", function()
        for what, parse in pairs({ parse_cpu = sandbox.parse_cpu, parse_memory = sandbox.parse_memory }) do
            for _, text in ipairs({ "", " 1", "1 ", "-1", "+1", ".", "m", "1K", "1ki", "1GB", "1e", "1e1.5", "1.2.3",
                "0x10", "1,5", "inf", "nan", "s3cret", "1\0" }) do
                local message = failure("invalid_option", parse, text)
                assert.matches("^" .. what .. ": the value must be an amount without a sign such as 500m", message)
                assert.not_matches("s3cret", message)
            end
            for _, text in ipairs({ "0", "0.0", "0m", "0Ei", "0e9" }) do
                assert.matches("must be more than zero", failure("invalid_option", parse, text))
            end
            assert.matches("at most 64 bytes", failure("invalid_option", parse, ("1"):rep(65)))
            for _, value in ipairs(other_types()) do
                is_type_error(value, failure("invalid_option", parse, value))
            end
            failure("invalid_option", parse)
        end
    end)
end)

describe("resolve_limits", function()
    local defaults = { cpu = "1", memory = "2Gi", storage = "4Gi", pids = 512, timeout_ms = 1800000 }

    it("starts with the defaults, as a new table each time", function()
        assert.same(defaults, only(sandbox.resolve_limits()))
        assert.same(defaults, sandbox.resolve_limits(nil, {}, nil))
        local limits = sandbox.resolve_limits()
        limits.cpu = "64"
        sandbox.DEFAULT_LIMITS.pids = 1
        assert.same(defaults, sandbox.resolve_limits())
        sandbox.DEFAULT_LIMITS.pids = 512
    end)

    it("lets later layers win, field by field", function()
        local first = { cpu = "500m", pids = 64 }
        local second = { pids = 128, memory = "1G" }
        local expected = { cpu = "500m", memory = "1G", storage = "4Gi", pids = 128, timeout_ms = 5 }
        assert.same(expected, sandbox.resolve_limits(first, nil, second, { timeout_ms = 5 }))
        assert.same({ cpu = "500m", pids = 64 }, first)
        assert.same({ pids = 128, memory = "1G" }, second)
    end)

    it("raises for a wrong layer, and names the field but not its value", function()
        for field, values in pairs({
            cpu = { "", "0", "-1", "s3cret", 1, true },
            memory = { "2GB", "0", 1024, {} },
            storage = { "lots", "1e19", 1 },
            pids = { 0, -1, 1.5, "64", 0 / 0, math.huge },
            timeout_ms = { 0, -1, 0.5, "1000", 2 ^ 60 },
        }) do
            for _, value in ipairs(values) do
                local message = failure("invalid_option", sandbox.resolve_limits, nil, { [field] = value })
                assert.matches('^resolve_limits: layer 2 has a wrong field "' .. field .. '": it ', message)
                assert.not_matches("s3cret", message)
            end
        end
        assert.matches('layer 1 has the unknown field "timeoutMs"',
            failure("invalid_option", sandbox.resolve_limits, { timeoutMs = 5 }))
        assert.matches("layer 1 must be a table, got a string", failure("invalid_option", sandbox.resolve_limits, "1"))
        failure("invalid_option", sandbox.resolve_limits, false)
    end)
end)

describe("assert_sandbox_env", function()
    it("returns nothing for an environment, or for none", function()
        for _, env in ipairs({ {}, { A = "" }, { _a1 = "x=y\n\255" } }) do
            assert.equal(0, select("#", sandbox.assert_sandbox_env(env)))
        end
        assert.equal(0, select("#", sandbox.assert_sandbox_env(nil)))
        assert.equal(0, select("#", sandbox.assert_sandbox_env()))
    end)

    it("raises for anything else; names the variable but never shows a value", function()
        local check = sandbox.assert_sandbox_env
        for _, name in ipairs({ "", "1A", "A B", "A=s3cret", "A\0", "A-B", "\195\164" }) do
            local message = failure("invalid_option", check, { [name] = "s3cret" })
            assert.matches("^assert_sandbox_env: the environment has a name that is not made of letters", message)
            assert.not_matches("s3cret", message)
        end
        assert.matches("a value with a NUL byte: TOKEN", failure("invalid_option", check, { TOKEN = "s3cret\0" }))
        assert.matches("no string but a number: N", failure("invalid_option", check, { N = 1 }))
        assert.matches("no string but a boolean: B", failure("invalid_option", check, { B = false }))
        assert.matches("a key that is no string but a number", failure("invalid_option", check, { "A=s3cret" }))
        assert.matches("must be a table of strings, got a string", failure("invalid_option", check, "A=s3cret"))
        failure("invalid_option", check, false)
    end)

    it("takes no entry that is too long to start a command with", function()
        assert.equal(0, select("#", sandbox.assert_sandbox_env({ A = ("x"):rep(131069) })))
        assert.matches("too long, at most 131071 bytes with its name: A",
            failure("invalid_option", sandbox.assert_sandbox_env, { A = ("x"):rep(131070) }))
    end)

    it("is what the local provider asks too", function()
        local create = require("chamvi.sandbox.local").create_local_sandbox
        assert.matches('option "env" has a value that is too long',
            failure("invalid_option", create, { env = { A = ("x"):rep(131070) } }))
    end)
end)

describe("the limits of a local create", function()
    it("are held to the same rules, though only the lifetime means something", function()
        local provider = require("chamvi.sandbox.local").create_local_sandbox()
        local wrong = { cpu = "0", memory = "2GB", storage = "x", pids = 0, timeout_ms = 0.5, disk = "1" }
        for field, value in pairs(wrong) do
            local message = failure("invalid_option", provider.create, provider,
                { run_id = "r", limits = { [field] = value } })
            assert.matches('option "limits" has .*"' .. field .. '"', message)
        end
    end)
end)

describe("uuid", function()
    it("is a version 4 UUID, another one each time", function()
        local seen = {}
        for _ = 1, 1000 do
            local uuid = only(sandbox.uuid())
            assert.matches("^%x%x%x%x%x%x%x%x%-%x%x%x%x%-4%x%x%x%-[89ab]%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$", uuid)
            assert.equal(uuid:lower(), uuid)
            assert.is_nil(seen[uuid])
            seen[uuid] = true
        end
    end)
end)
