local native = require "chamvi.sandbox.core"

--- Whether a text is valid UTF-8.
---@param text string
---@return boolean
return function(text)
    if not text:find("[\128-\255]") then
        return true
    end
    local collector = native.create_output_collector(#text)
    collector:write(text)
    return collector:text() == text
end
