-- Arguments that JSON can't carry. A command's arguments are bytes, but a JSON text is UTF-8, and an engine replaces
-- what is not.

local compat = require "chamvi.sandbox.compat"
local is_utf8 = require "chamvi.sandbox.is_utf8"

local PIECE_MAX_BYTES = 65536 -- of one argument may have 131,071, escapes included

-- Its arguments are pieces of arguments, escaped as for `printf %b`, the last of each after a "=". No variable of the
-- environment may be touched. The dot keeps newlines at the end.
local UNESCAPE = [[
chamvi_word=
for chamvi_piece; do
    shift
    chamvi_word=$chamvi_word$(printf '%b.' "${chamvi_piece#?}")
    chamvi_word=${chamvi_word%.}
    case $chamvi_piece in
    =*)
        set -- "$@" "$chamvi_word"
        chamvi_word=
        ;;
    esac
done
exec "$@"
]]

local function escape(byte)
    return ("\\0%03o"):format(byte:byte())
end

local function add_pieces(pieces, argument)
    local text = argument:gsub("[\\\128-\255]", escape)
    local from = 1
    while #text - from >= PIECE_MAX_BYTES do
        local to = from + PIECE_MAX_BYTES - 1
        local cut = text:sub(to - 4, to):find("\\", 1, true) -- not within an escape
        if cut then
            to = to - 6 + cut
        end
        table.insert(pieces, "+" .. text:sub(from, to))
        from = to + 1
    end
    table.insert(pieces, "=" .. text:sub(from))
end

--- The same command in UTF-8.
---@param argv string[]
---@return string[] # argv itself when it is UTF-8 already; else one that needs a shell
return function(argv)
    if is_utf8(table.concat(argv, "\n")) then
        return argv
    end
    local pieces = {}
    for _, argument in ipairs(argv) do
        add_pieces(pieces, argument)
    end
    return { "sh", "-c", UNESCAPE, "sh", compat.unpack(pieces) }
end
