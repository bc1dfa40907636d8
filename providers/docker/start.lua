-- From nothing to a container that runs and whose folder can be written.

local at_most = require "chamvi.sandbox.at_most"
local container = require "chamvi.sandbox.docker.container"
local constants = require "chamvi.sandbox.constants"
local engines = require "chamvi.sandbox.docker.engine"
local errors = require "chamvi.sandbox.errors"
local limits = require "chamvi.sandbox.docker.limits"
local native = require "chamvi.sandbox.core"

-- What the engine does not do of what it was asked for, such as a limit that its kernel lacks.
local function tell_warnings(answer, on_warning)
    local warnings = type(answer.json) == "table" and answer.json.Warnings
    for _, warning in ipairs(type(warnings) == "table" and warnings or {}) do
        on_warning(tostring(warning))
    end
end

-- Sets `transport.created`: false when there is no container, nil when nobody knows.
local function create(transport, body, on_warning)
    local answer, err = transport.engine:request("POST", "/containers/create?name=" .. transport.name, {
        json = body,
        timeout_ms = limits.START,
    })
    if not answer then
        transport.created = nil
        if err.code == "engine_unreachable" then
            transport.created = false
        end
        return nil, err
    end
    transport.created = answer.status < 400 or answer.status >= 500
    if answer.status == 201 then
        tell_warnings(answer, on_warning)
        return true
    end
    local no_image = answer.status == 404 and answer.body:find("image", 1, true) -- or network
    return nil, engines.failure("creating the container", answer, no_image and "image_unavailable" or nil)
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

-- Calls `fn(signal)`, and has it end in time.
local function in_time(what, fn)
    local ok, value, err = at_most(limits.START, fn)
    if ok then
        return value, err
    end
    return nil, errors.sandbox("create_failed", ok == nil and what .. " took too long" or tostring(value))
end

-- Starts the container, attached before so that its first words are not missed.
local function start(transport)
    local engine, name = transport.engine, transport.name
    local stream, err, refusal = engine:stream(("/containers/%s/attach?stream=1&stdout=1"):format(name), {})
    if not stream then
        return nil, refusal and engines.failure("attaching to the container", refusal) or err
    end
    local answer
    answer, err = engine:request("POST", ("/containers/%s/start"):format(name), { timeout_ms = limits.START })
    if answer and answer.status ~= 204 then
        answer, err = nil, engines.failure("starting the container", answer)
    end
    local line
    if answer then
        line, err = in_time("the container's first word", function(signal)
            signal:on_abort(function()
                stream:close()
            end)
            return first_line(stream)
        end)
    end
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
    local result, err = in_time("making the folder writable", function(signal)
        return transport:exec({ "chmod", "1777", constants.WORKSPACE_ROOT }, {
            user = "0:0",
            stdout = sink,
            stderr = sink,
            signal = signal,
        })
    end)
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
---@param on_warning fun(text: string) told what the engine leaves out
---@return boolean|nil ready whether the folder is an empty git repository already
---@return chamvi.Error? err the container may be there, see `transport.created`
return function(transport, given, on_warning)
    local ok, err = create(transport, container.body(given), on_warning)
    if not ok then
        return nil, err
    end
    local state
    state, err = start(transport)
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
