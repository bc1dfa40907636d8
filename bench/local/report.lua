--- Turns the samples of bench/local/run into tables, verdicts and JSON.
--
-- usage: report.lua DIR [--json FILE] [--strict]
--
-- DIR holds one file for each series and participant, `SERIES.PARTICIPANT`, whose lines are a round,
-- the missing bytes and the latencies in nanoseconds; `failures`, lines of participant and reason; and
-- `memory`, lines of series, moment, participant, process and peak KiB.

local json = require "json"
local stats = require "stats"

local PARTICIPANTS = {
    { "cat", "pipe into cat" },
    { "bare", "bare C loop" },
    { "chamvi-lua5.4", "chamvi, Lua 5.4" },
    { "chamvi-luajit", "chamvi, LuaJIT" },
    { "luv-lua5.4", "luv, Lua 5.4" },
    { "luv-luajit", "luv, LuaJIT" },
    { "node", "Node child_process" },
}

-- `reference` is what ratios are to, `bar` the highest ratio allowed.
local SERIES = {
    { name = "true", title = "exec of `true`", reference = "bare", bar = 1.15, ahead_of_luv = true },
    { name = "bulk-head", title = "1 GiB of output by head -c", reference = "cat", bar = 1.1, lossless = true },
    { name = "bulk-dd", title = "1 GiB of output by dd bs=64k", reference = "cat", bar = 1.1, lossless = true },
    { name = "pinned-head", title = "the same by head -c, on one CPU", reference = "cat", bar = 1.1, lossless = true },
    { name = "pinned-dd", title = "the same by dd bs=64k, on one CPU", reference = "cat", bar = 1.1, lossless = true },
    { name = "burst", title = "61,000 bytes in one write, then exit", reference = "bare", lossless = true },
}

local ABIS = { "lua5.4", "luajit" }

local LABELS = {}
for _, participant in ipairs(PARTICIPANTS) do
    LABELS[participant[1]] = participant[2]
end

---@class Samples
---@field all number[] every latency, in nanoseconds
---@field rounds table<integer, number> the median latency of each round
---@field lost integer missing bytes

---@param path string
---@return Samples? nil where there is no such file
local function read_samples(path)
    local file = io.open(path)
    if not file then
        return nil
    end
    local samples = { all = {}, rounds = {}, lost = 0 }
    local by_round = {}
    for line in file:lines() do
        local round, lost, latencies = line:match "^(%d+) (%-?%d+) (.*)$"
        round = tonumber(round)
        by_round[round] = by_round[round] or {}
        samples.lost = samples.lost + tonumber(lost)
        for latency in latencies:gmatch "%d+" do
            table.insert(by_round[round], tonumber(latency))
            table.insert(samples.all, tonumber(latency))
        end
    end
    file:close()
    for round, latencies in pairs(by_round) do
        samples.rounds[round] = stats.median(latencies)
    end
    return samples
end

--- The ratio of two participants: one ratio of medians for each round that both took part in, so that
--- what slows the machine for a while slows both sides of it.
---@param samples Samples?
---@param reference Samples?
---@return { median: number, q1: number, q3: number }?
local function ratio(samples, reference)
    local ratios = {}
    if samples and reference then
        for round, median in pairs(samples.rounds) do
            if reference.rounds[round] then
                ratios[#ratios + 1] = median / reference.rounds[round]
            end
        end
    end
    if #ratios == 0 then
        return nil
    end
    return {
        median = stats.median(ratios),
        q1 = stats.quantile(ratios, 0.25),
        q3 = stats.quantile(ratios, 0.75),
    }
end

local function read_lines(path, pattern)
    local records = {}
    for line in io.lines(path) do
        records[#records + 1] = { line:match(pattern) }
    end
    return records
end

local function printf(format, ...)
    print(string.format(format, ...))
end

---@param series table an element of SERIES
---@param measured table<string, Samples>
---@return table[] rows for the JSON report
local function print_series(series, measured)
    local rows = {}
    printf("\n%s; ratio to: %s", series.title, LABELS[series.reference])
    printf("%-20s %9s %9s %9s %7s  %-13s %10s %7s", "", "p50 ms", "p99 ms", "max ms", "ratio", "quartiles",
        "lost bytes", "execs")
    for _, participant in ipairs(PARTICIPANTS) do
        local name = participant[1]
        local samples = measured[name]
        if samples then
            local row = {
                participant = name,
                p50_ns = stats.median(samples.all),
                p99_ns = stats.quantile(samples.all, 0.99),
                max_ns = stats.quantile(samples.all, 1),
                ratio = ratio(samples, measured[series.reference]),
                lost_bytes = name ~= "cat" and samples.lost or nil,
                execs = #samples.all,
            }
            rows[#rows + 1] = row
            printf("%-20s %9.3f %9.3f %9.3f %7s  %-13s %10s %7d", LABELS[name], row.p50_ns / 1e6, row.p99_ns / 1e6,
                row.max_ns / 1e6, row.ratio and string.format("%.3f", row.ratio.median) or "-",
                row.ratio and string.format("%.3f..%.3f", row.ratio.q1, row.ratio.q3) or "-",
                row.lost_bytes and string.format("%d", row.lost_bytes) or "-", row.execs)
        end
    end
    return rows
end

--- The bars of a series for one Lua: `value` is nil where it was not measured.
---@param series table an element of SERIES
---@param measured table<string, Samples>
---@param abi string
---@return table[]
local function check(series, measured, abi)
    local bars = {}
    local chamvi = measured["chamvi-" .. abi]
    local function add(what, value, pass)
        bars[#bars + 1] = { series = series.name, abi = abi, what = what, value = value, pass = value and pass(value) }
    end
    if series.bar then
        local found = ratio(chamvi, measured[series.reference])
        add(string.format("at most %.2fx of %s", series.bar, LABELS[series.reference]), found and found.median,
            function(value) return value <= series.bar end)
    end
    if series.ahead_of_luv then
        local found = ratio(chamvi, measured["luv-" .. abi])
        add("ahead of luv", found and found.median, function(value) return value < 1 end)
    end
    if series.lossless then
        add("no byte lost", chamvi and chamvi.lost, function(value) return value == 0 end)
    end
    return bars
end

---@param records string[][] lines of the file `memory`
---@return table[]? rows for the JSON report
local function print_memory(records)
    if #records == 0 then
        return nil
    end
    local peaks, order = {}, {}
    for _, record in ipairs(records) do
        local series, moment, name, process, kib = table.unpack(record)
        local key = string.format("%-6s  %s, %s", series, LABELS[name], process)
        if not peaks[key] then
            order[#order + 1] = key
            peaks[key] = { series = series, participant = name, process = process }
        end
        peaks[key][moment .. "_kib"] = tonumber(kib)
    end
    printf "\npeak resident memory over the 1 GiB series, KiB"
    printf("%-40s %9s %9s", "", "before", "after")
    local rows = {}
    for i, key in ipairs(order) do
        rows[i] = peaks[key]
        printf("%-40s %9s %9s", key, tostring(peaks[key].before_kib or "-"), tostring(peaks[key].after_kib or "-"))
    end
    return rows
end

local function parse_arguments(words)
    local options = { dir = words[1] }
    local i = 2
    while words[i] do
        if words[i] == "--json" then
            i = i + 1
            options.json = assert(words[i], "--json needs a file")
        elseif words[i] == "--strict" then
            options.strict = true
        else
            error("unknown option " .. words[i], 0)
        end
        i = i + 1
    end
    return options
end

local function main(options)
    local report = { series = {}, bars = {} }
    local missed = false
    for _, series in ipairs(SERIES) do
        local measured = {}
        for _, participant in ipairs(PARTICIPANTS) do
            measured[participant[1]] = read_samples(options.dir .. "/" .. series.name .. "." .. participant[1])
        end
        if next(measured) then
            report.series[series.name] = print_series(series, measured)
            for _, abi in ipairs(ABIS) do
                for _, bar in ipairs(check(series, measured, abi)) do
                    table.insert(report.bars, bar)
                end
            end
        end
    end
    report.memory = print_memory(read_lines(options.dir .. "/memory", "^(%S+) (%S+) (%S+) (%S+) (%d+)$"))

    print ""
    for _, bar in ipairs(report.bars) do
        local verdict = bar.value == nil and "NOT MEASURED" or bar.pass and "PASS" or "MISS"
        missed = missed or not bar.pass
        printf("%-12s %-11s chamvi, %-7s %-35s %s", verdict, bar.series, bar.abi, bar.what,
            bar.value and string.format(math.type(bar.value) == "integer" and "%d" or "%.3f", bar.value) or "")
    end
    local failures = read_lines(options.dir .. "/failures", "^(%S+) (.*)$")
    for _, failure in ipairs(failures) do
        printf("%-12s %s: %s", "FAILED", LABELS[failure[1]], failure[2])
        report.failures = report.failures or {}
        report.failures[failure[1]] = failure[2]
    end

    if options.json then
        local file = assert(io.open(options.json, "w"))
        assert(file:write(json.encode(report), "\n"))
        assert(file:close())
    end
    if report.failures then
        return 1
    end
    return options.strict and missed and 2 or 0
end

os.exit(main(parse_arguments(arg)))
