-- Tools of the library as tools of codecompanion.nvim, version 20: an OpenAI schema, a function in `cmds` that answers
-- by `output_cb`, and `output`, which hands the answer to the chat.
--
--   local tools = dofile("examples/neovim/tools.lua").of(manager, run_id)
--   require("codecompanion").setup({
--       interactions = { chat = { tools = { create_workspace = { callback = tools.create_workspace }, ... } } },
--   })

local sandbox = require "chamvi.sandbox"

local COMMAND = {
    name = "run_command",
    description = "Runs a shell command in /workspace of a workspace. Its output and exit code are the result.",
    input_schema = {
        type = "object",
        properties = {
            workspace = { type = "string", description = 'The id: "workspace" in the result of create_workspace.' },
            command = { type = "string", description = "Shell code." },
        },
        required = { "workspace", "command" },
        additionalProperties = false,
    },
}

local function run_command(manager)
    local tool = vim.deepcopy(COMMAND)
    function tool.execute(input, context)
        local workspace, err = manager:get(context.run_id, input.workspace)
        if not workspace then
            return nil, err
        end
        local result
        result, err = workspace:exec({ "sh", "-c", input.command }, { signal = context.signal, timeout_ms = 600000 })
        if not result then
            return nil, err
        end
        return { exitCode = result.exit_code, stdout = result.stdout, stderr = result.stderr }
    end
    return tool
end

-- Starts a call of a tool. The editor goes on; `callback(text, is_error)` comes when it may be used.
local function start(all, name, input, run_id, callback)
    local signal = sandbox.signal()
    sandbox.async(function()
        return sandbox.tools.call(all, name, input, { run_id = run_id, signal = signal })
    end, callback)
    return {
        kill = function()
            signal:abort("the user stopped it")
        end,
    }
end

local function tool_of(all, definition, run_id)
    local name = definition["function"].name
    local tool = { name = name, schema = definition }

    tool.cmds = {
        -- Returns nothing: the answer comes later.
        function(_, args, opts)
            tool.job = start(all, name, args, run_id, function(text, is_error)
                tool.job = nil
                opts.output_cb({ status = is_error and "error" or "success", data = text })
            end)
        end,
    }

    local function hand_over(self, output, meta)
        meta.tools.chat:add_tool_output(self, output[#output])
    end
    tool.output = { success = hand_over, error = hand_over }

    tool.handlers = {
        on_exit = function()
            if tool.job then
                tool.job.kill()
            end
        end,
    }
    return tool
end

local tools = {}

--- The tools of a chat, by name. When the chat ends, `manager:release(run_id)` disposes of what it had; when the editor
--- does, that happens anyway.
function tools.of(manager, run_id)
    local all, given = manager:tools(), {}
    all.run_command = run_command(manager)
    for _, definition in ipairs(sandbox.tools.to_openai(all)) do
        given[definition["function"].name] = tool_of(all, definition, run_id)
    end
    return given
end

return tools
