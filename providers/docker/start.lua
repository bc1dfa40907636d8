-- From nothing to a container that runs and whose folder can be written.

local at_most = require "chamvi.sandbox.at_most"
local container = require "chamvi.sandbox.docker.container"
local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local limits = require "chamvi.sandbox.docker.limits"
local native = require "chamvi.sandbox.core"

-- What the engine does not do of what it was asked for, such as a limit that its kernel lacks.
local function tell_warnings(engine, answer, on_warning)
    local warnings = type(answer.json) == "table" and answer.json.Warnings
    for _, warning in ipairs(type(warnings) == "table" and warnings or {}) do
        on_warning(engine:redact(tostring(warning)))
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
        tell_warnings(transport.engine, answer, on_warning)
        return true
    end
    local no_image = answer.status == 404 and answer.body:find("image", 1, true) -- or network
    return nil, transport.engine:failure("creating the container", answer, no_image and "image_unavailable" or nil)
end

-- A function that gives the next line which the container's main program prints: what became of the folder.
local function line_reader(engine, stream)
    local decoder, text = native.docker_stream(), ""
    return function()
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
                local words = "the image's sh says what it should not: " .. engine:redact(text):sub(1, 64)
                return nil, errors.sandbox("create_failed", words)
            end
        end
        local line
        line, text = text:match("^([^\n]*)\n(.*)$")
        return line
    end
end

-- Calls `fn(signal)`, and has it end in time.
local function in_time(what, fn)
    local ok, value, err = at_most(limits.START, fn)
    if ok then
        return value, err
    end
    return nil, errors.sandbox("create_failed", ok == nil and what .. " took too long" or tostring(value))
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
        local detail = transport.engine:redact(table.concat(words))
        return nil, errors.sandbox("create_failed", ("the workspace's user may not write to %s: give the image that "
            .. "folder, owned by %s"):format(constants.WORKSPACE_ROOT, container.USER), { detail = detail })
    end
    return true
end

-- Starts the container, to which `stream` is attached, and prepares its folder. Returns its state.
local function prepare(transport, stream)
    local answer, err = transport.engine:request("POST", ("/containers/%s/start"):format(transport.name), {
        timeout_ms = limits.START,
    })
    if not answer then
        return nil, err
    end
    if answer.status ~= 204 then
        return nil, transport.engine:failure("starting the container", answer)
    end

    local next_line = line_reader(transport.engine, stream)
    local function read()
        return in_time("the container's first word", function(signal)
            signal:on_abort(function()
                stream:close()
            end)
            return next_line()
        end)
    end
    local state
    state, err = read()
    if not state then
        return nil, err
    end
    local ok
    ok, err = transport:identify()
    if ok and state == "closed" then
        ok, err = open_folder(transport)
        if ok then
            return read()
        end
    end
    if not ok then
        return nil, err
    end
    return state
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
    -- Attached before it starts, so that its first words are not missed.
    local path = ("/containers/%s/attach?stream=1&stdout=1"):format(transport.name)
    local stream, failure, refusal = transport.engine:stream(path, {})
    if not stream then
        return nil, refusal and transport.engine:failure("attaching to the container", refusal) or failure
    end
    local state
    state, err = prepare(transport, stream)
    stream:close()
    if not state then
        return nil, err
    end
    return state == "ready"
end
