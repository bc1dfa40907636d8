-- A helper for busted: keeps in a file, CHAMVI_SPEC_PROGRESS, what runs now and how long the slowest specs have taken,
-- so that a run which is cut off can say where it stood.

local busted = require "busted"

local SLOWEST = 8

local file = assert(os.getenv("CHAMVI_SPEC_PROGRESS"), "CHAMVI_SPEC_PROGRESS is not set")
local now = "nothing"
local slow = {} -- slowest first

local function write()
    local out = assert(io.open(file, "w"))
    out:write("now: ", now, "\n")
    for _, spec in ipairs(slow) do
        out:write(("%.1f s: %s\n"):format(spec.duration, spec.place))
    end
    out:close()
end

local function place(element)
    local trace = element.trace
    return trace and ("%s:%d %s"):format(trace.short_src, trace.currentline, element.name) or tostring(element.name)
end

local function begun(element)
    now = place(element)
    write()
    return nil, true
end

busted.subscribe({ "file", "start" }, begun)
busted.subscribe({ "test", "start" }, begun)
busted.subscribe({ "test", "end" }, function(element)
    table.insert(slow, { duration = element.duration, place = now })
    table.sort(slow, function(one, other)
        return one.duration > other.duration
    end)
    slow[SLOWEST + 1] = nil
    now = "between specs"
    return nil, true
end)
busted.subscribe({ "suite", "end" }, function()
    write()
    return nil, true
end)
