-- Starts a server of spec/support that runs in Node, and tells where it listens.

local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local node_server = {}

local has_node = os.execute("command -v node >/dev/null 2>&1")

---@type boolean
node_server.available = has_node == true or has_node == 0

---@class spec.NodeServer
---@field folder string the one that was given
---@field ports table<string, integer>
---@field stop fun() removes the folder too

--- Starts `node SCRIPT FOLDER` and waits until it has written `ready` there, lines of "name port". It has to end
--- when its standard input does.
---@param script string
---@param folder string
---@return spec.NodeServer
function node_server.start(script, folder)
    local input = assert(io.popen(("node %s %s"):format(script, folder), "w"))
    local ports
    for _ = 1, 3000 do
        local ready = scratch.read(folder .. "/ready")
        if ready then
            ports = {}
            for name, port in ready:gmatch("(%w+) (%d+)\n") do
                ports[name] = tonumber(port)
            end
            break
        end
        sandbox.sleep(20)
    end
    assert(ports, script .. " does not start")
    return {
        folder = folder,
        ports = ports,
        stop = function()
            input:close()
            scratch.remove(folder)
        end,
    }
end

return node_server
