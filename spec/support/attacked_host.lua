-- A host program whose commands attack the processes that look after them: a workspace for each attack, all side by
-- side. Prints what came of it as a Lua table: of each attack the outcome of the command that attacked, of one
-- that ran meanwhile (the victim), of calls made after it, and of the disposal.
--
--   attacked_host.lua folder attacker name=script...
--
-- A script finds the supervisor's pid in $S, the guard's in $G and the program `attacker` in $A.

local folder, attacker = arg[1], arg[2]
local sandbox = require "chamvi.sandbox"
local core = require "chamvi.sandbox.core"
local provider = require("chamvi.sandbox.local").create_local_sandbox({
    root = folder .. "/workspaces",
    env = { A = attacker },
})

-- Has the victim go on when an attack is over.
local PREAMBLE = "S=$PPID; read -r _ _ _ G _ </proc/$S/stat; trap ': >attacked' EXIT; %s"
local VICTIM = [[
    echo before; echo $$ >pid; : >ready
    until [ -e attacked ]; do sleep 0.05; done
    echo after; exit 7
]]

local function field(value)
    return type(value) == "string" and ("%q"):format(value) or tostring(value)
end

-- What a call returned, and after how many milliseconds.
local function outcome(call, ...)
    local started = core.monotonic_ms()
    local value, err = call(...)
    local fields = { "ms = " .. core.monotonic_ms() - started }
    if err then
        table.insert(fields, "code = " .. field(err.code))
        table.insert(fields, "message = " .. field(err.message))
    elseif type(value) == "table" then
        for _, name in ipairs({ "status", "exit_code", "term_signal", "stdout", "stderr" }) do
            table.insert(fields, name .. " = " .. field(value[name]))
        end
    else
        table.insert(fields, "value = " .. field(value))
    end
    return "{ " .. table.concat(fields, ", ") .. " }"
end

local function sh(script, options)
    return { "sh", "-c", script }, options
end

local function attack(script)
    local workspace = assert(provider:create({ run_id = "attacked" }))
    local outcomes = { "id = " .. field(workspace.id) }
    local function note(name, ...)
        table.insert(outcomes, name .. " = " .. outcome(...))
    end
    local victim = sandbox.spawn(function()
        note("victim", workspace.exec, workspace, sh(VICTIM, { timeout_ms = 20000 }))
    end)
    for _ = 1, 1000 do
        local file = io.open(("%s/workspaces/%s/ready"):format(folder, workspace.id))
        if file then
            file:close()
            break
        end
        sandbox.sleep(20)
    end
    note("attack", workspace.exec, workspace, sh(PREAMBLE:format(script), { timeout_ms = 60000 }))
    victim:join()
    note("exec", workspace.exec, workspace, sh("echo alive", { timeout_ms = 30000 }))
    note("write", workspace.write_file, workspace, "file", "text")
    note("read", workspace.read_file, workspace, "file")
    note("dispose", workspace.dispose, workspace)
    note("again", workspace.dispose, workspace)
    return "{ " .. table.concat(outcomes, ",\n") .. " }"
end

sandbox.run(function()
    local functions, names = {}, {}
    for index = 3, #arg do
        local script
        names[index - 2], script = arg[index]:match("^([%w_]+)=(.*)$")
        functions[index - 2] = function()
            return attack(script)
        end
    end
    io.write("return {\n")
    for index, packed in ipairs(sandbox.all(functions)) do
        io.write(names[index], " = ", assert(packed[1], packed[2]), ",\n")
    end
    io.write("}\n")
end)
