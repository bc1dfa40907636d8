-- Workspaces of runs: one for each run and repository, made when it is first asked for, shared by all who ask,
-- and disposed when the run settles.

local clocks = require "chamvi.sandbox.clock"
local collection = require "chamvi.sandbox.collection"
local constants = require "chamvi.sandbox.constants"
local endings = require "chamvi.sandbox.endings"
local errors = require "chamvi.sandbox.errors"
local events = require "chamvi.sandbox.events"
local options = require "chamvi.sandbox.options"
local reporter = require "chamvi.sandbox.reporter"
local rules = require "chamvi.sandbox.rules"
local runs = require "chamvi.sandbox.runs"
local task = require "chamvi.sandbox.task"
local workspace_tools = require "chamvi.sandbox.workspace_tools"

local MANAGER_OPTIONS = {
    provider = options.provider,
    image = options.string,
    env = options.env,
    limits = options.limits,
    allow_file_repos = options.boolean,
    allow_repo = options.callable,
    max_workspaces_per_run = options.positive_integer,
    gc_interval_ms = options.natural,
    clock = options.clock,
    on_error = options.callable,
}

local ACQUIRE_OPTIONS = {
    repo = options.any, -- a model's input
    ref = options.any,
    signal = options.signal,
}

local CLOSE_OPTIONS = { timeout_ms = options.natural }

---@class chamvi.WorkspaceManager
local Manager = {}
Manager.__index = Manager

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

--- A manager without workspaces. Contacts nothing.
---@param given chamvi.WorkspaceManagerOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.WorkspaceManager
local function create_workspace_manager(given)
    local settings = options.check("create_workspace_manager", given, MANAGER_OPTIONS, { "provider" })
    local on_error = reporter(settings.on_error)
    local held = runs.new(settings.provider, on_error)
    local now = clocks(settings.clock)
    return setmetatable({
        _state = {
            runs = held,
            now = now,
            on_error = on_error,
            image = settings.image,
            env = options.copy(settings.env),
            limits = options.copy(settings.limits),
            repo_options = { allow_file_repos = settings.allow_file_repos or false },
            allow_repo = settings.allow_repo,
            most = settings.max_workspaces_per_run or constants.MAX_WORKSPACES_PER_RUN,
            collection = collection.new(held, settings.provider, now,
                settings.gc_interval_ms or constants.GC_INTERVAL_MS),
            events = events.new(on_error),
            closed = false,
        },
    }, Manager)
end

local function check_self(self, method)
    if not rawequal(getmetatable(self), Manager) then
        error(("bad argument #1 to '%s' (manager expected, got %s)"):format(method, type(self)), 3)
    end
end

local function check_run_id(run_id, method)
    if type(run_id) ~= "string" or run_id == "" then
        error(("bad argument #1 to '%s' (run id expected, got %s)"):format(
            method, run_id == "" and "an empty string" or type(run_id)), 3)
    end
end

local function closed_error()
    return errors.sandbox("closed", "the workspace manager is closed")
end

-- ---- Acquire -----------------------------------------------------------------------------------

-- Whether the host program lets a run have this repository.
local function is_allowed(state, url)
    if not state.allow_repo then
        return true
    end
    local called, allowed = pcall(state.allow_repo, url)
    if not called then
        state.on_error(allowed)
    end
    return called and allowed
end

-- The repository and the ref as they are kept.
local function check_source(state, given)
    local url, ref, err
    if given.repo ~= nil then
        url, err = rules.normalize_repo(given.repo, state.repo_options)
        if not url then
            return nil, err
        end
    end
    if given.ref ~= nil then
        if not url then
            return nil, errors.validation("invalid_input", "a ref needs a repository: give repo too, or no ref")
        end
        ref, err = rules.check_git_ref(given.ref)
        if not ref then
            return nil, err
        end
    end
    return { repo = url, ref = ref }
end

local function check_open(state, signal)
    if state.closed then
        return nil, closed_error()
    end
    if signal and signal.aborted then
        return nil, task.aborted(signal)
    end
    return true
end

-- The slot that the run has for the repository.
local function find_slot(state, run_id, key, ref)
    local run = state.runs:find(run_id)
    if not run then
        return nil
    end
    state.runs:drop_dead(run, state.now())
    local slot = run.slots[key]
    if slot and ref and ref ~= slot.ref then
        return nil, errors.sandbox("ref_conflict", ("the run's workspace of this repository is at %s, not at %s: "
            .. "use it as it is, check the other ref out in it, or dispose it first"):format(
            slot.ref or "the default branch", ref))
    end
    return slot
end

local function check_cap(state, run_id)
    local count = 0
    local run = state.runs:find(run_id)
    for _ in pairs(run and run.slots or {}) do
        count = count + 1
    end
    if count >= state.most then
        return nil, errors.sandbox("cap_reached",
            ("the run has %d workspaces already, and no more are allowed: dispose one first"):format(count))
    end
    return true
end

---@class chamvi.AcquireOptions
---@field repo? string `owner/name`, an https URL, or file:///absolute/path with `allow_file_repos`; none: the workspace
---   without a repository
---@field ref? string a branch, a tag, a full ref name or a full commit id; none: what the run has, or the default
---@field signal? chamvi.Signal aborts this call; the create goes on while others wait for it

--- The run's workspace of a repository, or the one without any: made when there is none, or when it has expired or is
--- gone. Calls at the same time share one create. Waits for the create.
---@param run_id string
---@param given? chamvi.AcquireOptions
---@return chamvi.Workspace|nil
---@return boolean|chamvi.Error reused true when the run had it already, or was making it. Or the error: ValidationError
---   `invalid_repo`, `repo_not_allowed`, `invalid_ref`, `invalid_input`; SandboxError `ref_conflict`, `cap_reached`,
---   `closed`, `released`, `aborted`, and those of the provider's create
function Manager:acquire(run_id, given)
    check_self(self, "acquire")
    check_run_id(run_id, "acquire")
    local asked = options.check("acquire", given, ACQUIRE_OPTIONS)
    task.check_may_wait("acquire")
    local state = self._state
    local source, err = check_source(state, asked)
    if not source then
        return nil, err
    end
    local ok
    ok, err = check_open(state, asked.signal)
    if ok and source.repo and not is_allowed(state, source.repo) then
        return nil, errors.validation("repo_not_allowed", "this repository is not allowed here: use another one")
    end
    if ok then
        ok, err = check_open(state, asked.signal) -- `allow_repo` may have waited
    end
    if not ok then
        return nil, err
    end

    state.collection:start_when_due(state.on_error)
    local key = source.repo or ""
    local slot
    slot, err = find_slot(state, run_id, key, source.ref)
    if err then
        return nil, err
    end
    local reused = slot ~= nil
    if not slot then
        ok, err = check_cap(state, run_id)
        if not ok then
            return nil, err
        end
        slot = state.runs:create(run_id, key, {
            repo = source.repo,
            ref = source.ref,
            image = state.image,
            env = state.env,
            limits = state.limits,
        })
    end
    local workspace
    workspace, err = state.runs:wait(slot, asked.signal)
    if not workspace then
        return nil, err
    end
    return workspace, reused
end

-- ---- Get and release ---------------------------------------------------------------------------

local function not_found(id)
    return errors.sandbox("workspace_not_found", ("workspace %s not found: the run does not hold it"):format(id))
end

local function check_id(id)
    if type(id) ~= "string" then
        return nil, errors.validation("invalid_input",
            ("the workspace id must be a string, got a %s"):format(type(id)))
    end
    return true
end

-- The run's slot with that workspace.
local function slot_of(run, id)
    for _, slot in pairs(run and run.slots or {}) do
        if slot.workspace and slot.id == id then
            return slot
        end
    end
end

-- The workspaces of a run, in an order that stays.
local function live_slots(run)
    local list = {}
    for _, slot in pairs(run and run.slots or {}) do
        if slot.workspace then
            table.insert(list, slot)
        end
    end
    table.sort(list, function(left, right)
        return left.key < right.key
    end)
    return list
end

local function only_one(state, run)
    if run then
        state.runs:drop_dead(run, state.now())
    end
    local slots = live_slots(run)
    if #slots == 1 then
        return slots[1].workspace
    end
    if #slots == 0 then
        return nil, errors.sandbox("no_workspace", "no workspace found: the run has none, create one first")
    end
    local names = {}
    for index, slot in ipairs(slots) do
        names[index] = ("%s (%s)"):format(slot.id, slot.key == "" and "no repository" or slot.key)
    end
    return nil, errors.validation("workspace_required",
        "the run has several workspaces: say which one: " .. table.concat(names, ", "))
end

--- The run's workspace with that id, or its only one. Never waits: what has expired or is gone is dropped, and
--- disposed in the background.
---@param run_id string
---@param id? string
---@return chamvi.Workspace|nil
---@return chamvi.Error? err SandboxError `workspace_not_found`, `workspace_expired`, `gone`, `no_workspace`;
---   ValidationError `workspace_required` (several, and no id), `invalid_input`
function Manager:get(run_id, id)
    check_self(self, "get")
    check_run_id(run_id, "get")
    local state = self._state
    local run = state.runs:find(run_id)
    if id == nil then
        return only_one(state, run)
    end
    local ok, err = check_id(id)
    if not ok then
        return nil, err
    end
    local slot = slot_of(run, id)
    if not slot then
        return nil, not_found(id)
    end
    if slot.workspace.disposed then
        state.runs:drop_in_background(slot)
        return nil, errors.sandbox("gone", ("workspace %s is gone: create a new one"):format(id))
    end
    if slot.expires_at <= state.now() then
        state.runs:drop_in_background(slot)
        return nil, errors.sandbox("workspace_expired", ("workspace %s has expired: create a new one"):format(id))
    end
    return slot.workspace
end

local function release_one(state, run, id)
    local slot = slot_of(run, id)
    local disposal = slot and state.runs:drop(slot)
    if not slot then
        disposal = run and run.disposals[id]
        if not disposal then
            return nil, not_found(id)
        end
        state.runs:retry(run, disposal)
    end
    disposal.reported = true -- to the caller
    return task.wait(disposal.attempt)
end

--- Disposes one workspace of a run, or all: then the creates under way are aborted too. Waits until that is done.
---@param run_id string
---@param id? string none: all of the run
---@return true|nil
---@return chamvi.Error? err only with an id: SandboxError `workspace_not_found`, or what the disposal says (release
---   again to try again); ValidationError `invalid_input`. Without an id failures go to `on_error`
function Manager:release(run_id, id)
    check_self(self, "release")
    check_run_id(run_id, "release")
    task.check_may_wait("release")
    local state = self._state
    if id == nil then
        return endings.release(state.runs, run_id)
    end
    local ok, err = check_id(id)
    if not ok then
        return nil, err
    end
    return release_one(state, state.runs:find(run_id), id)
end

-- ---- Runs that settle --------------------------------------------------------------------------

---@class chamvi.Engine
---@field on fun(self: chamvi.Engine, event: string, listener: fun(event: any)): fun() subscribes and returns what ends
---   that; a listener is to be given the run id, or a table that has it as `run_id`

--- Releases runs when an engine says that they have settled: at its events `completed`, `failed` and `cancelled`.
---@param engine chamvi.Engine
---@return fun() unsubscribe
function Manager:attach(engine)
    check_self(self, "attach")
    local state = self._state
    if not events.is_engine(engine) then
        error(("bad argument #1 to 'attach' (engine with a method `on` expected, got a %s)"):format(type(engine)), 2)
    end
    if state.closed then
        return function() end
    end
    return state.events:attach(engine, function(run_id)
        endings.release_in_background(state.runs, run_id)
    end)
end

---@class chamvi.RunHooks
---@field completed fun(run_id: string)
---@field failed fun(run_id: string)
---@field cancelled fun(run_id: string)

--- Functions that release a run in the background, for engines without events. They never wait.
---@return chamvi.RunHooks
function Manager:hooks()
    check_self(self, "hooks")
    local state = self._state
    local listen = state.events:listener(function(run_id)
        endings.release_in_background(state.runs, run_id)
    end)
    return { completed = listen, failed = listen, cancelled = listen }
end

---@class chamvi.BoundRun
---@field id string
---@field acquire fun(self: chamvi.BoundRun, given?: chamvi.AcquireOptions): chamvi.Workspace?, boolean|chamvi.Error
---@field get fun(self: chamvi.BoundRun, id?: string): chamvi.Workspace?, chamvi.Error?
---@field release fun(self: chamvi.BoundRun, id?: string): true?, chamvi.Error?
---@field tools fun(self: chamvi.BoundRun): chamvi.WorkspaceTools

local function bind(manager, run_id)
    return {
        id = run_id,
        acquire = function(_, given)
            return manager:acquire(run_id, given)
        end,
        get = function(_, id)
            return manager:get(run_id, id)
        end,
        release = function(_, id)
            return manager:release(run_id, id)
        end,
        tools = function()
            return workspace_tools(manager, run_id)
        end,
    }
end

--- Calls `fn(run)` and releases the run however that ends. Waits for the release, except when the coroutine is closed.
---@param run_id string
---@param fn fun(run: chamvi.BoundRun): ...
---@return any ... the results of fn; what it raised is raised again
function Manager:with_run(run_id, fn)
    check_self(self, "with_run")
    check_run_id(run_id, "with_run")
    if type(fn) ~= "function" then
        error(("bad argument #2 to 'with_run' (function expected, got %s)"):format(type(fn)), 2)
    end
    task.check_may_wait("with_run")
    return endings.with_run(self._state.runs, run_id, fn, bind(self, run_id))
end

-- ---- Tools -------------------------------------------------------------------------------------

--- New tools for a model, which work in the run that a call's context names: `{ run_id =, signal = }`.
---@return chamvi.WorkspaceTools
function Manager:tools()
    check_self(self, "tools")
    return workspace_tools(self)
end

-- ---- Collection and the end --------------------------------------------------------------------

--- Disposes the manager's expired workspaces, then runs the provider's collection. Waits for both.
---@return integer|nil count how many went
---@return chamvi.Error? err SandboxError `gc_failed`, with `count`: some could not be removed, the others are gone
function Manager:collect_garbage()
    check_self(self, "collect_garbage")
    task.check_may_wait("collect_garbage")
    return self._state.collection:run()
end

---@class chamvi.CloseOptions
---@field timeout_ms? integer how long to wait at most; default CLOSE_TIMEOUT_MS. What is still being disposed then
---   goes on, and is reported to `on_error`

--- Ends the manager: unsubscribes from engines, aborts the creates under way and disposes all workspaces. Waits for
--- that, and for what was being disposed already. Afterwards `acquire` returns `closed`.
---@param given? chamvi.CloseOptions
---@return true
function Manager:close(given)
    check_self(self, "close")
    local asked = options.check("close", given, CLOSE_OPTIONS)
    task.check_may_wait("close")
    local state = self._state
    state.closed = true
    state.events:unsubscribe_all()
    endings.close(state.runs, state.collection, closed_error(), asked.timeout_ms or constants.CLOSE_TIMEOUT_MS)
    return true
end

local function close(self)
    local closed, err = pcall(self.close, self)
    if not closed then
        self._state.on_error(err)
    end
end

--- The end of a to-be-closed variable in Lua 5.4: closes the manager, whoever else uses it. Never raises; failures
--- go to `on_error`. Waits like `close`; where nothing may wait it goes on in the background.
function Manager:__close()
    if task.can_wait() then
        close(self)
    else
        task.start(close, self)
    end
end

return create_workspace_manager
