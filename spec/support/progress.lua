-- A helper for busted: keeps in a file, CHAMVI_SPEC_PROGRESS, what runs now and how long the slowest specs have taken,
-- so that a run which is cut off can say where it stood; and in another, of that name with ".failed" behind it, a line
-- for each spec that fails or is pending: which, also where what failed came before or after it, and the first words.

local busted = require "busted"

local SLOWEST = 8
local WORDS_MAX = 300

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
    now = "after " .. now
    return nil, true
end)

local function failed(element, _, message)
    local words = tostring(message):gsub("%s+", " ")
    words = #words > WORDS_MAX and words:sub(1, WORDS_MAX) .. "..." or words
    local step = element.descriptor == "it" and "" or (" (%s)"):format(element.descriptor)
    local out = assert(io.open(file .. ".failed", "a"))
    out:write(("%s%s: %s\n"):format(now, step, words))
    out:close()
    return nil, true
end

busted.subscribe({ "pending" }, function(element, parent, message)
    return failed(element, parent, "pending: " .. tostring(message))
end)
busted.subscribe({ "failure" }, failed)
busted.subscribe({ "error" }, failed)
busted.subscribe({ "suite", "end" }, function()
    write()
    return nil, true
end)
