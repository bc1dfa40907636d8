-- Workspaces in whatever can run a program: a transport starts programs there and brings back what they print, and this
-- makes a workspace of it.

local backends = require "chamvi.sandbox.remote.backend"
local clocks = require "chamvi.sandbox.clock"
local options = require "chamvi.sandbox.options"
local workspaces = require "chamvi.sandbox.workspace"

local REMOTE_OPTIONS = {
    id = options.uuid,
    info = options.table,
    transport = options.transport,
    clock = options.clock,
}

---@class chamvi.RemoteOptions
---@field id string a UUID
---@field info chamvi.WorkspaceInfo belongs to the provider, which sets `commit` after the checkout
---@field transport chamvi.Transport
---@field clock? chamvi.Clock for `duration_ms`, never for a time limit; default: the system's

--- A workspace on a transport. Contacts nothing. Where the transport runs programs there must be `sh`, GNU coreutils
--- and the folder /workspace.
---@param given chamvi.RemoteOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.Workspace
return function(given)
    local settings = options.check("create_remote_workspace", given, REMOTE_OPTIONS, { "id", "info", "transport" })
    return workspaces.new({
        id = settings.id,
        info = settings.info,
        backend = backends.new(settings.id, settings.transport, clocks(settings.clock)),
    })
end
