-- Which cluster, and as whom: kubeconfigs as kubectl finds, merges and checks them, or the service account of the
-- pod that this program runs in.

local kubeconfig_file = require "chamvi.sandbox.k8s.kubeconfig_file"
local exec_plugin = require "chamvi.sandbox.k8s.exec_plugin"
local kube_config = require "chamvi.sandbox.k8s.kube_config"
local options = require "chamvi.sandbox.options"
local trim = require "chamvi.sandbox.trim"

local kubeconfig = {}

local SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
local PEM_MAX_BYTES = 1024 * 1024

local OPTIONS = { path = options.string, context = options.string }

---@class chamvi.KubeSystem
---@field getenv fun(name: string): string?
---@field service_account string the folder of a pod's service account

-- ---- finding and merging ------------------------------------------------------------------------------------

-- The files that count, in their order; an explicit one has to exist.
local function places(path, system)
    if path then
        return { path }
    end
    local found = {}
    for name in (system.getenv("KUBECONFIG") or ""):gmatch("[^:]+") do
        table.insert(found, name)
    end
    local home = system.getenv("HOME")
    if not found[1] and home and home ~= "" then
        found[1] = home .. "/.kube/config"
    end
    return found
end

-- Whole entries of the first file that has one of the name; the first current-context.
local function merge(into, file)
    if not into.current_context then
        into.current_context, into.current_where = file.current_context, file.current_where
    end
    for _, kind in ipairs({ "clusters", "contexts", "users" }) do
        for name, entry in pairs(file[kind]) do
            into[kind][name] = into[kind][name] or entry
        end
    end
end

local function is_empty(merged)
    return not (merged.current_context or next(merged.clusters) or next(merged.contexts) or next(merged.users))
end

local function read_all(names, explicit)
    local merged = { clusters = {}, contexts = {}, users = {} }
    for _, name in ipairs(names) do
        local file, err = kubeconfig_file.read(name)
        if file == nil then
            return nil, err
        elseif file then
            merge(merged, file)
        elseif explicit then
            return nil, kubeconfig_file.error(("there is no kubeconfig %s"):format(name))
        end
    end
    return merged
end

-- ---- checking -----------------------------------------------------------------------------------------------

local function wrong(entry, what)
    return nil, kubeconfig_file.error(entry.where .. what)
end

local function not_both(entry, name)
    if entry[name] and entry[name .. "-data"] then
        return wrong(entry, (" has both %s and %s-data"):format(name, name))
    end
    return true
end

-- PEM text of a *-data field as it is; a file of it is read here only to see that it can be.
local function pem(entry, name)
    local ok, err = not_both(entry, name)
    if not ok then
        return nil, err
    end
    local content = entry[name .. "-data"]
    if entry[name] then
        local why
        content, why = kubeconfig_file.read_bytes(entry[name], PEM_MAX_BYTES)
        if not content then
            return wrong(entry, (".%s can't be read: %s"):format(name, why))
        end
    end
    if content and not content:find("-----BEGIN ", 1, true) then
        return wrong(entry, (".%s%s is no PEM"):format(name, entry[name] and "" or "-data"))
    end
    return true
end

-- Whether the port in "host:port" can be one.
local function has_port(authority)
    local host, port = authority:match("^(%b[]):?(.*)$")
    if not host then
        host, port = authority:match("^([^:]*):?(.*)$")
    end
    return host ~= "" and (port == "" or port:find("^%d%d?%d?%d?%d?$") ~= nil and tonumber(port) >= 1
        and tonumber(port) <= 65535)
end

-- As client-go completes a server without a scheme.
local function server_url(cluster, has_tls)
    local server = cluster.server
    if not server then
        return wrong(cluster, ".server is missing")
    end
    if not server:find("^%a[%w+.-]*://") then
        if not server:find("^[^/]+/?$") then
            return wrong(cluster, ".server must be a URL, or host:port")
        end
        server = (has_tls and "https://" or "http://") .. server
    end
    local scheme, rest = server:match("^(%a+)://(.+)$")
    scheme = scheme and scheme:lower()
    if scheme ~= "https" and scheme ~= "http" then
        return wrong(cluster, ".server must be an https or http URL")
    elseif rest:match("^[^/]*"):find("@", 1, true) or rest:find("[?#%c ]") then
        return wrong(cluster, ".server must have no user name, query or fragment")
    end
    if not has_port(rest:match("^[^/]*")) then
        return wrong(cluster, ".server must have a host, and a port from 1 to 65535 if any")
    end
    return scheme .. "://" .. rest:match("^.*[^/]")
end

-- curl's name for what Go does with socks5: the proxy looks the host up.
local function proxy_url(cluster)
    local given = cluster["proxy-url"]
    if not given then
        return nil
    end
    local scheme, rest = given:match("^(%a[%w]*)://(.+)$")
    scheme = scheme and scheme:lower()
    if scheme == "socks5" then
        return "socks5h://" .. rest
    elseif scheme ~= "http" and scheme ~= "https" then
        return wrong(cluster, ".proxy-url must be an http, https or socks5 URL")
    end
    return given
end

local function check_cluster(cluster, has_certificate)
    local ok, err = pem(cluster, "certificate-authority")
    if not ok then
        return nil, err
    end
    local has_ca = cluster["certificate-authority"] or cluster["certificate-authority-data"]
    local insecure = cluster["insecure-skip-tls-verify"] or false
    if insecure and has_ca then
        return wrong(cluster, " has a certificate-authority and insecure-skip-tls-verify, which takes any")
    end
    local server, proxy
    server, err = server_url(cluster, has_ca or insecure or has_certificate)
    if not server then
        return nil, err
    end
    proxy, err = proxy_url(cluster)
    if err then
        return nil, err
    end
    return {
        server = server,
        server_name = cluster["tls-server-name"],
        insecure = insecure,
        ca = cluster["certificate-authority-data"],
        ca_file = cluster["certificate-authority"],
        proxy = proxy,
        extensions = cluster.extensions,
    }
end

-- Impersonation: who the request is to be taken for.
local function impersonation(user)
    local groups = user["as-groups"] or {}
    if not user.as and (user["as-uid"] or groups[1] or next(user["as-user-extra"] or {})) then
        return wrong(user, " has as-uid, as-groups or as-user-extra without as")
    elseif groups[2] or next(user["as-user-extra"] or {}) then
        return wrong(user, " has as-user-extra or several as-groups, which are not supported")
    end
    return { ["Impersonate-User"] = user.as, ["Impersonate-Uid"] = user["as-uid"], ["Impersonate-Group"] = groups[1] }
end

local function check_user(user)
    local basic = user.username or user.password
    local has_certificate = user["client-certificate"] or user["client-certificate-data"]
    if user["auth-provider"] then
        return wrong(user, ".auth-provider is not supported; use exec")
    elseif basic and (user.token or user.tokenFile) then
        return wrong(user, " has both a token and a username with password")
    elseif has_certificate and not (user["client-key"] or user["client-key-data"]) then
        return wrong(user, " has a client certificate without its key")
    end
    for _, name in ipairs(has_certificate and { "client-certificate", "client-key" } or {}) do
        local ok, err = pem(user, name)
        if not ok then
            return nil, err
        end
    end
    if user.exec then
        user.exec.where = user.where .. ".exec"
        local what = exec_plugin.wrong(user.exec)
        if what then
            return wrong(user.exec, what)
        end
    end
    for _, name in ipairs({ "token", "as", "as-uid" }) do
        if user[name] and user[name]:find("%c") then
            return wrong(user, (".%s has control characters"):format(name))
        end
    end
    if ((user["as-groups"] or {})[1] or ""):find("%c") then
        return wrong(user, ".as-groups has control characters")
    end
    local headers, err = impersonation(user)
    if not headers then
        return nil, err
    end
    return {
        token = user.token,
        token_file = user.tokenFile,
        token_where = user.where .. ".tokenFile",
        username = basic and (user.username or ""),
        password = basic and (user.password or ""),
        cert = user["client-certificate-data"],
        cert_file = user["client-certificate"],
        key = has_certificate and user["client-key-data"],
        key_file = has_certificate and user["client-key"],
        exec = user.exec,
        headers = headers,
    }
end

-- ---- choosing -----------------------------------------------------------------------------------------------

local function named(merged, kind, context, name)
    if not name then
        return nil, kubeconfig_file.error(("%s names no %s"):format(context.where, kind))
    end
    local entry = merged[kind .. "s"][name]
    if not entry then
        return nil, kubeconfig_file.error(("%s.%s: there is no %s of that name"):format(context.where, kind, kind))
    end
    return entry
end

local function choose(merged, wanted)
    local name = wanted or merged.current_context
    if not name then
        return nil, kubeconfig_file.error("the kubeconfig has no current-context: set it, or give the option context")
    end
    local context = merged.contexts[name]
    if not context then
        return nil, kubeconfig_file.error(wanted and ("the kubeconfig has no context %q"):format(wanted)
            or merged.current_where .. ": there is no context of that name")
    end
    local cluster, err = named(merged, "cluster", context, context.cluster)
    if not cluster then
        return nil, err
    end
    local user = { headers = {} } -- a context without a user is anonymous
    if context.user then
        local entry
        entry, err = named(merged, "user", context, context.user)
        if not entry then
            return nil, err
        end
        user, err = check_user(entry)
        if not user then
            return nil, err
        end
    end
    cluster, err = check_cluster(cluster, user.cert or user.cert_file)
    if not cluster then
        return nil, err
    end
    return kube_config.new({ context = name, namespace = context.namespace or "default" }, cluster, user)
end

-- ---- in a cluster -------------------------------------------------------------------------------------------

local function trimmed_file(name)
    local content = kubeconfig_file.read_bytes(name, 4096)
    content = content and trim(content)
    return content ~= "" and content or nil
end

local function in_cluster(system)
    local host, port = system.getenv("KUBERNETES_SERVICE_HOST"), system.getenv("KUBERNETES_SERVICE_PORT")
    local folder = system.service_account
    if not host or host == "" or not port or port == ""
        or not kubeconfig_file.read_bytes(folder .. "/token", PEM_MAX_BYTES) then
        return nil
    end
    if host:find(":", 1, true) then
        host = "[" .. host .. "]"
    end
    local ca = folder .. "/ca.crt"
    local cluster = {
        server = ("https://%s:%s"):format(host, port),
        insecure = false,
        ca_file = kubeconfig_file.read_bytes(ca, PEM_MAX_BYTES) and ca or nil,
    }
    local namespace = system.getenv("POD_NAMESPACE")
    if not namespace or namespace == "" then
        namespace = trimmed_file(folder .. "/namespace") or "default"
    end
    local token = folder .. "/token"
    local user = { token_file = token, token_where = token, headers = {} }
    return kube_config.new({ namespace = namespace }, cluster, user)
end

--- Reads the kubeconfig and chooses a context of it. Contacts nothing.
---@param given? { path?: string, context?: string } a wrong or unknown one raises an InvalidAgentDefinitionError
---@param system? chamvi.KubeSystem default: this process's environment, and where pods have their service account
---@return chamvi.KubeConfig|nil
---@return chamvi.Error? err `invalid_kube_config`
function kubeconfig.load(given, system)
    given = options.check("load_kube_config", given, OPTIONS)
    system = system or { getenv = os.getenv, service_account = SERVICE_ACCOUNT }
    local names = places(given.path, system)
    local merged, err = read_all(names, given.path ~= nil)
    if not merged then
        return nil, err
    elseif not is_empty(merged) then
        return choose(merged, given.context)
    end
    if given.path then
        return nil, kubeconfig_file.error(("the kubeconfig %s is empty"):format(given.path))
    end
    local config = not given.context and in_cluster(system)
    if config then
        return config
    end
    local looked = names[1] and table.concat(names, ", ") or "nothing, for want of HOME"
    return nil, kubeconfig_file.error(
        ("there is no kubeconfig (looked for %s), nor is this a pod with a service account"):format(looked))
end

return kubeconfig
