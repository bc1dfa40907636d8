-- Takes secrets out of the words of servers and programs.

local redactor = require "chamvi.sandbox.redactor"

--- A text without them, as redactor.lua says.
---@param text string
---@param secrets string[] empty ones count for nothing
---@return string
return function(text, secrets)
    return redactor(secrets)(text)
end
