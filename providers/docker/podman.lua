-- A shell script around each command on Podman, whose exec keeps less than Docker's does: it ends the output with the
-- program that it started, though what that left behind still writes, and it drops the output that is left when a
-- program does not read its standard input to the end.

local compat = require "chamvi.sandbox.compat"

-- The program writes into pipes that are read until nobody holds them any more.
local OUTPUT = [[
exec 3>&1 4>&2
chamvi_code=$({
    {
        {
            @run@ 3>&- 4>&- 5>&-
            printf %s "$?" >&5
        } | cat >&3 3>&- 4>&- 5>&-
    } 2>&1 | cat >&4 3>&- 4>&- 5>&-
} 5>&1)
exit "$chamvi_code"
]]

-- What the program does not read is read for it.
local DRAINED = '{ cat 2>/dev/null; cat >/dev/null; } | "$@"'

--- The argv that runs a command so.
---@param argv string[]
---@param has_stdin boolean
---@return string[]
return function(argv, has_stdin)
    local run = has_stdin and "{ " .. DRAINED .. "; }" or '"$@"'
    return { "sh", "-c", (OUTPUT:gsub("@run@", (run:gsub("%%", "%%%%")))), "sh", compat.unpack(argv) }
end
