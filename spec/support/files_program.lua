-- Reads and writes files that this process may not use, and prints a line `name code` for each. To be run as a
-- user who is not root, with a folder of its own.

local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = arg[1] .. "/workspaces" })
local workspace = assert(provider:create({ run_id = "files" }))

local function report(name, value, err)
    print(name, value and "ok" or err.name .. " " .. err.code)
end

assert(workspace:exec({
    "sh",
    "-c",
    [[
        mkdir shut open_shut closed; echo old > secret; echo old > closed/f; echo old > open_shut/f
        echo old > read_only
        chmod 000 secret shut; chmod 555 closed; chmod 666 open_shut; chmod 444 read_only
    ]],
}))
report("secret", workspace:read_file("secret"))
report("shut/f", workspace:read_file("shut/f"))
report("open_shut/f", workspace:read_file("open_shut/f"))
report("closed/f", workspace:read_file("closed/f"))
report("closed/f written", workspace:write_file("closed/f", "new"))
report("closed/new written", workspace:write_file("closed/new", "new"))
report("closed/new/f written", workspace:write_file("closed/new/f", "new"))
report("shut/f written", workspace:write_file("shut/f", "new"))
report("secret written", workspace:write_file("secret", "new"))
report("read_only written", workspace:write_file("read_only", "new"))
io.write(assert(workspace:exec({ "stat", "-c", "%n %a", "secret", "read_only" })).stdout)
assert(workspace:dispose())
