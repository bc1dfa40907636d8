-- Makes workspaces where this process may not write, and prints a line for each try. To be run as a user who is not
-- root, with a folder of its own.

local folder = arg[1]
local local_sandbox = require "chamvi.sandbox.local"

local function shell(script)
    assert(os.execute(("cd %s && %s"):format(folder, script)))
end

local function provider(name)
    return local_sandbox.create_local_sandbox({ root = folder .. "/" .. name })
end

local function report(what, value, err)
    -- Without the words that name the root.
    print(what .. ": " .. (value and "disposed" or err.code .. " " .. err.message:gsub("^no workspace[^:]*: ", "")))
end

local function create(what, name)
    report(what, provider(name):create({ run_id = "spec" }))
end

shell("mkdir -m 500 parent && mkdir -m 500 closed && mkdir -m 300 unreadable")
create("no root", "parent/root")
create("closed root", "closed")
create("unreadable root", "unreadable")
report("collection", provider("unreadable"):collect_garbage())
create("another's root", "../../usr")
local workspace = assert(provider("open"):create({ run_id = "spec" }))
shell("chmod 500 open")
report("closed under a workspace", workspace:dispose())
shell("chmod 700 open")
report("open again", workspace:dispose())
shell("chmod 700 parent closed unreadable && rmdir open closed unreadable parent")
