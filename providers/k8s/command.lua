-- What a server is asked to run for a command, and what it is sent as standard input.
--
-- Only on v5 of the protocol can a client end standard input. So it goes through `head`, which ends after the right
-- number of bytes on every version. The command itself stands in the request's URL, unless it is too long for that or
-- is no UTF-8, which not every runtime takes: then it comes ahead of the standard input, as text for the shell.

local apis = require "chamvi.sandbox.k8s.api"
local is_utf8 = require "chamvi.sandbox.is_utf8"

local command = {}

-- Of the command in the URL, escaped; proxies often take 8 KiB for the first line of a request.
local URL_MAX_BYTES = 7168
local END = "|end"

local WITH_STDIN = 'head -c "$1" | { shift; exec "$@"; }'

-- What was cut off must not run.
local FROM_STDIN = [[
chamvi_stdin=$2
chamvi_argv=$(head -c "$1" && printf .)
case $chamvi_argv in
*"|end.") ;;
*) exit 125 ;;
esac
eval "set -- ${chamvi_argv%"|end."}"
if [ -z "$chamvi_stdin" ]; then
    exec "$@" </dev/null
fi
head -c "$chamvi_stdin" | exec "$@"
]]

local function query_of(argv)
    local parts = {}
    for index, argument in ipairs(argv) do
        parts[index] = "command=" .. apis.escape(argument)
    end
    return table.concat(parts, "&")
end

local function quoted(argv)
    local words = {}
    for index, argument in ipairs(argv) do
        words[index] = "'" .. argument:gsub("'", "'\\''") .. "'"
    end
    return table.concat(words, " ")
end

local function is_text(argv)
    for _, argument in ipairs(argv) do
        if not is_utf8(argument) then
            return false
        end
    end
    return true
end

--- The part of a URL that names the command, and the bytes to send.
---@param argv string[]
---@param stdin? string
---@return string query
---@return string|nil input nil: the command reads end of file at once
function command.of(argv, stdin)
    if stdin == "" then
        stdin = nil
    end
    local direct = argv
    if stdin then
        direct = { "sh", "-c", WITH_STDIN, "sh", ("%d"):format(#stdin) }
        for _, argument in ipairs(argv) do
            table.insert(direct, argument)
        end
    end
    local query = query_of(direct)
    if #query <= URL_MAX_BYTES and is_text(argv) then
        return query, stdin
    end
    local text = quoted(argv) .. END
    return query_of({ "sh", "-c", FROM_STDIN, "sh", ("%d"):format(#text), stdin and ("%d"):format(#stdin) or "" }),
        text .. (stdin or "")
end

return command
