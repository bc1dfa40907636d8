-- A container engine of scripts/services as a target of the conformance suite, and as other specs of the Docker
-- provider need it.

local assert = require "luassert"
local constants = require "chamvi.sandbox.constants"
local docker = require "chamvi.sandbox.docker"
local docker_engine = require "spec.support.docker_engine"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local with_workspace = require "spec.support.with_workspace"

local docker_target = {}

-- The test image with a repository in it, since containers reach nothing but their gateway.
---@return { url: string, first: string, main: string, topic: string }
local function add_repository(engine, image)
    local folder = scratch.folder()
    local repository = scratch.repository(folder .. "/repository")
    local tar = folder .. "/repository.tar"
    -- git serves only what belongs to the user who asks.
    scratch.shell(("tar -C %s --owner=1000 --group=1000 --numeric-owner -cf %s repository"):format(folder, tar))
    local id = engine:call("create", engine.image, "true")
    scratch.shell(("%s cp - %s:/srv <%s"):format(engine:client(), id, tar))
    engine:commit(id, image)
    engine:remove(id)
    scratch.remove(folder)
    repository.url = "file:///srv/repository"
    return repository
end

-- The names of the volumes that containers have mounted.
local function volumes_of(engine, id)
    local inspected = engine:inspect(id)
    local names = {}
    for _, mount in ipairs(inspected and inspected.Mounts or {}) do
        if mount.Type == "volume" then
            names[mount.Name] = true
        end
    end
    return names, inspected and inspected.Config.Labels or {}
end

---@class spec.DockerTarget
---@field name string
---@field engine spec.DockerEngine
---@field image string the test image with the repository
---@field repository { url: string, first: string, main: string, topic: string }
---@field provider fun(options?: chamvi.DockerOptions): chamvi.DockerProvider
---@field with fun(use: fun(workspace: chamvi.Workspace), request?: table, options?: chamvi.DockerOptions)
---@field options fun(options?: chamvi.DockerOptions): chamvi.DockerOptions what its providers are made with
---@field container fun(workspace: chamvi.Workspace): string its container's name
---@field lose fun(workspace: chamvi.Workspace) removes the container, and not its volume
---@field left fun(): string[] what is new since the start: ids of workspaces, names of other containers and volumes
---@field forget fun(): string[] removes what is new, if it can be, and gives what it was; it is new no more
---@field running fun(word: string): boolean
---@field close fun() removes what the target made; specs call it at their end

--- The target on an engine that the environment names.
---@param service "docker"|"docker-tls"|"podman"
---@return spec.DockerTarget|nil
---@return string|nil reason why there is none, for `pending`
function docker_target.new(service)
    local engine, reason = docker_engine.find(service)
    if not engine then
        return nil, reason
    end
    local image = ("localhost/chamvi-spec-%d:%s"):format(scratch.pid(), service)
    local target = {
        name = service,
        engine = engine,
        image = image,
        repository = add_repository(engine, image),
        running = scratch.is_running,
        more_than_buffers = 30000000,
    }
    local watch = engine:watch()

    function target.options(options)
        local given = {
            docker = { host = engine.host, tls_verify = engine.cert_path ~= nil, cert_path = engine.cert_path },
            image = image,
            pull = "never",
        }
        for name, value in pairs(options or {}) do
            given[name] = value
        end
        return given
    end

    function target.provider(options)
        return docker.create_docker_sandbox(target.options(options))
    end

    --- Calls `use(workspace)` with a new workspace, and disposes it however that ends.
    function target.with(use, request, options)
        with_workspace(target.provider(options), use, request)
    end

    function target.container(workspace)
        return docker.CONTAINER_NAME_PREFIX .. workspace.id
    end

    function target.lose(workspace)
        engine:call("rm", "--force", target.container(workspace))
    end

    function target.left()
        local names, found = {}, {}
        local function add(name)
            if not found[name] then
                found[name] = true
                table.insert(names, name)
            end
        end
        local mounted = {}
        local left = watch.left()
        for _, entry in ipairs(left) do
            local id = entry:match("^container (%x+)")
            if id then
                local volumes, labels = volumes_of(engine, id)
                add(labels[constants.WORKSPACE_LABEL] or entry)
                for volume in pairs(volumes) do
                    mounted[volume] = true
                end
            end
        end
        for _, entry in ipairs(left) do
            local volume = entry:match("^volume (.*)$")
            if volume and not mounted[volume] then
                add(entry)
            end
        end
        return names
    end

    target.forget = watch.forget

    function target.close()
        engine:call("image", "rm", "--force", image)
    end

    return target
end

--- Defines specs for each of the engines: `define(target)` is called in a `describe` of its own, and after each spec
--- nothing may be left. Where there is no engine there is one pending spec. LuaJIT meets Docker alone, unless
--- CHAMVI_TEST_ENGINES=all: what engines differ in is seen on Lua 5.4 already, and each takes minutes.
---@param busted { describe: function, it: function, after_each: function, teardown: function, pending: function }
---@param services string[]
---@param name string what the specs are about, "commands"
---@param define fun(target: spec.DockerTarget)
function docker_target.each(busted, services, name, define)
    local all = not jit or os.getenv("CHAMVI_TEST_ENGINES") == "all"
    for _, service in ipairs(all and services or { services[1] }) do
        busted.describe(name .. " on " .. service, function()
            local target, reason = docker_target.new(service)
            if not target then
                busted.it("are as they should be", function()
                    busted.pending(reason)
                end)
                return
            end
            busted.teardown(target.close)
            busted.after_each(function()
                -- It fails one spec, and none after that.
                local left = target.forget()
                assert(#left == 0, "left behind: " .. table.concat(left, ", "))
            end)
            define(target)
        end)
    end
end

--- Waits for at most 30 s until `condition()` gives something, and returns it.
---@param what string for the error
---@param condition fun(): any
function docker_target.wait_until(what, condition)
    for _ = 1, 600 do
        local value = condition()
        if value then
            return value
        end
        assert(sandbox.sleep(50))
    end
    error("not within 30 s: " .. what, 2)
end

return docker_target
