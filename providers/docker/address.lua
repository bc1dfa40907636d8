-- Where an engine is: DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH, as the docker command reads them, or the
-- option of the same meaning. https://docs.docker.com/reference/cli/docker/#environment-variables

local errors = require "chamvi.sandbox.errors"

local address = {}

local DEFAULT_HOST = "unix:///var/run/docker.sock"

---@class chamvi.DockerAddress what a request needs to get there
---@field base string scheme and host of every URL
---@field name string for messages: the host as it was given
---@field socket? string path of a unix socket
---@field ca_file? string
---@field cert_file? string
---@field key_file? string
---@field insecure? boolean

local function wrong(message, ...)
    errors.raise_definition("invalid_option", ("create_docker_sandbox: " .. message):format(...))
end

local function folder_of_certificates(given)
    local path = given or os.getenv("DOCKER_CERT_PATH")
    if path and path ~= "" then
        return path
    end
    local home = os.getenv("HOME")
    if not home or home == "" then
        wrong("TLS needs certificates: set docker.cert_path or DOCKER_CERT_PATH")
    end
    return home .. "/.docker"
end

local function is_verified(option)
    if option ~= nil then
        return option
    end
    return (os.getenv("DOCKER_TLS_VERIFY") or "") ~= ""
end

--- Reads the option, and the environment where it says nothing. Contacts nothing.
---@param option? chamvi.DockerHost
---@return chamvi.DockerAddress # a host that makes no sense raises an InvalidAgentDefinitionError
function address.resolve(option)
    option = option or {}
    local environment = os.getenv("DOCKER_HOST")
    local host = option.host or (environment ~= "" and environment) or DEFAULT_HOST
    local source = option.host and 'option "docker.host"' or "DOCKER_HOST"

    local socket = host:match("^unix://(/.+)$")
    if socket then
        return { base = "http://docker", name = host, socket = socket }
    end
    local scheme, authority = host:match("^(%l+)://([%w.:%[%]_-]+)/?$")
    if scheme ~= "tcp" and scheme ~= "http" and scheme ~= "https" then
        wrong("%s must be unix:///path, tcp://host:port, http://host:port or https://host:port", source)
    end
    local verify = is_verified(option.tls_verify)
    local certificates = option.cert_path or os.getenv("DOCKER_CERT_PATH") or ""
    local secure = scheme == "https" or scheme == "tcp" and (verify or certificates ~= "")
    if option.tls_verify and not secure then
        wrong('option "docker.tls_verify" wants TLS, and %s says http', source)
    end
    if not authority:find(":%d+$") then
        authority = authority .. (secure and ":2376" or ":2375")
    end
    if not secure then
        return { base = "http://" .. authority, name = host }
    end
    local folder = folder_of_certificates(option.cert_path)
    return {
        base = "https://" .. authority,
        name = host,
        ca_file = folder .. "/ca.pem",
        cert_file = folder .. "/cert.pem",
        key_file = folder .. "/key.pem",
        insecure = not verify and scheme == "tcp" or nil,
    }
end

return address
