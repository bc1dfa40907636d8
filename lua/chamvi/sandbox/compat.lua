-- What Lua 5.4 and LuaJIT spell differently, for the library's own use.

local compat = {}

compat.unpack = table.unpack or unpack

--- The arguments as a list that knows its length, nils included.
---@return table packed with `n`
function compat.pack(...)
    return { n = select("#", ...), ... }
end

--- A whole number as the type that Lua 5.4 prints without ".0".
---@param number number without a fraction
---@return integer
function compat.integer(number)
    return math.tointeger and math.tointeger(number) or number
end

return compat
