--- luv (libuv for Lua) as a participant: uv.spawn with a pipe each for stdout and stderr, done when the
-- process has exited and both pipes are at end of file. Chunks are counted and dropped.

local uv = require "luv"
local participant = require "participant"

participant.serve(function(argv, bytes)
    local args = {}
    for i = 2, #argv do
        args[i - 1] = argv[i]
    end
    local out, err = uv.new_pipe(false), uv.new_pipe(false)
    local pending, got = 3, 0
    local exit_code, exit_signal, failure

    local process, spawn_failure
    process, spawn_failure = uv.spawn(argv[1], { args = args, stdio = { nil, out, err } }, function(code, signal)
        exit_code, exit_signal = code, signal
        process:close()
        pending = pending - 1
    end)
    if not process then
        out:close()
        err:close()
        uv.run() -- luv 1.44 crashes at exit while a close is under way
        error(spawn_failure, 0)
    end
    local function reader(pipe, count)
        return function(read_failure, chunk)
            failure = failure or read_failure
            if chunk then
                if count then
                    got = got + #chunk
                end
            else
                pipe:close()
                pending = pending - 1
            end
        end
    end
    out:read_start(reader(out, true))
    err:read_start(reader(err, false))
    while pending > 0 do
        uv.run "once"
    end
    if failure or exit_code ~= 0 or exit_signal ~= 0 then
        error(failure or string.format("%s: exit code %d, signal %d", argv[1], exit_code, exit_signal), 0)
    end
    return bytes - got
end)
