-- Starts engine_proxy.js, which stands between the library and an engine and disturbs what it is told to.

local native = require "chamvi.sandbox.core"
local node_server = require "spec.support.node_server"
local scratch = require "spec.support.scratch"

local engine_proxy = {}

---@class spec.EngineProxy
---@field host string its address in the form of DOCKER_HOST
local Proxy = {}
Proxy.__index = Proxy

local last_id = 0

--- Starts one and waits until it listens.
---@param engine? spec.DockerEngine behind a unix socket; none: the rules answer everything
---@return spec.EngineProxy
function engine_proxy.start(engine)
    local folder = scratch.folder()
    local self = setmetatable({ folder = folder, host = "unix://" .. folder .. "/socket" }, Proxy)
    self:set({})
    scratch.write(folder .. "/engine", engine and assert(engine.host:match("^unix://(.*)$")) or "")
    self.server = node_server.start("spec/support/engine_proxy.js", folder)
    return self
end

--- Has it disturb by these rules from now on, see engine_proxy.js, and forget the requests so far.
---@param rules table[]
function Proxy:set(rules)
    for _, rule in ipairs(rules) do
        last_id = last_id + 1
        rule.id = last_id
    end
    local text = #rules == 0 and "[]" or assert(native.json_encode(rules))
    scratch.write(self.folder .. "/rules.new", text)
    assert(os.rename(self.folder .. "/rules.new", self.folder .. "/rules.json"))
    scratch.write(self.folder .. "/log", "")
    scratch.write(self.folder .. "/versions", "")
end

local function lines_of(path)
    local lines = {}
    for line in scratch.read(path):gmatch("[^\n]+") do
        table.insert(lines, line)
    end
    return lines
end

--- The requests since the rules were set: "METHOD /path", without the version of the API.
---@return string[]
function Proxy:requests()
    return lines_of(self.folder .. "/log")
end

--- The versions of these requests: "v1.41", or "none".
---@return string[]
function Proxy:versions()
    return lines_of(self.folder .. "/versions")
end

--- Ends it; what goes through it is cut.
function Proxy:stop()
    self.server.stop()
end

return engine_proxy
