--- Turns what bench/local/run has measured into tables, verdicts, Markdown and JSON.
--
-- usage: report.lua DIR [--markdown FILE] [--json FILE] [--strict]

local bars = require "bars"
local figures = require "figures"
local json = require "json"
local samples = require "samples"
local series = require "series"
local tables = require "tables"

local function milliseconds(nanoseconds)
    return ("%.3f"):format(nanoseconds / 1e6)
end

local function number_or_dash(format, value)
    return value and format:format(value) or "-"
end

local function quartiles(ratio)
    return ratio and ratio.q1 and ("%.3f..%.3f"):format(ratio.q1, ratio.q3) or "-"
end

local function verdict(bar)
    if bar.pass == nil then
        return "NOT MEASURED"
    elseif bar.bar == "-" then
        return "-"
    end
    return bar.pass and "pass" or "MISS"
end

---@param judged bench.Bar[]
---@return bench.Table
local function bars_table(judged)
    local rows = {}
    for i, bar in ipairs(judged) do
        rows[i] = {
            bar.what,
            bar.bar,
            bar.who,
            bar.ours,
            bar.peer,
            number_or_dash("%.3f", bar.ratio and bar.ratio.median),
            quartiles(bar.ratio),
            number_or_dash("%d", bar.rounds),
            verdict(bar),
        }
    end
    return {
        title = "Measures and bars",
        note = "Ratios are of times, ours to the peer's: below 1 is faster. That of memory is of memory.",
        header = { "measure", "bar", "who", "ours", "peer", "ratio", "quartiles", "rounds", "verdict" },
        rows = rows,
    }
end

-- What a sample gives besides its time: a header, and its text for a latency.
local function rate_of(given)
    if given.bytes then
        return "MiB/s", function(p50)
            return ("%.0f"):format(given.bytes / 2 ^ 20 / (p50 / 1e9))
        end
    elseif given.count then
        return "per second", function(p50)
            return ("%.0f"):format(given.count / (p50 / 1e9))
        end
    end
end

---@param given bench.Series
---@param measured table<string, bench.Samples>
---@return bench.Table? table_, table[] rows for the JSON report
local function series_table(given, measured)
    local rows, records = {}, {}
    local rate_header, rate = rate_of(given)
    for _, participant in ipairs(series.PARTICIPANTS) do
        local name, label = participant[1], participant[2]
        local found = measured[name]
        if found then
            local ratio = samples.ratio(found, measured[given.reference])
            local lost = name ~= "cat" and found.lost or nil
            local row = { label, milliseconds(found.p50), milliseconds(found.p99), milliseconds(found.max) }
            if rate then
                row[#row + 1] = rate(found.p50)
            end
            row[#row + 1] = number_or_dash("%.3f", ratio and ratio.median)
            row[#row + 1] = quartiles(ratio)
            row[#row + 1] = ("%d"):format(found.rounds)
            row[#row + 1] = ("%d"):format(found.count)
            if given.lossless then
                row[#row + 1] = number_or_dash("%d", lost)
            end
            rows[#rows + 1] = row
            records[#records + 1] = {
                participant = name,
                p50_ns = found.p50,
                p99_ns = found.p99,
                max_ns = found.max,
                ratio = ratio,
                rounds = found.rounds,
                samples = found.count,
                lost_bytes = lost,
            }
        end
    end
    if #rows == 0 then
        return nil, records
    end
    local header = { "", "p50 ms", "p99 ms", "max ms" }
    header[#header + 1] = rate_header
    for _, column in ipairs { "ratio", "quartiles", "rounds", "samples" } do
        header[#header + 1] = column
    end
    header[#header + 1] = given.lossless and "lost bytes" or nil
    local title = ("%s; ratio to: %s"):format(given.title, series.LABELS[given.reference])
    return { title = title, header = header, rows = rows }, records
end

---@param run bench.Run
---@param variant { bytes: integer, by_participant: table<string, bench.Flight> }
---@return bench.Table?
local function flight_table(run, variant)
    local rows = {}
    for _, participant in ipairs(series.PARTICIPANTS) do
        local found = variant.by_participant[participant[1]]
        local keeps = participant[1]:find "^chamvi"
        if found then
            rows[#rows + 1] = {
                participant[2],
                ("%d"):format(found.failed),
                ("%.3f"):format(found.descriptors),
                number_or_dash("%.1f", found.rss_kib),
                number_or_dash("%.1f", keeps and found.rss_kib and found.rss_kib - variant.bytes / 1024),
                number_or_dash("%.1f", found.below_kib),
                ("%d"):format(found.rounds),
            }
        end
    end
    if #rows == 0 then
        return nil
    end
    return {
        title = ("%s execs in flight at once, each has printed %s bytes"):format(
            series.number(run.amounts.in_flight), series.number(variant.bytes)),
        note = ("For each: descriptors and memory (RSS) that the host program got more, and memory (PSS) that guards "
            .. "and supervisors got more. chamvi has them over %d workspaces and keeps their output; the peers drop it."
        ):format(run.amounts.flight_workspaces),
        header = {
            "", "failed", "descriptors", "host KiB", "beyond output", "supervisors KiB", "rounds",
        },
        rows = rows,
    }
end

---@param run bench.Run
---@return bench.Table?
local function idle_table(run)
    local rows = {}
    for _, abi in ipairs(series.ABIS) do
        local name = "chamvi-" .. abi
        local found = run.idle[name]
        if found then
            rows[#rows + 1] = {
                series.LABELS[name],
                ("%d"):format(found.processes),
                ("%.3f"):format(found.host_ms),
                ("%.3f"):format(found.below_ms),
                ("%.4f"):format(found.cpu_percent),
                ("%.2f"):format(found.descriptors),
                number_or_dash("%.1f", found.host_kib),
                number_or_dash("%.1f", found.below_kib),
                ("%.2f"):format(found.live_seconds),
                ("%.2f"):format(found.release_seconds),
            }
        end
    end
    if #rows == 0 then
        return nil
    end
    return {
        title = ("An idle host with %s live workspaces, for %d seconds"):format(
            series.number(run.amounts.live_workspaces), run.amounts.idle_seconds),
        note = ("From %d seconds after the last was acquired: processor time of the host program and of all guards and "
            .. "supervisors together. For each workspace: descriptors and memory (RSS) of the host program, and memory "
            .. "(PSS) of its guard and supervisor, without what the kernel keeps for them."
        ):format(run.amounts.calm_seconds),
        header = {
            "", "processes", "host ms", "others ms", "% of a CPU", "descriptors", "host KiB", "others KiB",
            "acquired in s", "released in s",
        },
        rows = rows,
    }
end

---@param run bench.Run
---@return bench.Table?
local function memory_table(run)
    local peaks, order = {}, {}
    for _, record in ipairs(run.memory) do
        local name, moment, participant, process, kib = table.unpack(record)
        local key = ("%s: %s, %s"):format(name, series.LABELS[participant], process)
        if not peaks[key] then
            order[#order + 1] = key
            peaks[key] = {}
        end
        peaks[key][moment] = kib
    end
    if #order == 0 then
        return nil
    end
    local rows = {}
    for i, key in ipairs(order) do
        rows[i] = { key, peaks[key].before or "-", peaks[key].after or "-" }
    end
    return {
        title = "Peak resident memory over the series of large output, KiB",
        header = { "", "before", "after" },
        rows = rows,
    }
end

---@param run bench.Run
---@return bench.Table[] all, table<string, table[]> records by series, for the JSON report
local function measure_tables(run)
    local all, records = {}, {}
    for _, given in ipairs(run.series) do
        local drawn, of_series = series_table(given, run.measured[given.name])
        if drawn then
            all[#all + 1] = drawn
            records[given.name] = of_series
        end
    end
    for _, variant in ipairs(run.flight) do
        all[#all + 1] = flight_table(run, variant)
    end
    all[#all + 1] = idle_table(run)
    all[#all + 1] = memory_table(run)
    return all, records
end

-- What was not measured, and what failed: a line each.
local function remarks(run)
    local lines = {}
    if run.amounts.quick == 1 then
        lines[1] = "A quick run: it shows that the benchmarks work, its figures mean nothing."
    end
    for _, record in ipairs(run.missing) do
        lines[#lines + 1] = ("NOT MEASURED: %s, %s."):format(series.LABELS[record[1]], record[2])
    end
    for _, record in ipairs(run.failures) do
        lines[#lines + 1] = ("FAILED: %s: %s"):format(series.LABELS[record[1]] or record[1], record[2])
    end
    return lines
end

local function print_report(run, all)
    for _, fact in ipairs(run.machine) do
        print(fact[1] .. ": " .. fact[2])
    end
    for _, drawn in ipairs(all) do
        print("\n" .. tables.text(drawn))
    end
    print ""
    for _, line in ipairs(remarks(run)) do
        print(line)
    end
end

local function markdown(run, all)
    local lines = {
        "# Benchmarks",
        "",
        "Local workspaces beside their peers. Written by `bench/local/run`; `bench/README.md` says how it measures. "
            .. "What counts is the ratio: a median over the rounds of one run, in each of which both sides took part.",
        "",
    }
    for _, fact in ipairs(run.machine) do
        lines[#lines + 1] = ("- %s: %s"):format(fact[1], fact[2])
    end
    for _, line in ipairs(remarks(run)) do
        lines[#lines + 1] = "\n" .. line
    end
    for _, drawn in ipairs(all) do
        lines[#lines + 1] = "\n" .. tables.markdown(drawn)
    end
    return table.concat(lines, "\n") .. "\n"
end

local function write(path, text)
    local file = assert(io.open(path, "w"))
    assert(file:write(text))
    assert(file:close())
end

local function parse_arguments(words)
    local options = { dir = words[1] }
    local i = 2
    while words[i] do
        if words[i] == "--json" or words[i] == "--markdown" then
            options[words[i]:sub(3)] = assert(words[i + 1], words[i] .. " needs a file")
            i = i + 1
        elseif words[i] == "--strict" then
            options.strict = true
        else
            error("unknown option " .. words[i], 0)
        end
        i = i + 1
    end
    return options
end

---@return integer exit code
local function main(options)
    local run = figures.read(options.dir)
    local judged = bars.judge(run)
    local measures, records = measure_tables(run)
    local verdicts = bars_table(judged)

    local printed = { table.unpack(measures) }
    table.insert(printed, verdicts)
    print_report(run, printed)
    if options.markdown then
        table.insert(measures, 1, verdicts)
        write(options.markdown, markdown(run, measures))
    end
    if options.json then
        write(options.json, json.encode {
            series = records, bars = judged, flight = run.flight, idle = run.idle, rules = run.rules,
            failures = run.failures, missing = run.missing,
        } .. "\n")
    end

    local missed = false
    for _, bar in ipairs(judged) do
        missed = missed or not bar.pass
    end
    if #run.failures > 0 then
        return 1
    end
    return options.strict and missed and 2 or 0
end

os.exit(main(parse_arguments(arg)))
