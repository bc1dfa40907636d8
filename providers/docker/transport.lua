-- One container as a transport: commands by the engine's exec, over an upgraded connection.

local container = require "chamvi.sandbox.docker.container"
local constants = require "chamvi.sandbox.constants"
local engines = require "chamvi.sandbox.docker.engine"
local errors = require "chamvi.sandbox.errors"
local limits = require "chamvi.sandbox.docker.limits"
local native = require "chamvi.sandbox.core"
local on_podman = require "chamvi.sandbox.docker.podman"
local remove = require "chamvi.sandbox.docker.remove"
local task = require "chamvi.sandbox.task"
local utf8_argv = require "chamvi.sandbox.docker.argv"

local transports = {}

-- Of an answer about an exec, which repeats its arguments: Go's JSON has up to six bytes for one. The rest is short.
local ARGUMENT_BYTE_MAX_BYTES = 6
local EXEC_MAX_BYTES = 1048576

---@class chamvi.DockerTransport: chamvi.Transport
local Transport = {}
Transport.__index = Transport

--- A transport to a container that may not exist yet.
---@param engine chamvi.DockerEngine
---@param id string of the workspace
---@return chamvi.DockerTransport
function transports.new(engine, id)
    return setmetatable({
        engine = engine,
        name = container.name(id),
        container_id = nil,
        started_at = nil, -- by the engine's clock: tells a restart
        volume = nil, -- its name
    }, Transport)
end

local function state_of(answer)
    local state = type(answer.json) == "table" and answer.json.State
    return type(state) == "table" and state or {}
end

-- The state of the container, and all that the engine says of it; false when it is not there.
local function inspect(self, signal)
    local answer, err = self.engine:request("GET", ("/containers/%s/json"):format(self.name), { signal = signal })
    if not answer then
        return nil, err
    end
    if answer.status == 404 then
        return false
    end
    if answer.status ~= 200 then
        return nil, self.engine:failure("looking at the container", answer)
    end
    return state_of(answer), answer.json
end

local function volume_of(inspected)
    for _, mount in ipairs(type(inspected.Mounts) == "table" and inspected.Mounts or {}) do
        local is_it = type(mount) == "table" and mount.Destination == constants.WORKSPACE_ROOT
        if is_it and type(mount.Name) == "string" then
            return mount.Name
        end
    end
end

--- Remembers which container it is, which runs now.
---@return true|nil
---@return chamvi.Error? err
function Transport:identify()
    local state, inspected = inspect(self)
    if state == nil then
        return nil, inspected
    end
    if not state or state.Running ~= true then
        return nil, errors.sandbox("create_failed", "the container ended at once")
    end
    if type(inspected.Id) ~= "string" then
        return nil, errors.sandbox("create_failed", "the engine does not say which container it is")
    end
    self.container_id, self.started_at = inspected.Id, state.StartedAt
    self.volume = volume_of(inspected)
    return true
end

-- Whether it still is the one that was made, and runs: a container that was started again has lost what ran in it.
local function is_same(self, state, inspected)
    return state and state.Running == true and inspected.Id == self.container_id and state.StartedAt == self.started_at
end

--- Whether the container still runs.
---@param signal? chamvi.Signal
---@return boolean|nil
---@return chamvi.Error? err
function Transport:alive(signal)
    local state, inspected = inspect(self, signal)
    if state == nil then
        return nil, inspected
    end
    return is_same(self, state, inspected) or false
end

-- Feeds what the stream brings into the sinks, up to its end.
local function read_all(stream, sinks)
    local decoder = native.docker_stream()
    while true do
        local bytes, err = stream:read()
        if not bytes then
            if err then
                return nil, err
            end
            break
        end
        local pieces, code, message = decoder:feed(bytes)
        if not pieces then
            return nil, errors.sandbox(code, message)
        end
        for index = 1, #pieces, 2 do
            local sink = sinks[pieces[index]]
            if sink then
                sink:write(pieces[index + 1])
            end
        end
    end
    if not decoder:whole() then
        return nil, errors.sandbox("transport_lost", "the engine's stream ended within a piece of output")
    end
    return true
end

---@class chamvi.DockerExec one that the engine has prepared
---@field id string
---@field argv_bytes integer

-- What an exec has ended with.
local function exit_code(self, exec, signal)
    local code, err = engines.poll(limits.EXIT, function()
        local answer, failure = self.engine:request("GET", ("/exec/%s/json"):format(exec.id), {
            max_bytes = EXEC_MAX_BYTES + ARGUMENT_BYTE_MAX_BYTES * exec.argv_bytes,
            signal = signal,
        })
        if not answer then
            return nil, failure
        end
        if answer.status ~= 200 or type(answer.json) ~= "table" then
            return nil, self.engine:failure("asking for the exit code", answer)
        end
        local ended = answer.json.Running == false and type(answer.json.ExitCode) == "number"
        return ended and answer.json.ExitCode or nil
    end)
    if not code and not err then
        err = errors.sandbox("transport_lost", "the engine's stream ended, but the command did not")
    end
    return code, err
end

-- Prepares a command in the container that was made, and in no other.
local function create_exec(self, argv, given)
    local state, inspected = inspect(self, given.signal)
    if state == nil then
        return nil, inspected
    end
    if not is_same(self, state, inspected) then
        return nil, errors.sandbox("gone", "the container is gone, or was started again")
    end
    if state.Paused == true then
        return nil, errors.sandbox("not_ready", "the container is paused")
    end
    if self.engine.is_podman then
        argv = on_podman(argv, given.stdin ~= nil)
    end
    argv = utf8_argv(argv)
    local answer, err = self.engine:request("POST", ("/containers/%s/exec"):format(self.container_id), {
        json = {
            AttachStdin = given.stdin ~= nil,
            AttachStdout = true,
            AttachStderr = true,
            Tty = false,
            User = given.user or container.USER,
            Cmd = argv,
        },
        signal = given.signal,
    })
    if not answer then
        return nil, err
    end
    local exec_id = type(answer.json) == "table" and answer.json.Id
    if answer.status ~= 201 or type(exec_id) ~= "string" then
        return nil, self.engine:failure("preparing the command", answer)
    end
    return { id = exec_id, argv_bytes = #table.concat(argv) }
end

-- Runs a prepared command to its end. No error of it may say that nothing ran.
local function run(self, stream, exec, given)
    if given.stdin then
        task.start(function()
            if stream:write(given.stdin) then
                stream:shutdown()
            end
        end)
    end
    local read, err = read_all(stream, given)
    stream:close()
    local code
    if read then
        code, err = exit_code(self, exec, given.signal)
    end
    if not code then
        return nil, errors.sandbox("transport_lost", err.message, { detail = err.detail, cause = err })
    end
    return { exit_code = code }
end

--- Runs argv in the container.
---@param argv string[]
---@param given chamvi.TransportExec `user` too: default the workspace's
---@return chamvi.TransportResult|nil
---@return chamvi.Error? err `gone`, `not_ready`, `engine_unreachable` and `forbidden` only where nothing ran
function Transport:exec(argv, given)
    local exec, err = create_exec(self, argv, given)
    if not exec then
        return nil, err
    end
    local stream, answer
    stream, err, answer = self.engine:stream(("/exec/%s/start"):format(exec.id), {
        json = { Detach = false, Tty = false },
        signal = given.signal,
    })
    if not stream then
        return nil, answer and self.engine:failure("starting the command", answer) or err
    end
    return run(self, stream, exec, given)
end

--- Removes the container with its volume, whatever state it is in. Waits until it is gone; one that is not there is
--- fine.
---@param signal? chamvi.Signal
---@return true|nil
---@return chamvi.Error? err
---@return boolean? found whether it was there
function Transport:remove(signal)
    local removed, err = remove.container(self.engine, self.name, signal)
    if not removed then
        return nil, err
    end
    local found = removed ~= "missing"
    if removed ~= "removed" and self.volume then
        -- Whoever removed the container may have left it.
        removed, err = remove.volume(self.engine, self.volume, signal)
        if not removed then
            return nil, err
        end
    end
    return true, nil, found
end

return transports
