-- A tool loop: a model asks for tools until it has an answer. Here a script stands in for the model; it sees what a
-- model would see, and acts on it.
--
--   eval "$(scripts/env)" && lua5.4 examples/tool_loop.lua

local sandbox = require "chamvi.sandbox"
local provider = require("chamvi.sandbox.local").create_local_sandbox()

local MOST_TURNS = 20

-- ---- The host's own tools, in the same shape as the library's ---------------------------------------

local ID = { type = "string", description = 'The id of a workspace: "workspace" in the result of create_workspace.' }
local PATH = { type = "string", description = "A path relative to /workspace." }

-- A tool that works in a workspace of the run. What `act` returns is the result, or nil and the error.
local function workspace_tool(run, name, description, properties, required, act)
    properties.workspace = ID
    table.insert(required, 1, "workspace")
    return {
        name = name,
        description = description,
        input_schema = {
            type = "object",
            properties = properties,
            required = required,
            additionalProperties = false,
        },
        execute = function(input, context)
            -- The library checks the values, whatever the model gives: a wrong one is an error to answer with.
            local workspace, err = run:get(input.workspace)
            if not workspace then
                return nil, err
            end
            return act(workspace, input, context)
        end,
    }
end

local function own_tools(run)
    local argv = { type = "array", items = { type = "string" }, description = "The program and its arguments." }
    local content = { type = "string", description = "All of the new content." }
    return {
        workspace_tool(
            run,
            "exec",
            "Runs a command in the workspace. There is no shell: for one, run sh -c.",
            { argv = argv },
            { "argv" },
            function(workspace, input, context)
                local result, err = workspace:exec(input.argv, { timeout_ms = 60000, signal = context.signal })
                if not result then
                    return nil, err
                end
                return { exitCode = result.exit_code, stdout = result.stdout, stderr = result.stderr }
            end
        ),
        workspace_tool(
            run,
            "read_file",
            "Reads a text file of the workspace.",
            { path = PATH },
            { "path" },
            function(workspace, input)
                return workspace:read_file(input.path)
            end
        ),
        workspace_tool(
            run,
            "write_file",
            "Writes a file of the workspace, and makes missing folders.",
            { path = PATH, content = content },
            { "path", "content" },
            function(workspace, input)
                return workspace:write_file(input.path, input.content)
            end
        ),
    }
end

-- ---- The stand-in ---------------------------------------------------------------------------------

-- Each turn gets the answers to the calls of the turn before and returns its own calls, as a list of name and
-- JSON text, or a text when it is done.
local id
local TURNS = {
    function()
        return { { "create_workspace", "" } }
    end,
    function(answers)
        id = answers[1]:match('"workspace":"([^"]+)"')
        return {
            { "write_file", ('{"workspace":"%s","path":"sum.sh","content":"echo $(($1 + $2)\\n"}'):format(id) },
            { "exec", ('{"workspace":"%s","argv":"sh sum.sh 20 22"}'):format(id) },
        }
    end,
    function(answers)
        assert(answers[2]:find('"code":"invalid_argv"', 1, true)) -- argv must be a list
        return { { "exec", ('{"workspace":"%s","argv":["sh","sum.sh","20","22"]}'):format(id) } }
    end,
    function(answers)
        assert(not answers[1]:find('"exitCode":0', 1, true)) -- a parenthesis is missing
        return {
            { "write_file", ('{"workspace":"%s","path":"sum.sh","content":"echo $(($1 + $2))\\n"}'):format(id) },
            { "exec", ('{"workspace":"%s","argv":["sh","sum.sh","20","22"]}'):format(id) },
        }
    end,
    function(answers)
        local sum = answers[2]:match('"stdout":"(%d+)\\n"')
        return ("The script works: 20 + 22 is %s."):format(sum)
    end,
}

-- As a client of a model's API would be called: with the messages so far, and the tools. Gives the next message.
local function model(messages, tools)
    assert(#tools == 5 and tools[1].type == "function")
    local turn, answers = 1, {}
    for _, message in ipairs(messages) do
        if message.role == "assistant" then
            turn, answers = turn + 1, {}
        elseif message.role == "tool" then
            table.insert(answers, message.content)
        end
    end
    local said = TURNS[turn](answers)
    if type(said) == "string" then
        return { role = "assistant", content = said }
    end
    local calls = {}
    for index, call in ipairs(said) do
        table.insert(calls, {
            id = ("call_%d_%d"):format(turn, index),
            type = "function",
            ["function"] = { name = call[1], arguments = call[2] },
        })
    end
    return { role = "assistant", tool_calls = calls }
end

-- ---- The loop -------------------------------------------------------------------------------------

local function answer(run, question)
    local tools = run:tools()
    for _, tool in ipairs(own_tools(run)) do
        tools[tool.name] = tool
    end
    local definitions = sandbox.tools.to_openai(tools)
    local context = { signal = sandbox.signal() } -- to abort the run's calls: context.signal:abort(reason)
    local messages = { { role = "user", content = question } }
    for _ = 1, MOST_TURNS do
        local message = model(messages, definitions)
        table.insert(messages, message)
        if not message.tool_calls then
            return message.content
        end
        for _, call in ipairs(message.tool_calls) do
            local name = call["function"].name
            local text, is_error = sandbox.tools.call(tools, name, call["function"].arguments, context)
            print(("%s %s: %s"):format(is_error and "-" or "+", name, text))
            table.insert(messages, { role = "tool", tool_call_id = call.id, content = text })
        end
    end
    error("the model found no answer in " .. MOST_TURNS .. " turns")
end

sandbox.run(function()
    local manager = sandbox.create_workspace_manager({ provider = provider })
    -- Whatever happens in there, its workspaces are gone afterwards.
    print(manager:with_run("tool-loop", function(run)
        return answer(run, "Write a script that adds two numbers, and try it with 20 and 22.")
    end))
    manager:close()
end)
