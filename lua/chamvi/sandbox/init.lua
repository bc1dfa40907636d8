--- Disposable workspaces in which an agent runs commands.

local compat = require "chamvi.sandbox.compat"
local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local host = require "chamvi.sandbox.host"
local create_remote_workspace = require "chamvi.sandbox.remote"
local create_workspace_manager = require "chamvi.sandbox.manager"
local null = require "chamvi.sandbox.null"
local prepare_workspace = require "chamvi.sandbox.prepare"
local rules = require "chamvi.sandbox.rules"
local signals = require "chamvi.sandbox.signal"
local tools = require "chamvi.sandbox.tools"

local sandbox = compat.deep_copy(constants)

sandbox.is_error = errors.is_error
sandbox.signal = signals.new
sandbox.prepare_workspace = prepare_workspace
sandbox.create_workspace_manager = create_workspace_manager
sandbox.tools = compat.deep_copy(tools)
sandbox.create_remote_workspace = create_remote_workspace

--- JSON null in what a model sees: `vim.NIL` in Neovim, else equal to `cjson.null` and `ngx.null`.
---@type lightuserdata|userdata
sandbox.null = null

sandbox.normalize_repo = rules.normalize_repo
sandbox.check_git_ref = rules.check_git_ref
sandbox.resolve_workspace_path = rules.resolve_workspace_path
sandbox.resolve_limits = rules.resolve_limits
sandbox.parse_cpu = rules.parse_cpu
sandbox.parse_memory = rules.parse_memory
sandbox.assert_sandbox_env = rules.assert_sandbox_env
sandbox.create_output_collector = rules.create_output_collector
sandbox.uuid = rules.uuid

-- What the host does in its own way; see host/init.lua and the adapters.
for _, name in ipairs({ "run", "spawn", "all", "sleep", "async", "loop" }) do
    sandbox[name] = function(...)
        return host.current()[name](...)
    end
end

host.current() -- loads the adapter: that of copas has to see threads begin

return sandbox
