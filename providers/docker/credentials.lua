-- Who may pull: the option `registry_auth`, else what the docker command has in its config.json: `auths`, and the
-- programs that `credHelpers` and `credsStore` name. https://docs.docker.com/reference/cli/docker/login/
--
-- Secrets are in the results and in nothing else: no error here holds a byte of a file or of what a program said.

local base64 = require "chamvi.sandbox.base64"
local errors = require "chamvi.sandbox.errors"
local is_null = require "chamvi.sandbox.is_null"
local native = require "chamvi.sandbox.core"
local program = require "chamvi.sandbox.program"

local credentials = {}

local CONFIG_MAX_BYTES = 1048576
local HELPER_TIMEOUT_MS = 30000
local ENOENT, ENOTDIR = 2, 20

local function config_path()
    local folder, home = os.getenv("DOCKER_CONFIG"), os.getenv("HOME")
    if folder and folder ~= "" then
        return folder .. "/config.json"
    end
    return home and home ~= "" and home .. "/.docker/config.json" or nil
end

local function unusable(path, what)
    return nil, errors.sandbox("image_unavailable", ("%s can't be used: %s"):format(path, what))
end

-- The configuration, empty when there is none.
local function read_config()
    local path = config_path()
    if not path then
        return {}
    end
    local file, why, errno = io.open(path, "rb")
    if not file then
        if errno == ENOENT or errno == ENOTDIR then
            return {}
        end
        return unusable(path, (why:gsub("^.*: ", "")))
    end
    local text
    text, why = file:read(CONFIG_MAX_BYTES + 1)
    file:close()
    if why then
        return unusable(path, why)
    end
    text = text or "" -- at the end of the file at once
    if #text > CONFIG_MAX_BYTES then
        return unusable(path, "it is larger than 1 MiB")
    end
    if not text:find("[^ \t\r\n]") then -- docker reads it so as well
        return {}
    end
    local config = native.json_decode(text)
    if type(config) ~= "table" then
        return unusable(path, "it is no JSON object")
    end
    return config
end

local function entry(map, key)
    return type(map) == "table" and map[key] or nil
end

local function host_of(key)
    return (key:gsub("^https?://", ""):gsub("/.*$", ""))
end

-- Of `auths` the keys are registries with or without a scheme and a path.
local function find_auth(auths, registry)
    if type(auths) ~= "table" or auths[registry] then
        return entry(auths, registry)
    end
    local keys = {}
    for key in pairs(auths) do
        if type(key) == "string" and host_of(key) == host_of(registry) then
            table.insert(keys, key)
        end
    end
    table.sort(keys)
    return keys[1] and auths[keys[1]]
end

local function from_auth(auth, registry)
    if type(auth) ~= "table" then
        return nil
    end
    if type(auth.identitytoken) == "string" and auth.identitytoken ~= "" then
        return { identitytoken = auth.identitytoken, serveraddress = registry }
    end
    local pair = type(auth.auth) == "string" and base64.decode(auth.auth)
    local username, password = (pair or ""):match("^([^:]*):(.*)$")
    if not username or username == "" then
        return nil
    end
    return { username = username, password = password:match("^.*%Z") or "", serveraddress = registry }
end

-- Asks a credential helper: the registry on its stdin, a JSON object on its stdout.
-- https://github.com/docker/docker-credential-helpers#development
local function ask_helper(name, registry, signal)
    if type(name) ~= "string" or not name:find("^[%w._-]+$") then
        return nil, errors.sandbox("image_unavailable", "the configuration of docker names a credential helper wrongly")
    end
    local command = "docker-credential-" .. name
    local result, err = program.run({ command, "get" }, {
        stdin = registry,
        timeout_ms = HELPER_TIMEOUT_MS,
        signal = signal,
    })
    if not result then
        return nil, err
    end
    if result.exit_code ~= 0 then
        if result.stdout:find("credentials not found", 1, true) then
            return nil
        end
        return nil, errors.sandbox("image_unavailable",
            ("the credential helper %s failed with exit code %d"):format(command, result.exit_code))
    end
    local answer = native.json_decode(result.stdout)
    if type(answer) ~= "table" or type(answer.Username) ~= "string" or type(answer.Secret) ~= "string" then
        local message = "the credential helper %s gave no credentials"
        return nil, errors.sandbox("image_unavailable", message:format(command))
    end
    if answer.Username == "<token>" then
        return { identitytoken = answer.Secret, serveraddress = registry }
    end
    return { username = answer.Username, password = answer.Secret, serveraddress = registry }
end

local function find(registry, signal)
    local config, err = read_config()
    if not config then
        return nil, err
    end
    local helper = entry(config.credHelpers, registry) or config.credsStore
    if helper and not is_null(helper) and helper ~= "" then
        local found
        found, err = ask_helper(helper, registry, signal)
        if found or err then
            return found, err
        end
    end
    return from_auth(find_auth(config.auths, registry), registry)
end

--- The value of the header X-Registry-Auth for a pull from the registry; nil without an error when there is nothing.
---@param registry string as reference.lua names it
---@param option? table the option `registry_auth`
---@param signal? chamvi.Signal
---@return string|nil
---@return chamvi.Error? err `image_unavailable`, `aborted`
function credentials.header(registry, option, signal)
    local auth, err = option, nil
    if not auth then
        auth, err = find(registry, signal)
    end
    if not auth then
        return nil, err
    end
    return base64.encode_url(assert(native.json_encode(auth)))
end

--- What no text may show of such a header.
---@param header string
---@return string[]
function credentials.secrets(header)
    local text = base64.decode(header)
    local auth = native.json_decode(text)
    local secrets = { header, text }
    for _, name in ipairs({ "username", "password", "identitytoken", "registrytoken" }) do
        table.insert(secrets, auth[name])
    end
    if auth.username and auth.password then
        table.insert(secrets, auth.username .. ":" .. auth.password) -- what a registry gets, in Base64
    end
    return secrets
end

return credentials
