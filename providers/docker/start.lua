-- From nothing to a container that runs and whose folder can be written.

local container = require "chamvi.sandbox.docker.container"
local constants = require "chamvi.sandbox.constants"
local engines = require "chamvi.sandbox.docker.engine"
local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"

local START_LIMIT_MS = 120000 -- of a busy engine

local function create(engine, name, body)
    local answer, err = engine:request("POST", "/containers/create?name=" .. name, {
        json = body,
        timeout_ms = START_LIMIT_MS,
    })
    if not answer then
        return nil, err
    end
    if answer.status == 201 then
        return true
    end
    local missing = answer.status == 404 and "image_unavailable" or nil
    return nil, engines.failure("creating the container", answer, missing)
end

-- The first line that the container's main program prints: what became of the folder.
local function first_line(stream)
    local decoder, text = native.docker_stream(), ""
    while not text:find("\n", 1, true) do
        local bytes, err = stream:read()
        if not bytes then
            return nil, err or errors.sandbox("create_failed", "the container ended at once")
        end
        local pieces, code, message = decoder:feed(bytes)
        if not pieces then
            return nil, errors.sandbox(code, message)
        end
        for index = 1, #pieces, 2 do
            text = text .. (pieces[index] == "stdout" and pieces[index + 1] or "")
        end
        if #text > 64 then
            return nil, errors.sandbox("create_failed", "the image's sh says what it should not: " .. text:sub(1, 64))
        end
    end
    return text:match("^[^\n]*")
end

-- Starts the container, attached before so that its first words are not missed.
local function start(engine, name)
    local stream, err, refusal = engine:stream(("/containers/%s/attach?stream=1&stdout=1"):format(name), {
        timeout_ms = START_LIMIT_MS,
    })
    if not stream then
        return nil, refusal and engines.failure("attaching to the container", refusal) or err
    end
    local answer
    answer, err = engine:request("POST", ("/containers/%s/start"):format(name), { timeout_ms = START_LIMIT_MS })
    if answer and answer.status ~= 204 then
        answer, err = nil, engines.failure("starting the container", answer)
    end
    if not answer then
        stream:close()
        return nil, err
    end
    local line
    line, err = first_line(stream)
    stream:close()
    return line, err
end

-- A fresh volume on a folder that the image does not have is root's.
local function open_folder(transport)
    local words = {}
    local sink = {
        write = function(_, bytes)
            table.insert(words, bytes)
        end,
    }
    local result, err = transport:exec({ "chmod", "1777", constants.WORKSPACE_ROOT }, {
        user = "0:0",
        stdout = sink,
        stderr = sink,
    })
    if not result then
        return nil, err
    end
    if result.exit_code ~= 0 then
        local detail = table.concat(words)
        return nil, errors.sandbox("create_failed", ("the workspace's user may not write to %s: give the image that "
            .. "folder, owned by %s"):format(constants.WORKSPACE_ROOT, container.USER), { detail = detail })
    end
    return true
end

--- Makes and starts the container of a transport. Not to be aborted in between: what the engine was asked for may come
--- into being after anybody has looked.
---@param transport chamvi.DockerTransport
---@param given chamvi.ContainerOptions
---@return boolean|nil ready whether the folder is an empty git repository already
---@return chamvi.Error? err the container may be there
return function(transport, given)
    local engine, name = transport.engine, transport.name
    local ok, err = create(engine, name, container.body(given))
    if not ok then
        return nil, err
    end
    local state
    state, err = start(engine, name)
    if not state then
        return nil, err
    end
    ok, err = transport:identify()
    if not ok then
        return nil, err
    end
    if state == "closed" then
        ok, err = open_folder(transport)
        if not ok then
            return nil, err
        end
    end
    return state == "ready"
end
