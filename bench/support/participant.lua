--- The participants' side of the bench protocol, for those written in Lua.
--
-- A participant is a process that lives for a whole benchmark. It reads one request a line on
-- stdin, `exec COUNT BYTES WORD...`, runs the command WORD... COUNT times one after the other, and
-- answers with one line: the number of stdout bytes that are missing from COUNT times BYTES, then
-- COUNT latencies in nanoseconds. A failure is answered with `error` and what happened. It ends at
-- end of file.

local now = require "bench_clock"

local participant = {}

---@param line string
---@return integer count, integer bytes, string[] argv
local function parse(line)
    local count, bytes, words = line:match "^exec (%d+) (%d+) (.+)$"
    if not count then
        error("bad request: " .. line, 0)
    end
    local argv = {}
    for word in words:gmatch "%S+" do
        argv[#argv + 1] = word
    end
    return tonumber(count), tonumber(bytes), argv
end

---@param run_once fun(argv: string[], bytes: integer): integer
---@param line string
---@return string answer
local function answer(run_once, line)
    local count, bytes, argv = parse(line)
    local missing, latencies = 0, {}
    for i = 1, count do
        local start = now()
        missing = missing + run_once(argv, bytes)
        latencies[i] = string.format("%d", now() - start)
    end
    return string.format("%d %s", missing, table.concat(latencies, " "))
end

--- Serves requests until stdin ends.
---@param run_once fun(argv: string[], bytes: integer): integer runs `argv` to its end, raises unless it exits
---       with 0, and returns how many of the `bytes` expected on stdout are missing
function participant.serve(run_once)
    io.stdout:setvbuf "line"
    for line in io.lines() do
        local ok, reply = pcall(answer, run_once, line)
        if not ok then
            reply = "error " .. tostring(reply):gsub("\n", " ")
        end
        io.write(reply, "\n")
    end
end

return participant
