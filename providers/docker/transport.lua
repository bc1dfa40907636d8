-- One container as a transport: commands by the engine's exec, over an upgraded connection.

local container = require "chamvi.sandbox.docker.container"
local engines = require "chamvi.sandbox.docker.engine"
local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"
local task = require "chamvi.sandbox.task"

local transports = {}

local EXIT_LIMIT_MS = 5000 -- from the end of an exec's output until the engine knows its exit code
local REMOVE_LIMIT_MS = 60000

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
    }, Transport)
end

local function state_of(answer)
    local state = type(answer.json) == "table" and answer.json.State
    return type(state) == "table" and state or {}
end

-- The state of the container; false when it is not there.
local function inspect(self, signal)
    local answer, err = self.engine:request("GET", ("/containers/%s/json"):format(self.name), { signal = signal })
    if not answer then
        return nil, err
    end
    if answer.status == 404 then
        return false
    end
    if answer.status ~= 200 then
        return nil, engines.failure("looking at the container", answer)
    end
    return state_of(answer), answer.json.Id
end

--- Remembers which container it is, which runs now.
---@return true|nil
---@return chamvi.Error? err
function Transport:identify()
    local state, id = inspect(self)
    if state == nil then
        return nil, id
    end
    if not state or not state.Running then
        return nil, errors.sandbox("create_failed", "the container ended at once")
    end
    self.container_id, self.started_at = id, state.StartedAt
    return true
end

-- Whether it still is the one that was made, and runs: a container that was started again has lost what ran in it.
local function is_same(self, state, id)
    return state and state.Running == true and id == self.container_id and state.StartedAt == self.started_at
end

--- Whether the container still runs.
---@param signal? chamvi.Signal
---@return boolean|nil
---@return chamvi.Error? err
function Transport:alive(signal)
    local state, id = inspect(self, signal)
    if state == nil then
        return nil, id
    end
    return is_same(self, state, id) or false
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

-- What an exec has ended with.
local function exit_code(self, exec_id, signal)
    local code, err = engines.poll(EXIT_LIMIT_MS, function()
        local answer, failure = self.engine:request("GET", ("/exec/%s/json"):format(exec_id), { signal = signal })
        if not answer then
            return nil, failure
        end
        if answer.status ~= 200 or type(answer.json) ~= "table" then
            return nil, engines.failure("asking for the exit code", answer)
        end
        local ended = answer.json.Running == false and type(answer.json.ExitCode) == "number"
        return ended and answer.json.ExitCode or nil
    end)
    if not code and not err then
        err = errors.sandbox("transport_lost", "the engine's stream ended, but the command did not")
    end
    return code, err
end

local function create_exec(self, argv, given)
    local state, id = inspect(self, given.signal)
    if state == nil then
        return nil, id
    end
    if not is_same(self, state, id) then
        return nil, errors.sandbox("gone", "the container is gone, or was started again")
    end
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
        return nil, engines.failure("preparing the command", answer)
    end
    return exec_id
end

--- Runs argv in the container.
---@param argv string[]
---@param given chamvi.TransportExecOptions `user` too: default the workspace's
---@return chamvi.TransportResult|nil
---@return chamvi.Error? err
function Transport:exec(argv, given)
    local exec_id, err = create_exec(self, argv, given)
    if not exec_id then
        return nil, err
    end
    local stream, answer
    stream, err, answer = self.engine:stream(("/exec/%s/start"):format(exec_id), {
        json = { Detach = false, Tty = false },
        signal = given.signal,
    })
    if not stream then
        return nil, answer and engines.failure("starting the command", answer) or err
    end
    if given.stdin then
        task.start(function()
            if stream:write(given.stdin) then
                stream:shutdown()
            end
        end)
    end
    local read
    read, err = read_all(stream, given)
    stream:close()
    if not read then
        return nil, err
    end
    local code
    code, err = exit_code(self, exec_id, given.signal)
    if not code then
        return nil, err
    end
    return { exit_code = code }
end

--- Removes the container with its volume, whatever state it is in. Waits until it is gone; one that is not there is
--- fine.
---@return true|nil
---@return chamvi.Error? err
function Transport:remove()
    return transports.remove(self.engine, self.name)
end

--- Removes a container by its id or name.
---@param engine chamvi.DockerEngine
---@param name string
---@return true|nil
---@return chamvi.Error? err
function transports.remove(engine, name)
    local path = ("/containers/%s"):format(name)
    local answer, err = engine:request("DELETE", path .. "?force=1&v=1", { timeout_ms = REMOVE_LIMIT_MS })
    if not answer then
        return nil, err
    end
    if answer.status == 204 or answer.status == 200 or answer.status == 404 then
        return true
    end
    -- 409: somebody else removes it, as the engine itself does when its time is over.
    local failure = engines.failure("removing the container", answer, "remove_failed")
    if answer.status ~= 409 then
        return nil, failure
    end
    local gone
    gone, err = engines.poll(REMOVE_LIMIT_MS, function()
        local found, unreachable = engine:request("GET", path .. "/json")
        if not found then
            return nil, unreachable
        end
        return found.status == 404 or nil
    end)
    if gone then
        return true
    end
    return nil, err or failure
end

return transports
