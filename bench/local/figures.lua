--- Reads the folder in which bench/local/run has put what it measured:
--
-- - `machine`: lines of `what: text`; `amounts`: lines of name and number; `asked`: the parts, a line each;
-- - `failures` and `missing`: lines of participant and reason;
-- - `SERIES.PARTICIPANT`: samples (bench/support/samples.lua);
-- - `memory`: lines of series, moment, participant, process and peak KiB;
-- - `usage`: lines of part, participant, round, moment and what bench/support/usage.lua prints;
-- - `started`: lines of part, participant, round and how many commands were in flight at once;
-- - `rules`: lines of language, calls per second and rule, the slowest of each.

local samples = require "samples"
local series = require "series"
local stats = require "stats"

local figures = {}

---@class bench.Flight the medians over the rounds, for each command in flight
---@field rounds integer
---@field failed integer how many did not come to their end, or were not in flight with the others, in all rounds
---@field descriptors number
---@field rss_kib? number growth of the host program; nil where that may not be read
---@field below_kib? number growth (PSS) of guards and supervisors

---@class bench.Idle
---@field live_seconds number until all were made
---@field release_seconds number
---@field host_ms number processor time of the host program while it rested
---@field below_ms number the same of all guards and supervisors
---@field cpu_percent number of one CPU, both together
---@field processes integer guards and supervisors
---@field host_kib? number growth of the host program (RSS), for each workspace
---@field below_kib? number guards and supervisors (PSS), for each workspace
---@field descriptors number growth, for each workspace

---@class bench.Run
---@field amounts table<string, integer>
---@field asked table<string, boolean> by part
---@field machine string[][] what, text
---@field failures string[][] participant, reason
---@field missing string[][] participant, reason
---@field series bench.Series[]
---@field measured table<string, table<string, bench.Samples>> by series and participant
---@field flight { bytes: integer, by_participant: table<string, bench.Flight> }[]
---@field idle table<string, bench.Idle> by participant
---@field rules table<string, { calls: number, rule: string, rounds: integer }> by language
---@field memory string[][]

-- Usage by part, participant, round, moment and process ("self", "below").
local function read_usage(path)
    local usage = {}
    local function within(parent, key)
        parent[key] = parent[key] or {}
        return parent[key]
    end
    for _, record in ipairs(samples.lines(path, "^(%S+) (%S+) (%d+) (%S+) (%S+) (%d+) (%S+) (%S+) (%S+) (%d+)$")) do
        local part, name, round, moment, process = table.unpack(record)
        within(within(within(within(usage, part), name), tonumber(round)), moment)[process] = {
            processes = tonumber(record[6]),
            descriptors = tonumber(record[7]),
            rss_kib = tonumber(record[8]),
            pss_kib = tonumber(record[9]),
            cpu_ns = tonumber(record[10]),
        }
    end
    return usage
end

local function growth(before, after, field)
    return before and after and before[field] and after[field] and after[field] - before[field]
end

local function median_or_nil(values)
    return #values > 0 and stats.median(values) or nil
end

---@return bench.Flight?
local function flight_of(rounds, started, measured, amounts)
    local descriptors, rss, below = {}, {}, {}
    local count, in_flight = 0, amounts.in_flight
    for _, moments in pairs(rounds) do
        local before, during = moments.before, moments.during
        if before and during then
            count = count + 1
            table.insert(descriptors, growth(before.self, during.self, "descriptors") / in_flight)
            local grown = growth(before.self, during.self, "rss_kib")
            rss[#rss + 1] = grown and grown / in_flight
            grown = growth(before.below, during.below, "pss_kib")
            below[#below + 1] = grown and grown / in_flight
        end
    end
    if count == 0 then
        return nil
    end
    local failed = (count - (measured and measured.rounds or 0)) * in_flight
    for _, number in ipairs(started) do
        failed = failed + in_flight - number
    end
    return {
        rounds = count,
        failed = failed,
        descriptors = stats.median(descriptors),
        rss_kib = median_or_nil(rss),
        below_kib = median_or_nil(below),
    }
end

local function read_flight(dir, usage, amounts)
    local flight = {}
    for _, bytes in ipairs { 0, amounts.keep_bytes } do
        local part = "flight-" .. bytes
        local variant = { bytes = bytes, by_participant = {} }
        for name, rounds in pairs(usage[part] or {}) do
            local started = {}
            for _, record in ipairs(samples.lines(dir .. "/started", "^(%S+) (%S+) %d+ (%d+)$")) do
                if record[1] == part and record[2] == name then
                    started[#started + 1] = tonumber(record[3])
                end
            end
            variant.by_participant[name] =
                flight_of(rounds, started, samples.read(("%s/%s.%s"):format(dir, part, name)), amounts)
        end
        flight[#flight + 1] = variant
    end
    return flight
end

local function read_idle(dir, usage, amounts)
    local idle = {}
    for name, rounds in pairs(usage.idle or {}) do
        local moments = rounds[1]
        local live, released = samples.read(dir .. "/live." .. name), samples.read(dir .. "/release." .. name)
        if moments.after and live and released then
            local empty, made, before, after = moments.empty, moments.made, moments.before, moments.after
            local host = growth(before.self, after.self, "cpu_ns")
            local below = growth(before.below, after.below, "cpu_ns")
            local host_kib = growth(empty.self, made.self, "rss_kib")
            local below_kib = growth(empty.below, made.below, "pss_kib")
            idle[name] = {
                live_seconds = live.p50 / 1e9,
                release_seconds = released.p50 / 1e9,
                host_ms = host / 1e6,
                below_ms = below / 1e6,
                cpu_percent = (host + below) / (amounts.idle_seconds * 1e9) * 100,
                processes = growth(empty.below, made.below, "processes"),
                host_kib = host_kib and host_kib / amounts.live_workspaces,
                below_kib = below_kib and below_kib / amounts.live_workspaces,
                descriptors = growth(empty.self, made.self, "descriptors") / amounts.live_workspaces,
            }
        end
    end
    return idle
end

--- Reads all of it.
---@param dir string
---@return bench.Run
function figures.read(dir)
    local run = { amounts = {}, asked = {}, measured = {}, rules = {} }
    for _, record in ipairs(samples.lines(dir .. "/amounts", "^(%S+) (%d+)$")) do
        run.amounts[record[1]] = tonumber(record[2])
    end
    for _, record in ipairs(samples.lines(dir .. "/asked", "^(%S+)$")) do
        run.asked[record[1]] = true
    end
    run.machine = samples.lines(dir .. "/machine", "^([^:]*): (.*)$")
    run.failures = samples.lines(dir .. "/failures", "^(%S+) (.*)$")
    run.missing = samples.lines(dir .. "/missing", "^(%S+) (.*)$")
    run.memory = samples.lines(dir .. "/memory", "^(%S+) (%S+) (%S+) (%S+) (%d+)$")
    run.series = series.list(run.amounts)
    for _, given in ipairs(run.series) do
        run.measured[given.name] = {}
        for _, participant in ipairs(series.PARTICIPANTS) do
            local name = participant[1]
            run.measured[given.name][name] = samples.read(("%s/%s.%s"):format(dir, given.name, name))
        end
    end
    local usage = read_usage(dir .. "/usage")
    run.flight = read_flight(dir, usage, run.amounts)
    run.idle = read_idle(dir, usage, run.amounts)
    for _, record in ipairs(samples.lines(dir .. "/rules", "^(%S+) (%d+) (.*)$")) do
        run.rules[record[1]] =
            { calls = tonumber(record[2]), rule = record[3], rounds = run.amounts.rules_rounds }
    end
    return run
end

return figures
