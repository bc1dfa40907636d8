-- Two commands for Neovim: `:Sandbox {command}` runs shell code in a workspace and shows its output in a new buffer
-- while it comes; `:SandboxStop` ends the last one.
--
--   eval "$(scripts/env luajit)" && nvim -c "luafile examples/neovim/command.lua" -c "Sandbox uname -a"

local sandbox = require "chamvi.sandbox"
local provider = require("chamvi.sandbox.local").create_local_sandbox()

local last -- the signal of the last command

-- Appends output to a buffer; it comes in pieces, not in lines.
local function append(buffer, text)
    local lines = vim.split(text, "\n", { plain = true })
    lines[1] = vim.api.nvim_buf_get_lines(buffer, -2, -1, true)[1] .. lines[1]
    vim.api.nvim_buf_set_lines(buffer, -2, -1, true, lines)
end

local function run(command, buffer, signal)
    local workspace, err = provider:create({ run_id = "editor" })
    if not workspace then
        return nil, err
    end
    local result
    result, err = workspace:exec({ "sh", "-c", command }, {
        signal = signal,
        timeout_ms = 600000,
        on_output = function(_, text)
            append(buffer, text)
        end,
    })
    local disposed, failure = workspace:dispose()
    return disposed and result, err or failure
end

vim.api.nvim_create_user_command("Sandbox", function(given)
    vim.cmd("new")
    vim.cmd("setlocal buftype=nofile")
    local buffer, signal = vim.api.nvim_get_current_buf(), sandbox.signal()
    last = signal
    sandbox.async(function()
        return run(given.args, buffer, signal)
    end, function(result, err)
        local ending = result and "exit code " .. tostring(result.exit_code) or tostring(err)
        append(buffer, ("[%s]"):format(ending))
    end)
end, { nargs = "+" })

vim.api.nvim_create_user_command("SandboxStop", function()
    if last then
        last:abort("stopped by the user")
    end
end, {})
