--- What processes use, as the kernel counts it.
--
--     usage.lua PID DEPTH
--
-- prints a line for the process, and with a DEPTH over 0 one for all that it started down to that generation:
--
--     self|below PROCESSES DESCRIPTORS RSS_KIB PSS_KIB CPU_NS
--
-- Memory is that of smaps_rollup (PSS: a page counts in parts with those who share it), `-` where it may not be read.
-- CPU time is that of schedstat, in nanoseconds, of the first thread (what is measured so has no other): the ticks of
-- stat, of 10 ms, would hide what an idle process uses. Descriptors are counted for the process only.

local function read(path)
    local file = io.open(path)
    local text = file and file:read "*a"
    if file then
        file:close()
    end
    return text
end

local function children(pid)
    local pids = {}
    for child in (read(("/proc/%s/task/%s/children"):format(pid, pid)) or ""):gmatch "%d+" do
        pids[#pids + 1] = child
    end
    return pids
end

-- The processes that `pid` started, and what those started, `depth` generations in all.
local function below(pid, depth)
    local found = {}
    local generation = { pid }
    for _ = 1, depth do
        local next_generation = {}
        for _, parent in ipairs(generation) do
            for _, child in ipairs(children(parent)) do
                table.insert(found, child)
                table.insert(next_generation, child)
            end
        end
        generation = next_generation
    end
    return found
end

local function print_usage(label, pids, descriptors)
    local rss, pss, readable, cpu = 0, 0, true, 0
    for _, pid in ipairs(pids) do
        local rollup = read(("/proc/%s/smaps_rollup"):format(pid)) or ""
        local rss_kib = tonumber(rollup:match "Rss:%s+(%d+)")
        readable = readable and rss_kib ~= nil
        rss = rss + (rss_kib or 0)
        pss = pss + (tonumber(rollup:match "Pss:%s+(%d+)") or 0)
        cpu = cpu + tonumber((read(("/proc/%s/schedstat"):format(pid)) or "0"):match "^%d+")
    end
    if not readable then
        rss, pss = "-", "-"
    end
    print(("%s %d %s %s %s %d"):format(label, #pids, descriptors, rss, pss, cpu))
end

local function descriptors_of(pid)
    local pipe = assert(io.popen(("ls /proc/%s/fd | wc -l"):format(pid)))
    local count = pipe:read "*n"
    pipe:close()
    return count
end

local pid, depth = arg[1], tonumber(arg[2])
print_usage("self", { pid }, descriptors_of(pid))
if depth > 0 then
    print_usage("below", below(pid, depth), "-")
end
