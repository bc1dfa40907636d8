-- A chat that calls the tools of tools.lua as codecompanion.nvim does, with a script in the place of a model.
--
--   eval "$(scripts/env luajit)" && nvim --headless --clean -c "luafile examples/neovim/chat.lua"

local sandbox = require "chamvi.sandbox"
local manager = sandbox.create_workspace_manager({
    provider = require("chamvi.sandbox.local").create_local_sandbox(),
})
local tools = dofile("examples/neovim/tools.lua").of(manager, "chat")

local function show(...)
    io.stdout:write(table.concat({ ... }, " "), "\n")
    io.stdout:flush()
end

-- The plugin's part: runs a tool, and calls `next_turn(text)` with what the model is told.
local function call(name, args, next_turn)
    local tool = tools[name]
    local meta = { tools = { chat = {} } }
    function meta.tools.chat:add_tool_output(of, text)
        show(("[%s]"):format(of.name), text)
        next_turn(text)
    end
    tool.cmds[1](meta.tools, args, {
        output_cb = function(message)
            tool.output[message.status](tool, { message.data }, meta)
        end,
    })
    return tool
end

call("create_workspace", { repo = vim.NIL, ref = vim.NIL }, function(text)
    local id = vim.json.decode(text).workspace
    call("run_command", { workspace = id, command = "echo 20 + 22 is $((20 + 22)); exit 3" }, function()
        -- The user stops the next one.
        local tool = call("run_command", { workspace = id, command = "sleep 600" }, function()
            sandbox.async(function()
                return manager:release("chat")
            end, function(released)
                show("released", tostring(released))
                vim.cmd("quitall!")
            end)
        end)
        vim.defer_fn(tool.handlers.on_exit, 200)
    end)
end)
