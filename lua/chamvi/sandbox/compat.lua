-- What Lua 5.4 and LuaJIT spell differently or lack, for the library's own use. What only one of them has is read past
-- the metatable of a program that forbids unknown globals.

-- Lua 5.1 finds what is installed for LuaJIT, and no task could yield in it.
if not rawget(_G, "jit") and _VERSION ~= "Lua 5.4" then
    error(("chamvi.sandbox needs Lua 5.4 or LuaJIT; this is %s"):format(_VERSION), 0)
end

local native = require "chamvi.sandbox.core"

local compat = {}

-- For the library's own coroutines. OpenResty has others under Lua's names, which end with the request that made them,
-- and keeps Lua's own beside them: ngx_http_lua_inject_coroutine_api of lua-nginx-module.
compat.create = rawget(coroutine, "_create") or coroutine.create
compat.resume = rawget(coroutine, "_resume") or coroutine.resume
compat.yield = rawget(coroutine, "_yield") or coroutine.yield
compat.status = rawget(coroutine, "_status") or coroutine.status
compat.is_yieldable = native.is_yieldable -- OpenResty has lost coroutine.isyieldable

compat.unpack = table.unpack or rawget(_G, "unpack")

--- The arguments as a list that knows its length, nils included.
---@return table packed with `n`
function compat.pack(...)
    return { n = select("#", ...), ... }
end

local function once(_, done)
    if not done then
        return true
    end
end

--- Calls `fn(...)`, which must not raise. When the coroutine is closed meanwhile, which Lua 5.4 can do, `closed()` is
--- called; it must neither wait nor raise.
---@param closed fun()
---@param fn function
---@return any ... its results
function compat.call_until_closed(closed, fn, ...)
    local results
    local guard = setmetatable({}, {
        __close = function()
            if not results then
                closed()
            end
        end,
    })
    -- The fourth value of a loop is a to-be-closed variable; LuaJIT, which closes no coroutines, ignores it.
    for _ in once, nil, nil, guard do
        results = compat.pack(fn(...))
    end
    return compat.unpack(results, 1, results.n)
end

--- A whole number as the type that Lua 5.4 prints without ".0".
---@param number number without a fraction
---@return integer
function compat.integer(number)
    return math.tointeger and math.tointeger(number) or number
end

--- A copy of a tree of tables; anything else as it is.
---@param value any
---@return any
function compat.deep_copy(value)
    if type(value) ~= "table" then
        return value
    end
    local copy = {}
    for key, element in pairs(value) do
        copy[key] = compat.deep_copy(element)
    end
    return copy
end

--- Cuts without leaving the first bytes of a UTF-8 character at the end.
---@param text string
---@param max_bytes integer
---@return string
function compat.cut(text, max_bytes)
    if #text <= max_bytes then
        return text
    end
    return (text:sub(1, max_bytes):gsub("[\192-\255][\128-\191]*$", ""))
end

return compat
