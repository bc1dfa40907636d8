-- Credential plugins of a kubeconfig: programs that print an ExecCredential, client.authentication.k8s.io/v1 or
-- v1beta1. Run without a terminal and without standard input, so that `interactiveMode: Always` is refused.

local base64 = require "chamvi.sandbox.base64"
local compat = require "chamvi.sandbox.compat"
local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"
local program = require "chamvi.sandbox.program"
local redactor = require "chamvi.sandbox.redactor"
local rfc3339 = require "chamvi.sandbox.k8s.rfc3339"

local exec_plugin = {}

local GROUP = "client.authentication.k8s.io/"
local VERSIONS = { [GROUP .. "v1"] = true, [GROUP .. "v1beta1"] = true }
local MODES = { Never = true, IfAvailable = true, Always = true }
local EXTENSION = "client.authentication.k8s.io/exec"
local TIMEOUT_MS = 60000
local ARGUMENT_SECRET_BYTES = 3 -- shorter ones can't be told from the words around them

-- The place in the kubeconfig names the plugin: a command may hold what is secret.
local function failed(exec, what, more)
    return errors.sandbox("credentials_failed", ("%s: the credential plugin %s"):format(exec.where, what), more)
end

--- What is wrong with the `exec` of a user, to be read after the field's name; nil when nothing is.
---@param exec table
---@return string?
function exec_plugin.wrong(exec)
    if not exec.command then
        return ".command is missing"
    elseif not VERSIONS[exec.apiVersion] then
        return (".apiVersion must be %sv1 or %sv1beta1"):format(GROUP, GROUP)
    end
    local mode = exec.interactiveMode
    if not mode and exec.apiVersion == GROUP .. "v1" then
        return ".interactiveMode is missing, which v1 needs"
    elseif mode and not MODES[mode] then
        return ".interactiveMode must be Never, IfAvailable or Always"
    elseif mode == "Always" then
        return ".interactiveMode is Always, but there is no terminal here"
    end
    for index, variable in ipairs(exec.env or {}) do
        if not variable.name then
            return (".env[%d].name is missing"):format(index)
        end
    end
end

-- What the plugin is told of the cluster.
local function cluster_info(cluster)
    local config
    for _, extension in ipairs(cluster.extensions or {}) do
        if extension.name == EXTENSION then
            config = extension.extension
        end
    end
    local ca = cluster.ca and base64.encode(cluster.ca) or nil
    return {
        server = cluster.server,
        ["tls-server-name"] = cluster.server_name,
        ["insecure-skip-tls-verify"] = cluster.insecure or nil,
        ["certificate-authority-data"] = ca,
        ["proxy-url"] = cluster.proxy,
        config = config,
    }
end

-- The whole environment, as kubectl passes it: such programs are configured by it. Names that no shell can have
-- can't be passed on.
local function environment(exec, info)
    local env = {}
    for name, value in pairs(native.environment()) do
        if name:find("^[%a_][%w_]*$") then
            env[name] = value
        end
    end
    for _, variable in ipairs(exec.env or {}) do
        env[variable.name] = variable.value or ""
    end
    env.KUBERNETES_EXEC_INFO = info
    return env
end

-- Adds what may be secret in an argument: all but names of options. "--name=value", "-xvalue", "name=value".
local function add_argument(secrets, argument)
    if argument:find("^%-%-[%w-]+$") or #argument < ARGUMENT_SECRET_BYTES then
        return
    end
    for _, secret in ipairs({ argument, argument:match("=(.*)$") or "", argument:match("^%-%w(.*)$") or "" }) do
        if #secret >= ARGUMENT_SECRET_BYTES then
            table.insert(secrets, secret)
        end
    end
end

-- What it said without the values that the kubeconfig gives it.
local function without_secrets(exec, result)
    local secrets = {}
    add_argument(secrets, exec.command)
    add_argument(secrets, (exec.command:gsub("^.*/", "")))
    for _, variable in ipairs(exec.env or {}) do
        table.insert(secrets, variable.value or "")
    end
    for _, argument in ipairs(exec.args or {}) do
        add_argument(secrets, argument)
    end
    local words = redactor(secrets)(result.stderr)
    if not result.stderr_truncated then
        return words
    end
    local longest = 0 -- of which a part may be at the end
    for _, secret in ipairs(secrets) do
        longest = math.max(longest, #secret)
    end
    return compat.cut(words, math.max(#words - longest, 0))
end

local function of_type(value, expected)
    return type(value) == expected and value ~= "" and value or nil
end

local function read(exec, result)
    if result.stdout_truncated then
        return nil, failed(exec, ("printed more than %d bytes"):format(constants.OUTPUT_MAX_BYTES))
    end
    local answer = native.json_decode(result.stdout)
    if type(answer) ~= "table" or answer.kind ~= "ExecCredential" then
        return nil, failed(exec, "printed no ExecCredential")
    elseif answer.apiVersion ~= exec.apiVersion then
        return nil, failed(exec, "does not answer in " .. exec.apiVersion)
    end
    local status = of_type(answer.status, "table") or {}
    local credential = {
        token = of_type(status.token, "string"),
        cert = of_type(status.clientCertificateData, "string"),
        key = of_type(status.clientKeyData, "string"),
    }
    if not credential.token and not credential.cert then
        return nil, failed(exec, "gave neither a token nor a certificate")
    elseif credential.token and credential.token:find("%c") then
        return nil, failed(exec, "gave a token with control characters")
    elseif (credential.cert == nil) ~= (credential.key == nil) then
        return nil, failed(exec, "gave a certificate without its key, or a key alone")
    end
    local expiry = status.expirationTimestamp
    if expiry ~= nil and expiry ~= native.null then
        credential.expires_at = rfc3339.parse(expiry)
        if not credential.expires_at then
            return nil, failed(exec, "gave an expirationTimestamp that is no time")
        end
    end
    return credential
end

---@class chamvi.K8sCredential
---@field token? string
---@field cert? string PEM text
---@field key? string PEM text
---@field expires_at? integer epoch milliseconds

--- Runs the plugin. Waits, a minute at most.
---@param exec table the checked `exec` of a user; `where` says where it stands, for errors
---@param cluster table the cluster as kubeconfig.lua keeps it
---@param signal? chamvi.Signal
---@return chamvi.K8sCredential|nil
---@return chamvi.Error? err `credentials_failed`, with the plugin's stderr in `detail`
function exec_plugin.run(exec, cluster, signal)
    local info = native.json_encode({
        kind = "ExecCredential",
        apiVersion = exec.apiVersion,
        spec = { interactive = false, cluster = exec.provideClusterInfo and cluster_info(cluster) or nil },
    })
    if not info then
        return nil, failed(exec, "can't be run: what it is to be told has no JSON form")
    end
    local argv = { exec.command }
    for _, argument in ipairs(exec.args or {}) do
        table.insert(argv, argument)
    end
    local result, err = program.run(argv, {
        timeout_ms = TIMEOUT_MS, signal = signal, env = environment(exec, info),
    })
    if not result then
        if err.code == "aborted" then
            return nil, err
        end
        return nil, failed(exec, "can't be run", { cause = err })
    elseif result.status == "timed_out" then
        return nil, failed(exec, ("ran for more than %d s"):format(TIMEOUT_MS / 1000))
    elseif result.exit_code == 127 then
        return nil, failed(exec, exec.installHint and "was not found; its installHint tells how to get it"
            or "was not found", { detail = without_secrets(exec, result) })
    elseif result.exit_code ~= 0 then
        return nil, failed(exec, ("failed with exit code %d"):format(result.exit_code),
            { detail = without_secrets(exec, result) })
    end
    return read(exec, result)
end

return exec_plugin
