-- One cluster and one identity on it: what each request has to carry, with credentials that are still good.

local base64 = require "chamvi.sandbox.base64"
local errors = require "chamvi.sandbox.errors"
local exec_plugin = require "chamvi.sandbox.k8s.exec_plugin"
local kubeconfig_file = require "chamvi.sandbox.k8s.kubeconfig_file"
local native = require "chamvi.sandbox.core"
local signals = require "chamvi.sandbox.signal"
local task = require "chamvi.sandbox.task"
local trim = require "chamvi.sandbox.trim"

local kube_config = {}

local TOKEN_MAX_BYTES = 65536

---@class chamvi.KubeConfig
---@field server string the URL without a slash at its end
---@field namespace string the context's, else "default"
---@field context? string its name; nil for the service account of a pod
local Config = {}
Config.__index = Config

-- What a config knows, by the config: a dump of it shows no secret. `cluster` and `user` are kubeconfig.lua's;
-- `given` has the credentials of options that were given out.
local states = setmetatable({}, { __mode = "k" })

-- ---- the credential plugin ----------------------------------------------------------------------------------

-- One run serves all who wait for it; it is aborted when the last of them is.
local function start_plugin(state)
    local run = { signal = signals.new(), waiters = 0 }
    state.run = run
    run.future = task.start(function()
        local ok, credential, err = pcall(exec_plugin.run, state.user.exec, state.cluster, run.signal)
        if state.run == run then
            state.run, state.credential = nil, ok and credential or nil
        end
        if not ok then
            error(credential, 0)
        end
        return credential, err
    end)
    return run
end

local function plugin_credential(state, signal)
    local held = state.credential
    if held and (not held.expires_at or native.now_ms() < held.expires_at) then
        return held
    end
    local run = state.run or start_plugin(state)
    if not run.future.done then
        local settled = task.future()
        run.waiters = run.waiters + 1
        run.future:subscribe(function()
            settled:set()
        end)
        local forget = signal and signal:on_abort(function()
            settled:set()
        end) or function() end
        task.wait(settled)
        forget()
        run.waiters = run.waiters - 1
        if not run.future.done then
            if run.waiters == 0 then
                state.run = state.run ~= run and state.run or nil
                run.signal:abort("nobody waits for the credential any more")
            end
            return nil, task.aborted(signal)
        end
    end
    return task.wait(run.future)
end

-- ---- tokens -------------------------------------------------------------------------------------------------

-- The file is read each time, since it is replaced before its token expires; while that can't be done the last one
-- that was read has to do, and before that the token beside it.
local function file_token(state)
    local content, why = kubeconfig_file.read_bytes(state.user.token_file, TOKEN_MAX_BYTES)
    local token = content and trim(content)
    if token and token:find("%c") then
        token, why = nil, "it holds control characters"
    end
    if token and token ~= "" then
        state.last_token = token
        return token
    end
    token = state.last_token or state.user.token
    if token then
        return token
    end
    return nil, errors.sandbox("credentials_failed",
        ("%s: there is no token in the token file: %s"):format(state.user.token_where, why or "it is empty"))
end

-- The Authorization field, and the certificate that belongs to it; nil, err.
local function credentials_of(state, signal)
    local user = state.user
    local result = { cert = user.cert, cert_file = user.cert_file, key = user.key, key_file = user.key_file }
    if user.token_file then
        local token, err = file_token(state)
        if not token then
            return nil, err
        end
        result.authorization = "Bearer " .. token
    elseif user.token then
        result.authorization = "Bearer " .. user.token
    elseif user.username then
        result.authorization = "Basic " .. base64.encode(user.username .. ":" .. user.password)
    end
    if user.exec then
        local credential, err = plugin_credential(state, signal)
        if not credential then
            return nil, err
        end
        result.plugin = credential
        if not result.authorization and credential.token then
            result.authorization = "Bearer " .. credential.token
        end
        if credential.cert then
            result.cert, result.key, result.cert_file, result.key_file = credential.cert, credential.key, nil, nil
        end
    end
    return result
end

--- What a request to the cluster has to have beside its URL: TLS, proxy, headers. Token files are read and a
--- credential plugin is run when it is time; so it may wait.
---@param signal? chamvi.Signal also put into the options
---@return table|nil options a new table; `headers` is to be added to
---@return chamvi.Error? err SandboxError `credentials_failed`, `aborted`
function Config:request_options(signal)
    task.check_may_wait("request_options")
    if signal and signal.aborted then
        return nil, task.aborted(signal)
    end
    local state = states[self]
    local credentials, err = credentials_of(state, signal)
    if not credentials then
        return nil, err
    end
    local cluster = state.cluster
    local headers = {}
    for name, value in pairs(state.user.headers) do
        headers[name] = value
    end
    headers.Authorization = credentials.authorization
    local options = {
        server_name = cluster.server_name,
        insecure = cluster.insecure,
        ca = cluster.ca,
        ca_file = cluster.ca_file,
        cert = credentials.cert,
        cert_file = credentials.cert_file,
        key = credentials.key,
        key_file = credentials.key_file,
        proxy = cluster.proxy,
        proxy_env = cluster.proxy == nil,
        headers = headers,
        signal = signal,
    }
    state.given[options] = credentials
    return options
end

--- To be called when the server answers 401 to a request: whether asking once more, with new options, may help.
--- A credential that a plugin gave is thrown away, unless it was replaced meanwhile.
---@param options table what request_options gave for that request
---@return boolean
function Config:refused(options)
    local state = states[self]
    local used = state.given[options]
    if not used then
        return false
    elseif used.plugin then
        if state.credential == used.plugin then
            state.credential = nil
        end
        return true
    elseif not state.user.token_file then
        return false
    end
    local token = file_token(state)
    return token ~= nil and "Bearer " .. token ~= used.authorization
end

---@param public { context?: string, namespace: string }
---@param cluster table
---@param user table
---@return chamvi.KubeConfig
function kube_config.new(public, cluster, user)
    local config = setmetatable({
        server = cluster.server, namespace = public.namespace, context = public.context,
    }, Config)
    states[config] = { cluster = cluster, user = user, given = setmetatable({}, { __mode = "k" }) }
    return config
end

return kube_config
