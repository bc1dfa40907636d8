-- Where failures go that nobody waits for: one line on stderr.

--- Writes one line; what `message` says after its first line is left out.
---@param message string
return function(message)
    io.stderr:write("chamvi.sandbox: ", (message:match("^[^\r\n]*")), "\n")
end
