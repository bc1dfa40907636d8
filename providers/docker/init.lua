-- Workspaces as containers of a Docker Engine, or of Podman, which speaks the same API. One container per workspace,
-- removed with its volume on dispose.

local addresses = require "chamvi.sandbox.docker.address"
local clocks = require "chamvi.sandbox.clock"
local collect = require "chamvi.sandbox.docker.collect"
local compat = require "chamvi.sandbox.compat"
local constants = require "chamvi.sandbox.constants"
local container = require "chamvi.sandbox.docker.container"
local create_remote_workspace = require "chamvi.sandbox.remote"
local creation = require "chamvi.sandbox.creation"
local engines = require "chamvi.sandbox.docker.engine"
local errors = require "chamvi.sandbox.errors"
local git_argv = require "chamvi.sandbox.git_argv"
local images = require "chamvi.sandbox.docker.images"
local limits = require "chamvi.sandbox.docker.limits"
local options = require "chamvi.sandbox.options"
local prepare_workspace = require "chamvi.sandbox.prepare"
local provider = require "chamvi.sandbox.provider"
local reporter = require "chamvi.sandbox.reporter"
local rules = require "chamvi.sandbox.rules"
local start = require "chamvi.sandbox.docker.start"
local task = require "chamvi.sandbox.task"
local transports = require "chamvi.sandbox.docker.transport"

local docker = {}

docker.DEFAULT_NETWORK = "bridge"
docker.CONTAINER_NAME_PREFIX = container.NAME_PREFIX
docker.SANDBOX_USER = container.USER

local NAME = "docker"

local HOST_OPTIONS = {
    host = options.string,
    tls_verify = options.boolean,
    cert_path = options.absolute_path,
}

local AUTH_OPTIONS = {
    username = options.string,
    password = options.string,
    serveraddress = options.string,
    identitytoken = options.string,
    registrytoken = options.string,
}

local PROVIDER_OPTIONS = {
    docker = options.record(HOST_OPTIONS),
    image = options.string,
    network = options.string,
    pull = options.choice({ "missing", "always", "never" }),
    env = options.utf8_env,
    limits = options.limits,
    clock = options.clock,
    registry_auth = options.record(AUTH_OPTIONS),
    on_event = options.callable,
    on_error = options.callable,
}

---@class chamvi.DockerEvent
---@field phase "pulling"|"creating"|"cloning"|"ready"
---@field message string
---@field current? integer bytes of a layer
---@field total? integer

---@class chamvi.DockerOptions
---@field docker? chamvi.DockerHost default: the environment's
---@field image? string default DEFAULT_SANDBOX_IMAGE; pin a digest in production
---@field network? string default "bridge"; "none" (no repositories then), or a network that you made
---@field pull? "missing"|"always"|"never" default "missing": once, when the image is not there
---@field env? table<string, string> added to every workspace's environment, after SANDBOX_ENV
---@field limits? chamvi.Limits
---@field clock? chamvi.Clock default: the system's
---@field registry_auth? chamvi.RegistryAuth default: what ~/.docker/config.json has
---@field on_event? fun(event: chamvi.DockerEvent) told how a create goes on; must not wait
---@field on_error? fun(err: any) told what could not be removed after a create that failed; default: a line on stderr

---@class chamvi.DockerHost
---@field host? string default DOCKER_HOST, else unix:///var/run/docker.sock
---@field tls_verify? boolean default: whether DOCKER_TLS_VERIFY is set
---@field cert_path? string a folder with ca.pem, cert.pem and key.pem; default DOCKER_CERT_PATH, else ~/.docker

---@class chamvi.RegistryAuth
---@field username? string
---@field password? string
---@field serveraddress? string
---@field identitytoken? string instead of a password
---@field registrytoken? string

-- Everything of a create that has a container. Returns the workspace.
local function fill(self, transport, given, info, id)
    local ready, err = start(transport, {
        id = id,
        run_id = given.run_id,
        image = given.image,
        network = self.network,
        env = provider.environment(constants.SANDBOX_ENV, self.env, given.env),
        limits = given.limits,
        expires_at = info.expires_at,
        init = not given.repo and git_argv(git_argv.INIT) or nil,
    }, function(text)
        self.on_event({ phase = "creating", message = "the engine warns: " .. text })
    end)
    if err then
        return nil, err
    end
    if given.signal and given.signal.aborted then
        return nil, task.aborted(given.signal)
    end
    local workspace = create_remote_workspace({
        id = id,
        info = info,
        transport = transport,
        clock = { now = self.now },
    })
    if not ready then
        if given.repo then
            self.on_event({ phase = "cloning", message = "cloning " .. given.repo })
        end
        local prepared
        prepared, err = prepare_workspace(workspace, { repo = given.repo, ref = given.ref, signal = given.signal })
        if not prepared then
            workspace:dispose() -- so that it reports nothing of its own; what that leaves is cleaned up
            return nil, err
        end
        info.commit = prepared.commit
    end
    return workspace
end

-- Runs as a job.
local function create(self, given)
    local ok, err = creation.call(images.ensure, self.engine, given.image, {
        pull = self.pull,
        registry_auth = self.registry_auth,
        on_event = self.on_event,
        signal = given.signal,
    })
    if not ok then
        return nil, err
    end
    local id
    id, err = rules.uuid()
    if not id then
        return nil, err
    end
    if given.signal and given.signal.aborted then
        return nil, task.aborted(given.signal)
    end

    self.on_event({ phase = "creating", message = "creating " .. container.name(id) })
    local created_at = self.now()
    local info = {
        run_id = given.run_id,
        provider = NAME,
        repo = given.repo,
        ref = given.ref,
        created_at = created_at,
        expires_at = created_at + compat.integer(given.limits.timeout_ms),
    }
    local transport = transports.new(self.engine, id)
    local workspace
    workspace, err = creation.call(fill, self, transport, given, info, id)
    if not workspace then
        creation.clean_up(transport, "the container " .. transport.name, limits.CLEAN_UP, self.on_error)
        return nil, err
    end
    self.on_event({ phase = "ready", message = "ready: " .. id })
    return workspace
end

---@class chamvi.DockerProvider
---@field name "docker"

--- A provider whose workspaces are containers. Contacts nothing yet.
---@param given? chamvi.DockerOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.DockerProvider
function docker.create_docker_sandbox(given)
    local settings = options.check("create_docker_sandbox", given, PROVIDER_OPTIONS)
    local address = addresses.resolve(settings.docker)
    local on_error = reporter(settings.on_error)
    local self = {
        engine = engines.new(address),
        image = settings.image or constants.DEFAULT_SANDBOX_IMAGE,
        network = settings.network or docker.DEFAULT_NETWORK,
        pull = settings.pull or "missing",
        env = options.copy(settings.env),
        limits = options.copy(settings.limits),
        registry_auth = options.copy(settings.registry_auth),
        now = clocks(settings.clock),
        on_error = on_error,
        on_event = creation.event_teller(settings.on_event, on_error),
    }

    --- Makes a workspace: pulls the image where that is the policy, makes and starts a container, checks the repository
    --- out in it. Whatever fails or is aborted on the way is removed again before this returns.
    ---@param request chamvi.CreateOptions a wrong or unknown one raises an InvalidAgentDefinitionError
    ---@return chamvi.Workspace|nil
    ---@return chamvi.Error? err ValidationError for repo and ref; SandboxError `engine_unreachable`, `forbidden`,
    ---   `image_unavailable`, `network_none`, `create_failed`, `checkout_failed`, `aborted`
    local function create_workspace(_, request)
        local asked, err = provider.check_request(request)
        if not asked then
            return nil, err
        end
        if asked.repo and self.network == "none" then
            return nil, errors.sandbox("network_none",
                "the containers have no network, and a clone needs one: use a workspace without a repository")
        end
        options.check("create", { env = asked.env }, { env = options.utf8_env })
        asked.image = asked.image or self.image
        asked.limits = rules.resolve_limits(self.limits, asked.limits)
        local workspace
        workspace, err = creation.await(task.start(create, self, asked), asked.signal, limits.ABORT, self.on_error)
        if not workspace then
            return nil, provider.create_error("at " .. address.name, err)
        end
        return workspace
    end

    --- Removes the containers of this kind whose lifetime is over, in any state, whoever made them.
    ---@return integer|nil count how many went
    ---@return chamvi.Error? err SandboxError `engine_unreachable`; `gc_failed`, with `count`: some could not be
    ---   removed, the others are gone
    local function collect_garbage(_)
        task.check_may_wait("collect_garbage")
        return task.wait(task.start(collect, self.engine, self.now()))
    end

    return { name = NAME, create = create_workspace, collect_garbage = collect_garbage }
end

return docker
