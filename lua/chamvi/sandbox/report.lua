-- Where failures go that nobody waits for: one line in the host's log, or on stderr.

local host = require "chamvi.sandbox.host"

--- Writes one line; what `message` says after its first line is left out.
---@param message string
return function(message)
    local line = "chamvi.sandbox: " .. message:match("^[^\r\n]*")
    local log = host.current().log
    if log then
        log(line)
    else
        io.stderr:write(line, "\n")
    end
end
