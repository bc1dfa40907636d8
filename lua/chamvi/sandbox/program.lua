-- Runs a program of this machine for the library itself, such as a credential helper: with a time limit, under a
-- supervisor of its own, so that nothing of it is left and it dies with this program.

local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local loop = require "chamvi.sandbox.loop"
local native = require "chamvi.sandbox.core"
local task = require "chamvi.sandbox.task"

local program = {}

-- What such programs need of this program's environment.
local VARIABLES = { "PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "DISPLAY", "DBUS_SESSION_BUS_ADDRESS",
    "GNUPGHOME",
    "PASSWORD_STORE_DIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DOCKER_CONFIG", "SSL_CERT_FILE",
    "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "AWS_PROFILE",
    "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR" }

local function environment(more)
    local list = {}
    for _, name in ipairs(VARIABLES) do
        local value = os.getenv(name)
        if value and not (more and more[name]) then
            table.insert(list, name .. "=" .. value)
        end
    end
    for name, value in pairs(more or {}) do
        table.insert(list, name .. "=" .. value)
    end
    return list
end

local function temporary()
    local folder = os.getenv("TMPDIR")
    return folder and folder:sub(1, 1) == "/" and (folder:match("^.*[^/]") or "") or "/tmp"
end

local function launch(core, request)
    local handle, id, message, detail = core:launch(request)
    if not handle then
        return nil, errors.from_core(id, message, { detail = detail })
    end
    local ready, err = task.complete(nil, id)
    if not ready then
        return nil, err
    end
    return handle
end

--- Runs argv, found on this program's PATH, in an empty folder. Waits.
---@param argv string[]
---@param given { stdin?: string, timeout_ms: integer, signal?: chamvi.Signal, env?: table<string, string> }
---@return chamvi.ExecResult|nil
---@return chamvi.Error? err `start_failed` and such when there is no result
function program.run(argv, given)
    local core, err = loop.core()
    if not core then
        return nil, err
    end
    local id = native.uuid()
    local base = temporary() .. "/chamvi-program-" .. id
    local handle
    handle, err = launch(core, { base = base, names = { "folder" }, env = environment(given.env), create = true })
    if not handle then
        os.remove(base)
        return nil, err
    end
    local result
    result, err = task.complete(given,
        core:exec(handle, argv, "", given.timeout_ms, constants.OUTPUT_MAX_BYTES, given.stdin, false))
    task.complete(nil, core:remove(handle))
    os.remove(base)
    return result, err
end

return program
