-- One kubeconfig file: read, checked field by field, paths made absolute. No error holds a value of the file.
--
-- Types are taken as strictly as kubectl takes them (`token: 123` is no string); unknown fields are ignored, a null
-- is an absent field, and a name that comes twice in a list is an error.

local base64 = require "chamvi.sandbox.base64"
local errors = require "chamvi.sandbox.errors"
local native = require "chamvi.sandbox.core"

local kubeconfig_file = {}

local MAX_BYTES = 4 * 1024 * 1024

-- The library's errors are plain values; inside this file a problem is raised as one of these.
local Problem = {}

local function problem(where, what)
    error(setmetatable({ message = where .. " " .. what }, Problem), 0)
end

local function typed(expected)
    return function(value, where)
        if type(value) ~= expected then
            problem(where, "must be a " .. expected)
        end
        return value
    end
end

local string_of, boolean = typed("string"), typed("boolean")

-- No field may hold a NUL byte: paths and programs end there.
local function text(value, where)
    if string_of(value, where):find("\0", 1, true) then
        problem(where, "has a NUL byte")
    end
    return value
end

-- A list has no other keys than 1 to its length, and a map, which may be empty, no element 1.
local function list(value, where)
    if type(value) ~= "table" or (next(value) ~= nil and value[1] == nil) then
        problem(where, "must be a list")
    end
    return value
end

local function map(value, where)
    if type(value) ~= "table" or value[1] ~= nil then
        problem(where, "must be a map")
    end
    return value
end

local function list_of(kind)
    return function(value, where, file)
        local result = {}
        for index, element in ipairs(list(value, where)) do
            result[index] = kind(element, ("%s[%d]"):format(where, index), file)
        end
        return result
    end
end

local function join(folder, path)
    return path:sub(1, 1) == "/" and path or folder .. "/" .. path
end

local function path(value, where, file)
    text(value, where)
    return value ~= "" and join(file.folder, value) or ""
end

-- A command with a slash is a path; any other is looked for on PATH.
local function command(value, where, file)
    text(value, where)
    return value:find("/", 1, true) and join(file.folder, value) or value
end

local function bytes(value, where)
    local decoded = base64.decode(text(value, where))
    if not decoded then
        problem(where, "is no Base64")
    end
    return decoded
end

-- The known fields of a map; "" counts as absent.
local function record(fields)
    local names = {}
    for name in pairs(fields) do
        table.insert(names, name)
    end
    table.sort(names) -- so that of several problems it is always the same one that is told
    return function(value, where, file)
        local result = {}
        map(value, where)
        for _, name in ipairs(names) do
            local field = value[name]
            if field ~= nil and field ~= native.null then
                field = fields[name](field, where .. "." .. name, file)
                if field ~= "" then
                    result[name] = field
                end
            end
        end
        return result
    end
end

local function anything(value)
    return value
end

local EXEC = record({
    command = command,
    args = list_of(text),
    env = list_of(record({ name = text, value = text })),
    apiVersion = text,
    installHint = text,
    provideClusterInfo = boolean,
    interactiveMode = text,
})

local CLUSTER = record({
    server = text,
    ["tls-server-name"] = text,
    ["insecure-skip-tls-verify"] = boolean,
    ["certificate-authority"] = path,
    ["certificate-authority-data"] = bytes,
    ["proxy-url"] = text,
    extensions = list_of(record({ name = text, extension = anything })),
})

local CONTEXT = record({ cluster = text, user = text, namespace = text })

local USER = record({
    ["client-certificate"] = path,
    ["client-certificate-data"] = bytes,
    ["client-key"] = path,
    ["client-key-data"] = bytes,
    token = text,
    tokenFile = path,
    username = text,
    password = text,
    as = text,
    ["as-uid"] = text,
    ["as-groups"] = list_of(text),
    ["as-user-extra"] = map,
    exec = EXEC,
    ["auth-provider"] = map,
})

-- A list of named entries as a map by name. Each keeps where it stands, for errors.
local function named(value, where, file, key, kind)
    local result = {}
    if value == nil or value == native.null then
        return result
    end
    for index, element in ipairs(list(value, where)) do
        local at = ("%s[%d]"):format(where, index)
        local entry = map(element == native.null and {} or element, at)
        local name = entry.name
        name = (name == nil or name == native.null) and "" or text(name, at .. ".name")
        local inner = entry[key]
        inner = (inner == nil or inner == native.null) and {} or inner
        if result[name] then
            problem(at .. ".name", "is that of an earlier one")
        end
        result[name] = kind(inner, at .. "." .. key, file)
        result[name].where = ("%s: %s.%s"):format(file.path, at, key)
    end
    return result
end

local function check_version(tree)
    for _, name in ipairs({ "apiVersion", "kind" }) do
        local value, expected = tree[name], name == "kind" and "Config" or "v1"
        if value ~= nil and value ~= native.null and value ~= "" and value ~= expected then
            problem(name, ("must be %q"):format(expected))
        end
    end
end

local function check(tree, file)
    if tree == native.null then
        tree = {}
    end
    map(tree, "the file")
    check_version(tree)
    local current = tree["current-context"]
    current = (current == nil or current == native.null) and "" or text(current, "current-context")
    return {
        current_context = current ~= "" and current or nil,
        current_where = file.path .. ": current-context",
        clusters = named(tree.clusters, "clusters", file, "cluster", CLUSTER),
        contexts = named(tree.contexts, "contexts", file, "context", CONTEXT),
        users = named(tree.users, "users", file, "user", USER),
    }
end

--- An error about a kubeconfig.
---@param message string without values of the file
---@return chamvi.Error
function kubeconfig_file.error(message)
    return errors.sandbox("invalid_kube_config", message)
end

--- The bytes of a file.
---@param name string
---@param max integer
---@return string|nil
---@return string? why the system's words, without the name
---@return boolean? missing there is no such file
function kubeconfig_file.read_bytes(name, max)
    local file, why, number = io.open(name, "rb")
    if not file then
        return nil, why:match(": ([^:]*)$") or why, number == 2 -- ENOENT
    end
    local content
    content, why = file:read(max + 1)
    file:close()
    if not content and why then -- such as a folder
        return nil, why
    elseif content and #content > max then
        return nil, ("longer than %d bytes"):format(max)
    end
    return content or ""
end

-- The path with this process's folder before a relative one: a plugin runs elsewhere.
local function absolute(name)
    if name:sub(1, 1) == "/" then
        return name
    end
    local folder = native.current_folder()
    return folder and join(folder, name) or name
end

---@class chamvi.KubeConfigFile
---@field current_context? string
---@field current_where string the field, for errors
---@field clusters table<string, table> the known fields by their names in the file, and `where`
---@field contexts table<string, table>
---@field users table<string, table>

--- Reads one file.
---@param name string
---@return chamvi.KubeConfigFile|false|nil file false: there is no such file
---@return chamvi.Error? err
function kubeconfig_file.read(name)
    local content, why, missing = kubeconfig_file.read_bytes(name, MAX_BYTES)
    if missing then
        return false
    elseif not content then
        return nil, kubeconfig_file.error(("the kubeconfig %s can't be read: %s"):format(name, why))
    end
    local tree, _, wrong = native.yaml_decode(content)
    if tree == nil then
        return nil, kubeconfig_file.error(("%s: %s"):format(name, wrong))
    end
    local folder = absolute(name):match("^(.*)/[^/]*$")
    local ok, result = pcall(check, tree, { path = name, folder = folder })
    if ok then
        return result
    elseif getmetatable(result) ~= Problem then
        error(result, 0)
    end
    return nil, kubeconfig_file.error(("%s: %s"):format(name, result.message))
end

return kubeconfig_file
