-- Makes the collector as hostile as a suite can bear, for runs under a sanitizer: it never pauses, and inside calls
-- of the core every single allocation is a whole collection, so that what C holds without an anchor is freed at once.
-- To be run before anything loads the core: LUA_INIT=@spec/support/aggressive_gc.lua

if _VERSION == "Lua 5.1" and not jit then
    return -- what starts busted; it inherits LUA_INIT from a program of a spec
end

-- Of each function the first calls, and then one in so many: some specs make 100,000.
local FIRST_CALLS = 12
local ONE_IN = 499
-- A long text becomes many values, each with a collection of its own: the same calls happen for a short one.
local TEXT_MAX = 512

local CORE = "chamvi.sandbox.core"
local unpack = table.unpack or unpack

local set_all, set_usual
if jit then
    function set_all()
        collectgarbage("setstepmul", 0) -- no limit: a step is a whole collection
    end
    function set_usual()
        collectgarbage("setstepmul", 200)
    end
else
    function set_all()
        collectgarbage("incremental", 0, 400, 40) -- a step is 2^40 bytes, so a whole collection
    end
    function set_usual()
        collectgarbage("incremental", 0, 200, 10)
    end
end
collectgarbage("setpause", 0)
set_usual()

-- The frames below hold no argument of the call: C alone does, as when it is called without them.
local function take(box, count, ...)
    for index = 1, count do
        box[index] = nil
    end
    return ...
end

local function run(fn, box)
    return fn(take(box, box.count, unpack(box, 1, box.count)))
end

local function finish(ok, ...)
    set_usual()
    if not ok then
        error((...), 0)
    end
    return ...
end

local function run_hostile(fn, box)
    set_all()
    return finish(pcall(run, fn, box))
end

local function is_long(value)
    return type(value) == "string" and #value > TEXT_MAX
end

local function hostile(fn)
    local calls = 0
    return function(...)
        calls = calls + 1
        if calls > FIRST_CALLS and calls % ONE_IN ~= 0 or is_long((...)) then
            return fn(...)
        end
        return run_hostile(fn, { count = select("#", ...), ... })
    end
end

local function wrap(functions)
    for name, value in pairs(functions) do
        if type(value) == "function" then
            functions[name] = hostile(value)
        end
    end
end

package.preload[CORE] = function(...)
    local file = assert(package.searchpath(CORE, package.cpath))
    local core = assert(package.loadlib(file, "luaopen_chamvi_sandbox_core"))(...)
    wrap(core)
    local types = debug.getregistry()
    wrap(types[CORE].__index)
    -- The methods of a collector are the upvalue of its __index.
    wrap(select(2, debug.getupvalue(types["chamvi.sandbox.collector"].__index, 1)))
    return core, file
end
