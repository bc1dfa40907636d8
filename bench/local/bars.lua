--- Says what each measure gave, and which bars hold.

local samples = require "samples"
local series = require "series"

local bars = {}

local IDLE_PERCENT = 0.1
local FLIGHT_KIB = 64
local RULES_PER_SECOND = 1e6

---@class bench.Bar
---@field what string what was measured
---@field bar string "-" where there is none
---@field who string a participant's label
---@field ours string "-" when it was not measured
---@field peer string
---@field ratio? bench.Ratio
---@field rounds? integer
---@field value? number what is compared; nil: not measured
---@field pass? boolean nil: not measured; true where there is no bar

-- A median as the series counts it.
local function amount(given, measured)
    if not measured then
        return "-"
    end
    local seconds = measured.p50 / 1e9
    if given.bytes then
        return series.number(given.bytes / 2 ^ 20 / seconds) .. " MiB/s"
    elseif given.count then
        return series.number(given.count / seconds) .. " a second"
    end
    return ("%.3f ms"):format(seconds * 1000)
end

---@param given bench.Series
---@param measured table<string, bench.Samples> by participant
---@param abi string
---@param add fun(bar: bench.Bar)
local function of_series(given, measured, abi, add)
    local who = "chamvi-" .. abi
    local chamvi = measured[who]
    local function compare(peer, bar, passes)
        local ratio = samples.ratio(chamvi, measured[peer])
        add {
            what = given.title,
            bar = bar,
            who = series.LABELS[who],
            ours = amount(given, chamvi),
            peer = ("%s (%s)"):format(amount(given, measured[peer]), series.LABELS[peer]),
            ratio = ratio,
            rounds = ratio and ratio.rounds,
            value = ratio and ratio.median,
            pass = ratio and passes(ratio.median),
        }
    end
    compare(given.reference, given.bar and ("at most %.2fx"):format(given.bar) or "-", function(value)
        return not given.bar or value <= given.bar
    end)
    if given.ahead_of_luv then
        compare("luv-" .. abi, "ahead of luv", function(value)
            return value < 1
        end)
    end
    if given.lossless then
        add {
            what = given.title,
            bar = "no byte lost",
            who = series.LABELS[who],
            ours = chamvi and ("%d lost"):format(chamvi.lost) or "-",
            peer = "-",
            rounds = chamvi and chamvi.rounds,
            value = chamvi and chamvi.lost,
            pass = chamvi and chamvi.lost == 0,
        }
    end
end

local function of_flight(flight, amounts, abi, add)
    local who, peer = "chamvi-" .. abi, "luv-" .. abi
    local what = ("%s execs in flight over %d workspaces"):format(
        series.number(amounts.in_flight), amounts.flight_workspaces)
    local function kib(figures)
        return figures and figures.rss_kib and ("%.1f KiB"):format(figures.rss_kib) or "-"
    end
    for _, variant in ipairs(flight) do
        local ours, theirs = variant.by_participant[who], variant.by_participant[peer]
        local kept = variant.bytes == 0 and "" or (", %s bytes of output each"):format(series.number(variant.bytes))
        add {
            what = what .. kept,
            bar = "no failure",
            who = series.LABELS[who],
            ours = ours and ("%d failed"):format(ours.failed) or "-",
            peer = "-",
            rounds = ours and ours.rounds,
            value = ours and ours.failed,
            pass = ours and ours.failed == 0,
        }
        local rss = ours and ours.rss_kib
        local beyond = rss and rss - variant.bytes / 1024
        add {
            what = what .. kept .. ": host memory of one",
            bar = ("at most %d KiB%s"):format(FLIGHT_KIB, variant.bytes == 0 and "" or " beyond the output"),
            who = series.LABELS[who],
            ours = kib(ours),
            peer = ("%s (%s)"):format(kib(theirs), series.LABELS[peer]),
            ratio = rss and theirs and theirs.rss_kib and { median = rss / theirs.rss_kib },
            rounds = ours and ours.rounds,
            value = beyond,
            pass = beyond and beyond <= FLIGHT_KIB,
        }
    end
end

local function of_idle(idle, amounts, abi, add)
    local who = "chamvi-" .. abi
    local percent = idle[who] and idle[who].cpu_percent
    add {
        what = ("an idle host with %s workspaces, and their processes"):format(series.number(amounts.live_workspaces)),
        bar = ("at most %.1f %% of one CPU"):format(IDLE_PERCENT),
        who = series.LABELS[who],
        ours = percent and ("%.4f %%"):format(percent) or "-",
        peer = "-",
        rounds = percent and 1,
        value = percent,
        pass = percent and percent <= IDLE_PERCENT,
    }
end

local function of_rules(rules, add)
    for _, language in ipairs { "lua5.4", "luajit", "C" } do
        local slowest = rules[language]
        add {
            what = "the slowest rule" .. (slowest and (" (%s)"):format(slowest.rule) or ""),
            bar = "at least 1 million a second",
            who = series.LABELS["chamvi-" .. language] or language,
            ours = slowest and ("%.2f million"):format(slowest.calls / 1e6) or "-",
            peer = "-",
            rounds = slowest and slowest.rounds,
            value = slowest and slowest.calls,
            pass = slowest and slowest.calls >= RULES_PER_SECOND,
        }
    end
end

--- All bars of the parts that the run was asked for.
---@param run bench.Run
---@return bench.Bar[]
function bars.judge(run)
    local found = {}
    local function add(bar)
        found[#found + 1] = bar
    end
    for _, given in ipairs(run.series) do
        if run.asked[given.part] then
            for _, abi in ipairs(series.ABIS) do
                of_series(given, run.measured[given.name], abi, add)
            end
        end
    end
    for _, abi in ipairs(series.ABIS) do
        if run.asked.flight then
            of_flight(run.flight, run.amounts, abi, add)
        end
    end
    for _, abi in ipairs(series.ABIS) do
        if run.asked.idle then
            of_idle(run.idle, run.amounts, abi, add)
        end
    end
    if run.asked.rules then
        of_rules(run.rules, add)
    end
    return found
end

return bars
