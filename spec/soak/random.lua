-- Random numbers that are the same for a seed in every Lua: the minimal standard generator of Park and Miller.

local MODULUS, FACTOR = 2147483647, 16807

---@param seed integer
---@return fun(low: integer, high: integer): integer
return function(seed)
    local state = seed % (MODULUS - 1) + 1
    return function(low, high)
        state = state * FACTOR % MODULUS
        return low + state % (high - low + 1)
    end
end
