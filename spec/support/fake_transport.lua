-- A transport in plain Lua that does what a spec tells it, instead of running anything.

local sandbox = require "chamvi.sandbox"

local fake_transport = {}

local RS = "\30"

---@class spec.TransportCall one exec
---@field argv string[]
---@field stdin? string
---@field signal chamvi.Signal
---@field mark string of the wrapper's reports
local Call = {}
Call.__index = Call

--- Writes bytes, in chunks of that many.
function Call:write(stream, bytes, chunk_bytes)
    chunk_bytes = chunk_bytes or math.max(#bytes, 1)
    for from = 1, #bytes, chunk_bytes do
        self[stream]:write(bytes:sub(from, from + chunk_bytes - 1))
    end
end

--- A report as the wrapper writes it.
function Call:report(text)
    return RS .. self.mark .. " " .. text .. RS
end

--- All that a command writes that ends by itself. `note` is what the wrapper's shell says of its end.
function Call:run(stdout, stderr, note, chunk_bytes)
    self:write("stderr", self:report("start 77"), chunk_bytes)
    self:write("stdout", stdout .. self:report("end"), chunk_bytes)
    self:write("stderr", stderr .. self:report("exit " .. note), chunk_bytes)
end

--- A transport whose programs are `exec(call)`, which returns what the transport does. Kills are answered without it.
---@param exec fun(call: spec.TransportCall): ...
---@param others? { alive?: function, remove?: function, kill?: function }
---@return table transport with what was asked of it: `calls`, `kills` (lists of targets), `removals`
function fake_transport.new(exec, others)
    others = others or {}
    local transport = { calls = {}, kills = {}, removals = 0, alive = others.alive }

    function transport:exec(argv, given)
        local mark = argv[3]:match(": (m%x+);")
        if not mark then
            table.insert(self.kills, { select(5, (table.unpack or unpack)(argv)) })
            if others.kill then
                return others.kill(given)
            end
            return { exit_code = 0 }
        end
        local call = setmetatable({
            argv = argv,
            mark = mark,
            stdin = given.stdin,
            stdout = given.stdout,
            stderr = given.stderr,
            signal = given.signal,
        }, Call)
        table.insert(self.calls, call)
        return exec(call)
    end

    function transport:remove()
        self.removals = self.removals + 1
        if others.remove then
            return others.remove(self.removals)
        end
        return true
    end

    return transport
end

--- A remote workspace on such a transport.
---@param exec fun(call: spec.TransportCall): ...
---@param others? table as for `new`
---@return chamvi.Workspace workspace
---@return table transport
function fake_transport.workspace(exec, others)
    local transport = fake_transport.new(exec, others)
    local info = { run_id = "run" }
    return sandbox.create_remote_workspace({ id = sandbox.uuid(), info = info, transport = transport }), transport
end

return fake_transport
