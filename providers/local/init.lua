-- Workspaces as plain folders of this machine.
--
-- There is NO ISOLATION: commands run as the user of the host program and can read and write whatever that
-- user can. For development and tests only. What holds all the same: commands see nothing of the host's
-- environment, and all that they start dies with the workspace (unless a command sets out to kill both
-- processes that look after it).

local clocks = require "chamvi.sandbox.clock"
local collect = require "chamvi.sandbox.local.collect"
local compat = require "chamvi.sandbox.compat"
local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local folders = require "chamvi.sandbox.local.folders"
local loop = require "chamvi.sandbox.loop"
local native = require "chamvi.sandbox.core"
local options = require "chamvi.sandbox.options"
local prepare_workspace = require "chamvi.sandbox.prepare"
local requests = require "chamvi.sandbox.provider"
local supervised = require "chamvi.sandbox.supervised"
local task = require "chamvi.sandbox.task"
local workspaces = require "chamvi.sandbox.workspace"

local local_sandbox = {}

local NAME = "local"
-- How often, and after how long, a disposal looks whether a collection has removed the workspace.
local COLLECTION_CHECKS = 100
local COLLECTION_CHECK_MS = 50
local PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

local PROVIDER_OPTIONS = {
    root = options.absolute_path,
    env = options.env,
    limits = options.record({ timeout_ms = options.positive_integer }),
    clock = options.clock,
}

local function default_root()
    local temporary = os.getenv("TMPDIR")
    if not temporary or temporary:sub(1, 1) ~= "/" then
        temporary = "/tmp"
    end
    return (temporary:match("^.*[^/]") or "") .. "/chamvi-workspaces"
end

-- Everything that a command sees; nothing of the host's own environment.
local function environment(folder, ...)
    return requests.environment({ PATH = PATH, LANG = "C.UTF-8" }, constants.SANDBOX_ENV, {
        HOME = folder .. ".home",
        TMPDIR = folder .. ".tmp",
        GIT_CONFIG_VALUE_0 = folder, -- of safe.directory
    }, ...)
end

-- Removes the workspace. A collection that is at it already is waited for.
local function remove(root, id, handle)
    local removed, err
    for _ = 1, COLLECTION_CHECKS do
        removed, err = folders.remove(root, id, handle)
        if removed or err.code ~= "record_locked" then
            return removed, err
        end
        handle = nil
        local core, failure = loop.core()
        if not core then
            return nil, failure
        end
        task.pause(COLLECTION_CHECK_MS)
    end
    return nil, errors.sandbox("remove_failed", "a collection is still removing the workspace; dispose it again")
end

-- Runs as a job. The launch is not aborted but waited for: it is short, and then all can be removed.
local function create(provider, given, created_at)
    local id = native.uuid()
    local lifetime_ms = given.limits and given.limits.timeout_ms or provider.timeout_ms
    local info = {
        run_id = given.run_id,
        provider = NAME,
        repo = given.repo,
        ref = given.ref,
        created_at = created_at,
        expires_at = created_at + compat.integer(lifetime_ms),
    }

    local env = environment(provider.root .. "/" .. id, provider.env, given.env)
    local handle, err = folders.create(provider.root, id, info, env)
    local workspace = workspaces.new({
        id = id,
        info = info,
        backend = supervised.new(handle, function()
            local used = handle
            handle = nil
            return remove(provider.root, id, used)
        end),
    })
    local prepared
    if handle then
        prepared, err = prepare_workspace(workspace, { repo = given.repo, ref = given.ref, signal = given.signal })
    end
    if prepared then
        workspace.info.commit = prepared.commit
        return workspace
    end

    local failure = requests.create_error("in " .. provider.root, err)
    -- A launch that failed has left nothing; one that was lost may have.
    if handle or err.code == "transport_lost" then
        local removed, left = workspace:dispose()
        if not removed then
            failure = requests.not_removed("in " .. provider.root, failure, left)
        end
    end
    return nil, failure
end

---@class chamvi.LocalProvider
---@field name "local"

---@class chamvi.LocalOptions
---@field root? string an absolute path; default: chamvi-workspaces in $TMPDIR or /tmp
---@field env? table<string, string> added to the environment of every command
---@field limits? { timeout_ms?: integer } the lifetime of a workspace; default 30 minutes
---@field clock? chamvi.Clock default: the system's

--- A provider whose workspaces are folders under `root`. Creates nothing yet.
---@param given? chamvi.LocalOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.LocalProvider
function local_sandbox.create_local_sandbox(given)
    local settings = options.check("create_local_sandbox", given, PROVIDER_OPTIONS)
    local provider = {
        root = (settings.root or default_root()):match("^.*[^/]") or "/",
        env = options.copy(settings.env),
        timeout_ms = settings.limits and settings.limits.timeout_ms or constants.DEFAULT_LIMITS.timeout_ms,
        now = clocks(settings.clock),
    }

    --- Makes a workspace: its folders, its supervisor, its git repository. Whatever fails or is aborted on the
    --- way is removed again before this returns.
    ---@param request chamvi.CreateOptions a wrong or unknown one raises an InvalidAgentDefinitionError
    ---@return chamvi.Workspace|nil
    ---@return chamvi.Error? err ValidationError for repo and ref; SandboxError `create_failed`, `checkout_failed`,
    ---   `aborted`
    local function create_workspace(_, request)
        local asked, err = requests.check_request(request)
        if not asked then
            return nil, err
        end
        return task.wait(task.start(create, provider, asked, provider.now()))
    end

    --- Removes the workspaces under `root` whose lifetime is over, whoever made them: those of a program
    --- that was killed as well as those that are still in use.
    ---@return integer|nil count how many went
    ---@return chamvi.Error? err SandboxError `gc_failed`, with `count`: some could not be removed, the others are gone
    local function collect_garbage(_)
        task.check_may_wait("collect_garbage")
        return task.wait(task.start(collect, provider.root, provider.now()))
    end

    return { name = NAME, create = create_workspace, collect_garbage = collect_garbage }
end

return local_sandbox
