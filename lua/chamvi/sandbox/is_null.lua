-- Tells absence: a model that leaves an optional field out may say so by a null, which hosts have in several forms.

local native = require "chamvi.sandbox.core"
local null = require "chamvi.sandbox.null"

--- Whether it is nil or a null of any host: `sandbox.null`, `vim.NIL`, `cjson.null`, `ngx.null`.
---@param value any
---@return boolean
return function(value)
    return value == nil or rawequal(value, null) or rawequal(value, native.null)
end
