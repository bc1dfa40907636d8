-- How long things may take, in milliseconds. In one table, so that specs can have less patience.

return {
    CONNECT = 10000,
    REQUEST = 60000, -- one that asks for nothing slow
    START = 120000, -- each step of making a container, on a busy engine
    PULL_SILENCE = 300000, -- a pull takes as long as it likes, but not without a word for longer
    EXIT = 5000, -- from the end of an exec's output until the engine knows its exit code
    REMOVE = 60000,
    BUSY = 20000, -- of a removal that the engine refuses at first, all tries together
    CLEAN_UP = 60000, -- of a create that failed, all tries together
    LATE = 30000, -- from its expiry until a container ends by itself: its host, if there is one, comes first
    ABORT = 10000, -- from the abort of a create until that returns, cleaned up or not
}
