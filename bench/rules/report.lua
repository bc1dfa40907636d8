--- Turns the samples of bench/rules/run into a table, verdicts and JSON.
--
-- usage: report.lua DIR [--json FILE] [--slowest FILE] [--strict]
--
-- DIR holds a file for each participant, whose lines are a rule, a tab and its calls per second in one round.

local json = require "json"
local stats = require "stats"

local PARTICIPANTS = { "C", "lua5.4", "luajit" }
local BAR = 1e6 -- calls a second

---@param path string
---@return table<string, number[]> samples by rule
---@return string[] order of the rules
local function read_samples(path)
    local samples, order = {}, {}
    for line in io.lines(path) do
        local rule, calls = line:match "^([^\t]+)\t(%d+)$"
        if not samples[rule] then
            samples[rule] = {}
            table.insert(order, rule)
        end
        table.insert(samples[rule], tonumber(calls))
    end
    return samples, order
end

---@param dir string
---@return table[] rows
local function read_rows(dir)
    local by_participant, order = {}, nil
    for _, participant in ipairs(PARTICIPANTS) do
        -- The last one to be read has every rule; C has no limits table to resolve and makes no userdata.
        by_participant[participant], order = read_samples(dir .. "/" .. participant)
    end
    local rows = {}
    for _, rule in ipairs(order) do
        local row = { rule = rule, pass = true, calls_per_second = {} }
        for _, participant in ipairs(PARTICIPANTS) do
            local samples = by_participant[participant][rule]
            if samples then
                local calls = stats.median(samples)
                row.calls_per_second[participant] = calls
                row.pass = row.pass and calls >= BAR
            end
        end
        table.insert(rows, row)
    end
    return rows
end

local function print_rows(rows)
    print(string.format("\n%-36s %9s %9s %9s", "million calls per second of CPU time", "C", "Lua 5.4", "LuaJIT"))
    for _, row in ipairs(rows) do
        local columns = {}
        for _, participant in ipairs(PARTICIPANTS) do
            local calls = row.calls_per_second[participant]
            table.insert(columns, string.format("%9s", calls and string.format("%.2f", calls / 1e6) or "-"))
        end
        print(string.format("%-36s %s  %s", row.rule, table.concat(columns, " "), row.pass and "pass" or "MISS"))
    end
end

-- Writes the slowest rule of each participant: a line of participant, calls per second and rule.
local function write_slowest(path, rows)
    local file = assert(io.open(path, "w"))
    for _, participant in ipairs(PARTICIPANTS) do
        local slowest
        for _, row in ipairs(rows) do
            local calls = row.calls_per_second[participant]
            if calls and not (slowest and slowest.calls_per_second[participant] <= calls) then
                slowest = row
            end
        end
        file:write(string.format("%s %.0f %s\n", participant, slowest.calls_per_second[participant], slowest.rule))
    end
    file:close()
end

local dir, json_path, slowest_path, strict = arg[1], nil, nil, false
local index = 2
while arg[index] do
    if arg[index] == "--json" then
        index = index + 1
        json_path = assert(arg[index], "--json needs a file")
    elseif arg[index] == "--slowest" then
        index = index + 1
        slowest_path = assert(arg[index], "--slowest needs a file")
    elseif arg[index] == "--strict" then
        strict = true
    else
        error("unknown option " .. arg[index], 0)
    end
    index = index + 1
end

local rows = read_rows(dir)
print_rows(rows)
local missed = 0
for _, row in ipairs(rows) do
    missed = missed + (row.pass and 0 or 1)
end
print(string.format("\nbar: at least %.0f million calls a second each: %s", BAR / 1e6,
    missed == 0 and "pass" or missed .. " missed"))
if slowest_path then
    write_slowest(slowest_path, rows)
end
if json_path then
    local file = assert(io.open(json_path, "w"))
    file:write(json.encode({ bar = BAR, rules = rows }), "\n")
    file:close()
end
if strict and missed > 0 then
    os.exit(2)
end
