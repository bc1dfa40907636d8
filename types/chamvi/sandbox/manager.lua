---@meta chamvi.sandbox.manager

-- For LuaLS: what `create_workspace_manager` of chamvi.sandbox gives; see types/chamvi/sandbox.lua.

---@class chamvi.CreateOptions
---@field run_id string
---@field repo? string a normalized URL; none: an empty git repository
---@field ref? string a branch, tag, full ref name or full commit id
---@field image? string of containers and pods; means nothing for local workspaces
---@field env? table<string, string> wins over the provider's
---@field limits? chamvi.Limits win over the provider's; of a local workspace only `timeout_ms` means something
---@field signal? chamvi.Signal aborts the create

---@class chamvi.Clock
---@field now fun(): integer epoch milliseconds

---@class chamvi.Provider
---@field name string
---@field create fun(self: chamvi.Provider, request: chamvi.CreateOptions): chamvi.Workspace?, chamvi.Error?
---@field collect_garbage fun(self: chamvi.Provider): integer?, chamvi.Error?

---@class chamvi.WorkspaceManagerOptions
---@field provider chamvi.Provider
---@field image? string for every create
---@field env? table<string, string> for every create; wins over the provider's
---@field limits? chamvi.Limits for every create; wins over the provider's
---@field allow_file_repos? boolean accept file:///absolute/path; default false
---@field allow_repo? fun(url: string): boolean? narrows what is accepted; gets the normalized URL
---@field max_workspaces_per_run? integer default MAX_WORKSPACES_PER_RUN
---@field gc_interval_ms? integer how often `acquire` starts a collection at most; default GC_INTERVAL_MS, 0: never
---@field clock? chamvi.Clock default: the system's
---@field on_error? fun(err: any) told of failures in the background; default: one line on stderr. Must not wait

---@class chamvi.AcquireOptions
---@field repo? string `owner/name`, an https URL, or file:///absolute/path with `allow_file_repos`; none: the workspace
---   without a repository
---@field ref? string a branch, a tag, a full ref name or a full commit id; none: what the run has, or the default
---@field signal? chamvi.Signal aborts this call; the create goes on while others wait for it

---@class chamvi.CloseOptions
---@field timeout_ms? integer how long to wait at most; default CLOSE_TIMEOUT_MS. What is still being disposed then
---   goes on, and is reported to `on_error`

---@class chamvi.Engine
---@field on fun(self: chamvi.Engine, event: string, listener: fun(event: any)): fun() subscribes and returns what ends
---   that; a listener is to be given the run id, or a table that has it as `run_id`

---@class chamvi.RunHooks
---@field completed fun(run_id: string)
---@field failed fun(run_id: string)
---@field cancelled fun(run_id: string)

---@class chamvi.BoundRun
---@field id string
---@field acquire fun(self: chamvi.BoundRun, given?: chamvi.AcquireOptions): chamvi.Workspace?, boolean|chamvi.Error
---@field get fun(self: chamvi.BoundRun, id?: string): chamvi.Workspace?, chamvi.Error?
---@field release fun(self: chamvi.BoundRun, id?: string): true?, chamvi.Error?
---@field tools fun(self: chamvi.BoundRun): chamvi.WorkspaceTools

---@class chamvi.WorkspaceManager
local Manager = {}

--- The run's workspace of a repository, or the one without any: made when there is none, or when it has expired or is
--- gone. Calls at the same time share one create. Waits for the create.
---@param run_id string
---@param given? chamvi.AcquireOptions
---@return chamvi.Workspace|nil
---@return boolean|chamvi.Error reused true when the run had it already, or was making it. Or the error: ValidationError
---   `invalid_repo`, `repo_not_allowed`, `invalid_ref`, `invalid_input`; SandboxError `ref_conflict`, `cap_reached`,
---   `closed`, `released`, `aborted`, and those of the provider's create
function Manager:acquire(run_id, given) end

--- The run's workspace with that id, or its only one. Never waits: what has expired or is gone is dropped, and
--- disposed in the background.
---@param run_id string
---@param id? string
---@return chamvi.Workspace|nil
---@return chamvi.Error? err SandboxError `workspace_not_found`, `workspace_expired`, `gone`, `no_workspace`;
---   ValidationError `workspace_required` (several, and no id), `invalid_input`
function Manager:get(run_id, id) end

--- Disposes one workspace of a run, or all: then the creates under way are aborted too. Waits until that is done.
---@param run_id string
---@param id? string none: all of the run
---@return true|nil
---@return chamvi.Error? err only with an id: SandboxError `workspace_not_found`, or what the disposal says (release
---   again to try again); ValidationError `invalid_input`. Without an id failures go to `on_error`
function Manager:release(run_id, id) end

--- Releases runs when an engine says that they have settled: at its events `completed`, `failed` and `cancelled`.
---@param engine chamvi.Engine
---@return fun() unsubscribe
function Manager:attach(engine) end

--- Functions that release a run in the background, for engines without events. They never wait.
---@return chamvi.RunHooks
function Manager:hooks() end

--- Calls `fn(run)` and releases the run however that ends. Waits for the release, except when the coroutine is closed.
---@param run_id string
---@param fn fun(run: chamvi.BoundRun): ...
---@return any ... the results of fn; what it raised is raised again
function Manager:with_run(run_id, fn) end

--- New tools for a model, which work in the run that a call's context names: `{ run_id =, signal = }`.
---@return chamvi.WorkspaceTools
function Manager:tools() end

--- Disposes the manager's expired workspaces, then runs the provider's collection. Waits for both.
---@return integer|nil count how many went
---@return chamvi.Error? err SandboxError `gc_failed`, with `count`: some could not be removed, the others are gone
function Manager:collect_garbage() end

--- Ends the manager: unsubscribes from engines, aborts the creates under way and disposes all workspaces. Waits for
--- that, and for what was being disposed already. Afterwards `acquire` returns `closed`.
---@param given? chamvi.CloseOptions
---@return true
function Manager:close(given) end

return Manager
