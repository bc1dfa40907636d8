-- What CONTRACT and reference say about the tools of a manager, sentence by sentence, over a manager that notes what
-- it is asked.

local errors = require "chamvi.sandbox.errors"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local workspace_tools = require "chamvi.sandbox.workspace_tools"

local LUA = jit and "luajit" or "lua5.4"
local ID = "0b1f3b7e-0000-4000-8000-000000000001"

-- A manager that gives `answer` and notes its calls.
local function manager_of(answer)
    local manager = { calls = {} }
    local function note(name)
        return function(_, ...)
            table.insert(manager.calls, { name, ... })
            return answer[1], answer[2]
        end
    end
    manager.acquire, manager.release = note("acquire"), note("release")
    return manager
end

local function workspace_of(info)
    return { id = ID, info = info or { expires_at = 0 } }
end

local function create_tool(answer, bound)
    local manager = manager_of(answer or { workspace_of(), false })
    return workspace_tools(manager, bound).create_workspace, manager.calls
end

local function dispose_tool(answer, bound)
    local manager = manager_of(answer or { true })
    return workspace_tools(manager, bound).dispose_workspace, manager.calls
end

local function assert_refused(message, result, err)
    assert.is_nil(result)
    assert.is_true(sandbox.is_error(err, "ValidationError"))
    assert.equal("invalid_input", err.code)
    assert.equal(message, err.message)
end

local LONG = ("x"):rep(64)
local CONTEXT = { run_id = "run" }

describe("the tools of a manager", function()
    local function each(fn)
        local tools = workspace_tools(manager_of({}))
        fn("create_workspace", tools.create_workspace)
        fn("dispose_workspace", tools.dispose_workspace)
    end

    it("are create_workspace and dispose_workspace, each under its name", function()
        local count = 0
        for name, tool in pairs(workspace_tools(manager_of({}))) do
            count = count + 1
            assert.equal(name, tool.name)
        end
        assert.equal(2, count)
        each(function(name, tool)
            assert.equal(name, tool.name)
        end)
    end)

    it("have a name, a description, an input_schema and execute, and nothing else", function()
        each(function(_, tool)
            local types = {}
            for field, value in pairs(tool) do
                types[field] = type(value)
            end
            assert.same(
                { name = "string", description = "string", input_schema = "table", execute = "function" }, types)
        end)
    end)

    it("are plain tables of strings, tables and functions, none of them empty", function()
        local function check(value, path)
            local kind = type(value)
            if kind ~= "table" then
                -- JSON Schema's "nothing else" is a boolean.
                assert.is_true(kind == "string" or kind == "function" or value == false, path)
                return
            end
            assert.is_nil(getmetatable(value), path)
            assert.is_truthy(next(value), path)
            for key, element in pairs(value) do
                check(element, path .. "." .. key)
            end
        end
        each(function(name, tool)
            check(tool, name)
        end)
    end)

    it("are new tables with every call", function()
        local manager = manager_of({})
        local function tables(value, found)
            found[value] = true
            for _, element in pairs(value) do
                if type(element) == "table" then
                    tables(element, found)
                end
            end
            return found
        end
        local first, second = tables(workspace_tools(manager), {}), tables(workspace_tools(manager), {})
        for value in pairs(first) do
            assert.is_nil(second[value])
        end
    end)

    it("take the reference's fields and no others: repo and ref, both optional, and a required workspace", function()
        local function without_words(schema)
            for _, property in pairs(schema.properties) do
                assert.is_true(#property.description > 20)
                property.description = nil
            end
            return schema
        end
        local tools = workspace_tools(manager_of({}))
        assert.same({
            type = "object",
            properties = { repo = { type = "string" }, ref = { type = "string" } },
            additionalProperties = false,
        }, without_words(tools.create_workspace.input_schema))
        assert.same({
            type = "object",
            properties = { workspace = { type = "string" } },
            required = { "workspace" },
            additionalProperties = false,
        }, without_words(tools.dispose_workspace.input_schema))
    end)

    it("are described in one line of ASCII that OpenAI takes, at most 1,024 characters", function()
        each(function(_, tool)
            assert.is_nil(tool.description:find("[^ -~]"))
            assert.is_nil(tool.description:find("  ", 1, true))
            assert.is_true(#tool.description <= 1024, #tool.description)
        end)
    end)

    it("say what to do about each error that is not like all others", function()
        local tools = workspace_tools(manager_of({}))
        local named = { "repo_not_allowed", "checkout_failed", "ref_conflict", "cap_reached", "network_none" }
        for _, code in ipairs(named) do
            assert.is_truthy(tools.create_workspace.description:find(code .. ": ", 1, true), code)
        end
        for _, code in ipairs({ "aborted", "released", "closed" }) do
            assert.is_truthy(tools.create_workspace.description:find(code, 1, true), code)
        end
        for _, code in ipairs({ "workspace_not_found", "invalid_input" }) do
            assert.is_truthy(tools.dispose_workspace.description:find(code .. ": ", 1, true), code)
        end
    end)
end)

describe("create_workspace", function()
    it("acquires the workspace of the run in the context, with its signal", function()
        local tool, calls = create_tool()
        local signal = sandbox.signal()
        assert(tool.execute({ repo = "owner/name", ref = "main" }, { run_id = "run", signal = signal, own = 1 }))
        assert.same({ { "acquire", "run", { repo = "owner/name", ref = "main", signal = signal } } }, calls)
    end)

    it("gives the reference's result, in its camelCase", function()
        local info = {
            run_id = "run",
            provider = "fake",
            repo = "https://github.com/owner/name.git",
            ref = "main",
            commit = ("a"):rep(40),
            created_at = 1769860800000,
            expires_at = 1769862600123,
        }
        local tool = create_tool({ workspace_of(info), true })
        assert.same({
            workspace = ID,
            root = "/workspace",
            repo = info.repo,
            ref = "main",
            commit = info.commit,
            expiresAt = "2026-01-31T12:30:00.123Z",
            reused = true,
        }, tool.execute({}, CONTEXT))
    end)

    it("gives sandbox.null for what the workspace has not", function()
        local result = create_tool().execute({}, CONTEXT)
        for _, name in ipairs({ "repo", "ref", "commit" }) do
            assert.equal(sandbox.null, result[name])
        end
        assert.is_false(result.reused)
    end)

    -- The values are those of JavaScript.
    it("gives the time as toISOString does", function()
        local times = {
            [0] = "1970-01-01T00:00:00.000Z",
            [1] = "1970-01-01T00:00:00.001Z",
            [951782399999] = "2000-02-28T23:59:59.999Z",
            [951782400000] = "2000-02-29T00:00:00.000Z",
            [951868800000] = "2000-03-01T00:00:00.000Z",
            [1735689599999] = "2024-12-31T23:59:59.999Z",
            [4107542400000] = "2100-03-01T00:00:00.000Z",
            [253402300799999] = "9999-12-31T23:59:59.999Z",
            [253402300800000] = "+010000-01-01T00:00:00.000Z",
            [8.64e15] = "+275760-09-13T00:00:00.000Z",
            [2 ^ 53] = "+275760-09-13T00:00:00.000Z", -- past what it knows
            [-1] = "1969-12-31T23:59:59.999Z",
            [-62198755200000] = "-000001-01-01T00:00:00.000Z",
            [1500000000000.75] = "2017-07-14T02:40:00.000Z",
        }
        for ms, text in pairs(times) do
            assert.equal(text, create_tool({ workspace_of({ expires_at = ms }), false }).execute({}, CONTEXT).expiresAt)
        end
    end)

    it("gives the same time as the system, every day of 200 years #unsanitized", function()
        local info = {}
        local tool = create_tool({ workspace_of(info), false })
        for day = 0, 200 * 366 do
            local seconds = day * 86400 + day % 86400
            info.expires_at = seconds * 1000
            local expected = os.date("!%Y-%m-%dT%H:%M:%S.000Z", seconds)
            if tool.execute({}, CONTEXT).expiresAt ~= expected then
                assert.equal(expected, tool.execute({}, CONTEXT).expiresAt)
            end
        end
    end)

    describe("takes for absence", function()
        local nulls = { ["sandbox.null"] = sandbox.null, ["the null of core"] = require("chamvi.sandbox.core").null }
        for name, null in pairs(nulls) do
            it(name, function()
                local tool, calls = create_tool()
                assert(tool.execute({ repo = null, ref = null }, CONTEXT))
                assert(tool.execute(null, CONTEXT))
                assert.same({ { "acquire", "run", {} }, { "acquire", "run", {} } }, calls)
            end)
        end

        it("no input at all", function()
            local tool, calls = create_tool()
            assert(tool.execute(nil, CONTEXT))
            assert.same({ { "acquire", "run", {} } }, calls)
        end)

        -- Neovim's is a full userdata. Any will do that is there when the library is loaded.
        it("vim.NIL, in fields, in JSON text and in results", function()
            local program = [[
                vim = { NIL = io.stdout }
                local sandbox = require "chamvi.sandbox"
                assert(sandbox.null == io.stdout)
                local manager = {}
                function manager:acquire(run_id, given)
                    assert(run_id == "run" and next(given) == nil)
                    return { id = "id", info = { expires_at = 0 } }, false
                end
                local tools = require("chamvi.sandbox.workspace_tools")(manager, "run")
                local light = require("chamvi.sandbox.core").null
                local result = assert(tools.create_workspace.execute({ repo = vim.NIL, ref = light }))
                assert(result.commit == vim.NIL)
                print(sandbox.tools.call(tools, "create_workspace", [=[{"repo":null}]=]))
                tools.list = { name = "list", input_schema = {}, execute = function(input)
                    return { input.field == vim.NIL, light, vim.NIL }
                end }
                print(sandbox.tools.call(tools, "list", [=[{"field":null}]=]))
                tools.list.execute = function() return { io.stderr } end
                print((select(2, sandbox.tools.call(tools, "list", ""))))
            ]]
            local output = scratch.shell(("%s -e %s"):format(LUA, scratch.quote(program)))
            assert.equal(
                '{"commit":null,"expiresAt":"1970-01-01T00:00:00.000Z","ref":null,"repo":null,"reused":false,'
                    .. '"root":"/workspace","workspace":"id"}\tfalse\n[true,null,null]\tfalse\ntrue\n',
                output
            )
        end)
    end)

    describe("refuses, as invalid_input and in words for a model,", function()
        local has = "create_workspace has no field "
        local object = "the input of create_workspace must be an object, got "
        local string = ' of create_workspace must be a string, got '
        local wrong = {
            ["an unknown field"] = { { branch = "x" }, has .. '"branch"; it has: repo, ref' },
            ["a long unknown field"] = { { [LONG .. "x"] = 1 }, has .. '"' .. LONG .. '"; it has: repo, ref' },
            ["an unknown field with a null"] = { { branch = sandbox.null }, has .. '"branch"; it has: repo, ref' },
            ["a NUL in one"] = { { ["a\0b"] = 1 }, has .. '"a?b"; it has: repo, ref' },
            ["a list"] = { { "owner/name" }, object .. "a list or one with other keys" },
            ["a number"] = { 1, object .. "a number" },
            ["a string"] = { "x", object .. "a string" },
            ["a repo that is a number"] = { { repo = 1 }, 'the field "repo"' .. string .. "a number" },
            ["a repo that is a boolean"] = { { repo = false }, 'the field "repo"' .. string .. "a boolean" },
            ["a ref that is a table"] = { { ref = {} }, 'the field "ref"' .. string .. "an object or a list" },
        }
        for what, case in pairs(wrong) do
            it(what, function()
                local tool, calls = create_tool()
                assert_refused(case[2], tool.execute(case[1], CONTEXT))
                assert.same({}, calls)
            end)
        end
    end)

    it("never calls what an input brings along", function()
        local function trap()
            error("called")
        end
        local tool, calls = create_tool()
        local meta = { __index = trap, __pairs = trap, __len = trap, __tostring = trap, __eq = trap }
        assert(tool.execute(setmetatable({ repo = "owner/name" }, meta), CONTEXT))
        assert.equal("owner/name", calls[1][3].repo)
    end)

    it("gives the manager's error as it is", function()
        local err = errors.sandbox("cap_reached", "no more")
        local tool = create_tool({ nil, err })
        local result, got = tool.execute({}, CONTEXT)
        assert.is_nil(result)
        assert.equal(err, got)
    end)
end)

describe("dispose_workspace", function()
    it("releases the workspace of the run and gives the reference's result", function()
        local tool, calls = dispose_tool()
        assert.same({ workspace = ID, disposed = true }, tool.execute({ workspace = ID }, CONTEXT))
        assert.same({ { "release", "run", ID } }, calls)
    end)

    -- A release without an id would be one of all workspaces.
    it("never releases without an id", function()
        local tool, calls = dispose_tool()
        local missing = 'the field "workspace" is missing: give the id that create_workspace returned'
        assert_refused(missing, tool.execute({}, CONTEXT))
        assert_refused(missing, tool.execute(nil, CONTEXT))
        assert_refused(missing, tool.execute({ workspace = sandbox.null }, CONTEXT))
        assert_refused('the field "workspace" of dispose_workspace must be a string, got a number',
            tool.execute({ workspace = 1 }, CONTEXT))
        assert_refused('dispose_workspace has no field "id"; it has: workspace', tool.execute({ id = ID }, CONTEXT))
        assert.same({}, calls)
    end)

    it("gives the manager's error as it is", function()
        local err = errors.sandbox("workspace_not_found", "not found")
        local tool = dispose_tool({ nil, err })
        local result, got = tool.execute({ workspace = ID }, CONTEXT)
        assert.is_nil(result)
        assert.equal(err, got)
    end)
end)

describe("a context", function()
    -- Only the host's program can be wrong about it: that raises, with the caller's place.
    it("without a run, or of another kind, raises", function()
        local function raised(bound, context)
            local messages = {}
            for _, tool in ipairs({ (create_tool(nil, bound)), (dispose_tool(nil, bound)) }) do
                local ok, err = pcall(tool.execute, {}, context)
                assert.is_false(ok)
                assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"))
                assert.equal("invalid_option", err.code)
                assert.matches("tools_spec%.lua:%d+$", err.where)
                table.insert(messages, err.message:match("^" .. tool.name .. ": (.*)$"))
            end
            assert.equal(messages[1], messages[2])
            return messages[1]
        end
        assert.equal("the context is missing: pass { run_id = ... }", raised(nil, nil))
        assert.equal("the context must be a table, got a string", raised(nil, "run"))
        assert.equal("the context must be a table, got a string", raised("run", "run"))
        assert.equal("run_id of the context must be a string, got a nil", raised(nil, {}))
        assert.equal("run_id of the context must be a string, got a number", raised(nil, { run_id = 1 }))
        assert.equal("run_id of the context must not be empty", raised(nil, { run_id = "" }))
        local signal = "signal of the context must be a signal made by sandbox.signal(), got a table"
        assert.equal(signal, raised(nil, { run_id = "run", signal = {} }))
        assert.equal(signal, raised("run", { signal = {} }))
    end)

    it("is not needed by tools that are bound to a run, and can't lead them to another", function()
        local create, created = create_tool(nil, "bound")
        local dispose, disposed = dispose_tool(nil, "bound")
        local signal = sandbox.signal()
        assert(create.execute({}))
        assert(create.execute({}, { run_id = "other", signal = signal }))
        assert(dispose.execute({ workspace = ID }, { run_id = 1 }))
        assert.same({ { "acquire", "bound", {} }, { "acquire", "bound", { signal = signal } } }, created)
        assert.same({ { "release", "bound", ID } }, disposed)
    end)
end)
