---@meta chamvi.sandbox.local

-- For LuaLS: what `require "chamvi.sandbox.local"` gives; see types/chamvi/sandbox.lua.

--- Workspaces as plain folders of this machine. NO ISOLATION: commands run as the user of the host program and
--- can read and write whatever that user can. For development and tests only.
---@class chamvi.sandbox.local
local local_sandbox = {}

---@class chamvi.LocalOptions
---@field root? string an absolute path; default: chamvi-workspaces in $TMPDIR or /tmp
---@field env? table<string, string> added to the environment of every command
---@field limits? { timeout_ms?: integer } the lifetime of a workspace; default 30 minutes
---@field clock? chamvi.Clock default: the system's

---@class chamvi.LocalProvider
---@field name "local"
local LocalProvider = {}

--- Makes a workspace: its folders, its supervisor, its git repository. Whatever fails or is aborted on the
--- way is removed again before this returns.
---@param request chamvi.CreateOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.Workspace|nil
---@return chamvi.Error? err ValidationError for repo and ref; SandboxError `create_failed`, `checkout_failed`,
---   `aborted`
function LocalProvider:create(request) end

--- Removes the workspaces under `root` whose lifetime is over, whoever made them: those of a program
--- that was killed as well as those that are still in use.
---@return integer|nil count how many went
---@return chamvi.Error? err SandboxError `gc_failed`, with `count`: some could not be removed, the others are gone
function LocalProvider:collect_garbage() end

--- A provider whose workspaces are folders under `root`. Creates nothing yet.
---@param given? chamvi.LocalOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.LocalProvider
function local_sandbox.create_local_sandbox(given) end

return local_sandbox
