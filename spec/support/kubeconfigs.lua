-- Kubeconfigs for specs, in a folder of their own.

local scratch = require "spec.support.scratch"

local kubeconfigs = {}

---@class spec.Kubeconfigs
---@field folder string
local Place = {}
Place.__index = Place

--- A new folder.
---@return spec.Kubeconfigs
function kubeconfigs.place()
    return setmetatable({ folder = scratch.folder() }, Place)
end

--- Writes a file there and returns its path.
---@param name string
---@param text string
---@return string path
function Place:write(name, text)
    local path = self.folder .. "/" .. name
    scratch.write(path, text)
    return path
end

--- Writes a program there.
---@param name string
---@param text string a shell script without its first line
---@return string path
function Place:program(name, text)
    local path = self:write(name, "#!/bin/sh\n" .. text)
    scratch.shell("chmod +x " .. scratch.quote(path))
    return path
end

--- A kubeconfig of one context from YAML in braces.
---@param user? string fields of the user, "token: x"
---@param cluster? string fields of the cluster beside or instead of its server
---@return string path
function Place:config(user, cluster)
    local server = (cluster or ""):find("server:", 1, true) and "" or 'server: "https://cluster.example:6443"'
    local comma = server ~= "" and cluster and ", " or ""
    return self:write("config", ([[
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u, namespace: space}}]
clusters: [{name: k, cluster: {%s}}]
users: [{name: u, user: {%s}}]
]]):format(server .. comma .. (cluster or ""), user or ""))
end

function Place:remove()
    scratch.remove(self.folder)
end

return kubeconfigs
