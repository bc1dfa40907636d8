-- The names of pods and containers, and what Kubernetes takes as names, and as keys and values of labels.
-- https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set

local native = require "chamvi.sandbox.core"

local names = {}

names.CONTAINER = "sandbox"
names.POD_PREFIX = "chamvi-ws-"
names.WORKSPACE_VOLUME = "workspace"
names.TMP_VOLUME = "tmp"

local LABEL_MAX_BYTES = 63
local SUBDOMAIN_MAX_BYTES = 253
local DIGEST_DIGITS = 32 -- of a SHA-256 in a label: 128 bits tell any ids apart

--- The name of a workspace's pod.
---@param id string of the workspace
---@return string
function names.pod(id)
    return names.POD_PREFIX .. id
end

--- Whether a text is a DNS label, such as the name of a namespace (RFC 1123).
---@param text any
---@return boolean
function names.is_dns_label(text)
    return type(text) == "string" and #text <= LABEL_MAX_BYTES
        and (text:find("^%l$") or text:find("^%d$") or text:find("^[%l%d][%l%d-]*[%l%d]$")) ~= nil
end

--- Whether a text is a DNS subdomain, such as the name of a pod (RFC 1123).
---@param text any
---@return boolean
function names.is_subdomain(text)
    if type(text) ~= "string" or #text > SUBDOMAIN_MAX_BYTES then
        return false
    end
    for part in (text .. "."):gmatch("([^.]*)%.") do
        if not names.is_dns_label(part) then
            return false
        end
    end
    return true
end

local function is_word(text)
    return #text <= LABEL_MAX_BYTES and (text:find("^%w$") or text:find("^%w[%w._-]*%w$")) ~= nil
end

--- Whether a text may be the value of a label.
---@param text any
---@return boolean
function names.is_label_value(text)
    return type(text) == "string" and (text == "" or is_word(text))
end

--- Whether a text may be the key of a label.
---@param text any
---@return boolean
function names.is_label_key(text)
    if type(text) ~= "string" then
        return false
    end
    local prefix, name = text:match("^([^/]*)/([^/]*)$")
    if prefix then
        return names.is_subdomain(prefix) and is_word(name)
    end
    return is_word(text)
end

--- A run's id as the value of a label: itself where it is one, else the first 32 hexadecimal digits of its SHA-256.
---@param run_id string
---@return string
function names.run_label(run_id)
    if run_id ~= "" and names.is_label_value(run_id) then
        return run_id
    end
    return native.sha256(run_id):sub(1, DIGEST_DIGITS)
end

return names
