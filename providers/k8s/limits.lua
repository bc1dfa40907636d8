-- How long things may take, in milliseconds. In one table, so that specs can have less patience.

return {
    REQUEST = 30000, -- one try
    READ = 10000, -- the same of what may be asked again at any time
    OPEN = 30000, -- from the request for an exec until its stream is open
    TRIES = 30000, -- all tries of one request, with the pauses between them; the first has its own time at least
    PING = 15000, -- between pings of an exec, which keep a proxy from cutting a silent one
    CLOSING = 1000, -- after an exec's status, until the server closes: output may come behind it
    IDENTITY = 2000, -- of the look at the pod beside each exec
    EVIDENCE = 4000, -- after a command was killed or its connection lost, until the API knows of the pod's end
    KILL = 5000, -- of the command that kills all others
    CLEAN_UP = 60000, -- of a create that failed, all tries together
    ABORT = 10000, -- from the abort of a create until that returns, cleaned up or not
}
