-- A whole life of a workspace, for an installed library: prints a line, or the error that kept it from being created.
-- Its argument is the root of the workspaces.

local sandbox = require "chamvi.sandbox"
local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = arg[1] })

sandbox.run(function()
    local workspace, err = provider:create({ run_id = "installed" })
    if not workspace then
        print(err)
        return
    end
    assert(workspace:write_file("src/name", "from a file"))
    local result = assert(workspace:exec({ "sh", "-c", "cat src/name; mv src/name name; exit 3" }))
    print(("%s, exit code %d, %s"):format(result.stdout, result.exit_code, assert(workspace:read_file("name"))))
    assert(workspace:dispose())
end)
