-- A host program that is killed: makes a workspace whose container lives for 8 s, writes its id to `<folder>/id` and
-- runs a command in it.
--
--   docker_host_program.lua host image folder

local host, image, folder = arg[1], arg[2], arg[3]
local docker = require "chamvi.sandbox.docker"

require("chamvi.sandbox.docker.limits").LATE = 0

local workspace = assert(docker.create_docker_sandbox({
    docker = { host = host },
    image = image,
    limits = { timeout_ms = 8000 },
}):create({ run_id = "spec" }))

local file = assert(io.open(folder .. "/id.new", "w"))
file:write(workspace.id)
file:close()
assert(os.rename(folder .. "/id.new", folder .. "/id"))
workspace:exec({ "sh", "-c", "sleep 600 & sleep 600" })
