--- What bench/local/run measures, and what of it has a bar.

local series = {}

---@type string[][] name, label
series.PARTICIPANTS = {
    { "cat", "pipe into cat" },
    { "bare", "bare C loop" },
    { "floor", "bare C floor" },
    { "chamvi-lua5.4", "chamvi, Lua 5.4" },
    { "chamvi-luajit", "chamvi, LuaJIT" },
    { "luv-lua5.4", "luv, Lua 5.4" },
    { "luv-luajit", "luv, LuaJIT" },
    { "node", "Node child_process" },
}

series.ABIS = { "lua5.4", "luajit" }

---@type table<string, string> by name of a participant
series.LABELS = {}
for _, participant in ipairs(series.PARTICIPANTS) do
    series.LABELS[participant[1]] = participant[2]
end

---@class bench.Series
---@field name string
---@field part string the part of the run that measures it
---@field title string
---@field reference string the participant that ratios are to
---@field bar? number the highest ratio allowed
---@field ahead_of_luv? boolean it must be faster than luv under the same Lua
---@field lossless? boolean no byte may be missing
---@field bytes? integer printed in one sample: gives MiB/s
---@field count? integer done in one sample: gives a number per second

local function bytes_text(bytes)
    if bytes >= 2 ^ 30 then
        return ("%.0f GiB"):format(bytes / 2 ^ 30)
    end
    return ("%.0f MiB"):format(bytes / 2 ^ 20)
end

--- A number with commas.
---@param number integer
---@return string
function series.number(number)
    local text = ("%.0f"):format(number)
    local more = 1
    while more > 0 do
        text, more = text:gsub("^(%d+)(%d%d%d)", "%1,%2")
    end
    return text
end

local function output(name, part, bar, title, bytes)
    return {
        name = name, part = part, reference = "cat", bar = bar, lossless = true, title = title, bytes = bytes,
    }
end

--- The series, in the order of the report.
---@param amounts table<string, integer> of the run
---@return bench.Series[]
function series.list(amounts)
    local bulk, streamed = bytes_text(amounts.bytes), bytes_text(amounts.stream_bytes)
    return {
        {
            name = "true", part = "true", reference = "bare", bar = 1.15, ahead_of_luv = true,
            title = "exec of `true`",
        },
        { name = "pinned-true", part = "pinned", reference = "bare", title = "exec of `true`, on one CPU" },
        output("bulk-head", "bulk", 1.1, bulk .. " of output by `head -c`", amounts.bytes),
        output("bulk-dd", "bulk", 1.1, bulk .. " of output by `dd bs=64k`", amounts.bytes),
        output("pinned-head", "pinned", 1.1, bulk .. " of output by `head -c`, on one CPU", amounts.bytes),
        output("pinned-dd", "pinned", 1.1, bulk .. " of output by `dd bs=64k`, on one CPU", amounts.bytes),
        output("stream-head", "stream", nil, streamed .. " through `on_output`, by `head -c`", amounts.stream_bytes),
        output("stream-dd", "stream", nil, streamed .. " through `on_output`, by `dd bs=64k`", amounts.stream_bytes),
        {
            name = "burst", part = "burst", reference = "bare", lossless = true,
            title = "61,000 bytes in one write, then exit",
        },
        {
            name = "together", part = "together", reference = "bare", count = amounts.in_flight,
            title = ("%s execs of `true` at once"):format(series.number(amounts.in_flight)),
        },
        {
            name = "cycle", part = "cycle", reference = "floor", count = 1,
            title = "a workspace acquired and released",
        },
        {
            name = "cycles", part = "cycle", reference = "floor", count = amounts.cycles,
            title = ("%d workspaces acquired and released, %d at once"):format(amounts.cycles, amounts.cycles_at_once),
        },
    }
end

return series
