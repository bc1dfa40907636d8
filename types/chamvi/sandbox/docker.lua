---@meta chamvi.sandbox.docker

-- For LuaLS: what `require "chamvi.sandbox.docker"` gives; see types/chamvi/sandbox.lua.

--- Workspaces as containers of a Docker Engine, or of Podman, which speaks the same API.
---@class chamvi.sandbox.docker
local docker = {}

docker.DEFAULT_NETWORK = "bridge"
docker.CONTAINER_NAME_PREFIX = "chamvi-ws-"
docker.SANDBOX_USER = "1000:1000"

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

---@class chamvi.DockerProvider
---@field name "docker"
local DockerProvider = {}

--- Makes a workspace: pulls the image where that is the policy, makes and starts a container, checks the repository
--- out in it. Whatever fails or is aborted on the way is removed again before this returns.
---@param request chamvi.CreateOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.Workspace|nil
---@return chamvi.Error? err ValidationError for repo and ref; SandboxError `engine_unreachable`, `forbidden`,
---   `image_unavailable`, `network_none`, `create_failed`, `checkout_failed`, `aborted`
function DockerProvider:create(request) end

--- Removes the containers of this kind whose lifetime is over, in any state, whoever made them.
---@return integer|nil count how many went
---@return chamvi.Error? err SandboxError `engine_unreachable`; `gc_failed`, with `count`: some could not be
---   removed, the others are gone
function DockerProvider:collect_garbage() end

--- A provider whose workspaces are containers. Contacts nothing yet.
---@param given? chamvi.DockerOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.DockerProvider
function docker.create_docker_sandbox(given) end

return docker
