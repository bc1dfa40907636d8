--- Whether it is a function, or a table that can be called.
---@param value any
---@return boolean
return function(value)
    if type(value) == "function" then
        return true
    end
    local meta = getmetatable(value)
    return type(meta) == "table" and type(meta.__call) == "function"
end
