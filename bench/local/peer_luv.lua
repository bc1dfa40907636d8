--- luv (libuv for Lua) as a participant: uv.spawn with a pipe each for stdout and stderr, done when the
-- process has exited and both pipes are at end of file. Chunks are counted and dropped.

local uv = require "luv"
local participant = require "participant"

-- Starts a command. `pending` of what it returns is 0 once it has ended; then `failure` is nil when all went well,
-- and `got` is how much it printed.
local function start(argv)
    local args = {}
    for i = 2, #argv do
        args[i - 1] = argv[i]
    end
    local out, err = uv.new_pipe(false), uv.new_pipe(false)
    local run = { pending = 3, got = 0 }

    local process, spawn_failure
    process, spawn_failure = uv.spawn(argv[1], { args = args, stdio = { nil, out, err } }, function(code, signal)
        if code ~= 0 or signal ~= 0 then
            run.failure = run.failure or string.format("%s: exit code %d, signal %d", argv[1], code, signal)
        end
        process:close()
        run.pending = run.pending - 1
    end)
    if not process then
        out:close()
        err:close()
        uv.run() -- luv 1.44 crashes at exit while a close is under way
        error(spawn_failure, 0)
    end
    local function reader(pipe, count)
        return function(read_failure, chunk)
            run.failure = run.failure or read_failure
            if chunk then
                if count then
                    run.got = run.got + #chunk
                end
            else
                pipe:close()
                run.pending = run.pending - 1
            end
        end
    end
    out:read_start(reader(out, true))
    err:read_start(reader(err, false))
    return run
end

-- Waits for the end of a run and returns the bytes that it lacks.
local function finish(run, bytes)
    while run.pending > 0 do
        uv.run "once"
    end
    if run.failure then
        error(run.failure, 0)
    end
    return bytes - run.got
end

participant.serve {
    exec = participant.each(function(argv, bytes)
        return finish(start(argv), bytes)
    end),
    together = participant.whole(function(count, bytes, argv)
        local runs, missing = {}, 0
        for i = 1, count do
            runs[i] = start(argv)
        end
        for _, run in ipairs(runs) do
            missing = missing + finish(run, bytes)
        end
        return missing
    end),
}
