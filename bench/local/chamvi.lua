--- chamvi as a participant: ws:exec on a local workspace, inside a task of plain Lua. Unlike the peers it
-- keeps the output (to the cap), so a kept stdout is checked to be whole too.

local sandbox = require "chamvi.sandbox"
local provider = require "chamvi.sandbox.local"
local participant = require "participant"

sandbox.run(function()
    -- The same PATH for every participant: where a program stands in it decides how many lookups fail.
    local ws = assert(provider.create_local_sandbox({
        env = { PATH = os.getenv "PATH" },
    }):create { run_id = "bench" })

    participant.serve(function(argv, bytes)
        local result = assert(ws:exec(argv))
        if result.status ~= "exited" or result.exit_code ~= 0 then
            error(string.format("%s: %s, exit code %s", argv[1], result.status, tostring(result.exit_code)), 0)
        end
        local missing = bytes - result.stdout_bytes
        if bytes <= sandbox.OUTPUT_MAX_BYTES then
            missing = math.max(missing, bytes - #result.stdout)
        end
        return missing
    end)
    assert(ws:dispose())
end)
