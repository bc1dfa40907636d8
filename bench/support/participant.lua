--- The participants' side of the bench protocol, for those written in Lua.
--
-- A participant is a process that lives for a whole series. It reads one request a line on stdin,
-- `VERB COUNT BYTES WORD...`, and answers with one line: the number of stdout bytes that are missing, then
-- latencies in nanoseconds. A failure is answered with `error` and what happened. It ends at end of file.
--
-- Every participant knows these verbs:
--
-- - `exec`: runs the command WORD... COUNT times one after the other, each expected to print BYTES; a latency each;
-- - `together`: runs it COUNT times at once; one latency, of all of it.

local now = require "bench_clock"

local participant = {}

---@alias bench.Handler fun(count: integer, bytes: integer, words: string[]): integer, integer[] missing, latencies

---@param line string
---@return string verb, integer count, integer bytes, string[] words
local function parse(line)
    local verb, count, bytes, rest = line:match "^(%l+) (%d+) (%d+)(.*)$"
    if not verb then
        error("bad request: " .. line, 0)
    end
    local words = {}
    for word in rest:gmatch "%S+" do
        words[#words + 1] = word
    end
    return verb, tonumber(count), tonumber(bytes), words
end

---@param handlers table<string, bench.Handler>
---@param line string
---@return string answer
local function answer(handlers, line)
    local verb, count, bytes, words = parse(line)
    if not handlers[verb] then
        error("no such request here: " .. verb, 0)
    end
    local missing, latencies = handlers[verb](count, bytes, words)
    for i, latency in ipairs(latencies) do
        latencies[i] = string.format("%d", latency)
    end
    return string.format("%d %s", missing, table.concat(latencies, " "))
end

--- A handler that calls `run_once` COUNT times and times each call.
---@param run_once fun(words: string[], bytes: integer): integer? runs `words` to its end, raises unless it exits
---       with 0, and returns how many of the `bytes` expected on stdout are missing (nil: none)
---@return bench.Handler
function participant.each(run_once)
    return function(count, bytes, words)
        local missing, latencies = 0, {}
        for i = 1, count do
            local start = now()
            missing = missing + (run_once(words, bytes) or 0)
            latencies[i] = now() - start
        end
        return missing, latencies
    end
end

--- A handler that times one call of `run_all`.
---@param run_all fun(count: integer, bytes: integer, words: string[]): integer? missing bytes
---@return bench.Handler
function participant.whole(run_all)
    return function(count, bytes, words)
        local start = now()
        local missing = run_all(count, bytes, words) or 0
        return missing, { now() - start }
    end
end

--- Serves requests until stdin ends.
---@param handlers table<string, bench.Handler> by verb
function participant.serve(handlers)
    io.stdout:setvbuf "line"
    for line in io.lines() do
        local ok, reply = pcall(answer, handlers, line)
        if not ok then
            reply = "error " .. tostring(reply):gsub("\n", " ")
        end
        io.write(reply, "\n")
    end
end

return participant
