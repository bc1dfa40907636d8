local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local LUA = jit and "luajit" or "lua5.4"

describe("the examples", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    local function run(example)
        return scratch.shell(("TMPDIR=%s %s examples/%s"):format(place.folder, LUA, example))
    end

    it("hello", function()
        local output = run("hello.lua")
        assert.matches("^Hello from " .. place.folder:gsub("%-", "%%-") .. "/chamvi%-workspaces/", output)
        assert.matches("\nexit code 3 after %d+ ms\nValidationError: ", output)
    end)

    it("tasks", function()
        assert.equal("one\ntwo\nSandboxError: the call was aborted: no longer needed\n", run("tasks.lua"))
    end)

    it("manager", function()
        local repository = scratch.repository(place.folder .. "/managed")
        local output = run("manager.lua " .. place.folder .. "/managed")
        assert.equal(("commit %s\n?? notes/plan.md\nreused true\n"):format(repository.main)
            .. "SandboxError: no workspace found: the run has none, create one first\n", output)
        assert.same({}, scratch.list(place.folder .. "/chamvi-workspaces"))
    end)

    it("parallel runs", function()
        scratch.repository(place.folder .. "/shared")
        local output = run("parallel_runs.lua " .. place.folder .. "/shared")
        assert.equal("run-1\nrun-2\ntwo workspaces true\nSandboxError: the workspace manager is closed\n", output)
        assert.same({}, scratch.list(place.folder .. "/chamvi-workspaces"))
    end)

    it("tool loop", function()
        local id = ("%x"):rep(8) .. "%-[%x-]+"
        local expected = {
            '^%+ create_workspace: {"commit":null,"expiresAt":"[%dT:.-]+Z",.*"workspace":"' .. id .. '"}$',
            "^%+ write_file: true$",
            '^%- exec: {"error":{"code":"invalid_argv",.*"name":"ValidationError"}}$',
            '^%+ exec: {"exitCode":2,"stderr":"sum.sh: .*","stdout":""}$',
            "^%+ write_file: true$",
            '^%+ exec: {"exitCode":0,"stderr":"","stdout":"42\\n"}$',
            "^The script works: 20 %+ 22 is 42%.$",
        }
        local index = 0
        for line in run("tool_loop.lua"):gmatch("[^\n]+") do
            index = index + 1
            assert.matches(expected[index] or "no more", line)
        end
        assert.equal(#expected, index)
        assert.same({}, scratch.list(place.folder .. "/chamvi-workspaces"))
    end)

    it("demo", function()
        local repository = scratch.repository(place.folder .. "/a repository")
        local output = run("demo.lua " .. scratch.quote(place.folder .. "/a repository"))
        assert.matches("commit    " .. repository.main, output)
        assert.equal(3, select(2, output:gsub("exit code", "")))
        assert.matches("disposed: ", output)
        local wrong = {
            ["/no/such/place"] = "no folder /no/such/place",
            ["--help"] = "usage: ",
            ["ssh://git@example.com/x"] = "ValidationError: ",
            [place.folder] = "does not appear to be a git repository",
        }
        for argument, message in pairs(wrong) do
            local command = ("%s examples/demo.lua %s && exit 1 || true"):format(LUA, argument)
            local line = scratch.shell(("%sTMPDIR=%s %s"):format(scratch.unclosed, place.folder, command))
            assert.is_truthy(line:find(message, 1, true), line)
            assert.is_truthy(line:find("^[^\n]+\n$"), line)
        end
        assert.same({}, scratch.list(place.folder .. "/chamvi-workspaces"))
    end)
end)
