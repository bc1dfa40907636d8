--- Disposable workspaces in which an agent runs commands.

local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local host = require "chamvi.sandbox.host"
local prepare_workspace = require "chamvi.sandbox.prepare"
local signals = require "chamvi.sandbox.signal"

local function copy(value)
    if type(value) ~= "table" then
        return value
    end
    local result = {}
    for key, element in pairs(value) do
        result[key] = copy(element)
    end
    return result
end

local sandbox = copy(constants)

sandbox.is_error = errors.is_error
sandbox.signal = signals.new
sandbox.prepare_workspace = prepare_workspace

-- What the host does in its own way; see host/init.lua and the adapters.
for _, name in ipairs({ "run", "spawn", "all", "sleep", "async", "loop" }) do
    sandbox[name] = function(...)
        return host.current()[name](...)
    end
end

return sandbox
