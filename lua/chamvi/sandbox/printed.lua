-- Text of what other code has raised or returned, whatever it is.

--- Like tostring, but never raises: a value that can't be printed, since its metatable raises, is named by its type.
---@param value any
---@return string
return function(value)
    local ok, text = pcall(tostring, value)
    return ok and type(text) == "string" and text or "a " .. type(value)
end
