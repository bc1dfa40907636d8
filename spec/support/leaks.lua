-- Fails a spec that leaves something behind: descriptors, child processes, processes of a workspace,
-- files in the folder of the workspaces, globals.

local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local leaks = {}

-- How many descriptors there are of each kind; numbers and inodes differ from time to time. Listed into a
-- file: of a pipe to `ls` one or both ends would be seen.
local function descriptors()
    local kinds, file = {}, os.tmpname()
    os.execute(("ls -l /proc/%d/fd > %s"):format(scratch.pid(), file))
    local listing = scratch.read(file)
    os.remove(file)
    for target in listing:gmatch("%-> ([^\n]+)") do
        local kind = target:gsub("%[%d+%]$", "")
        kinds[kind] = (kinds[kind] or 0) + 1
    end
    return kinds
end

local function set_of(words)
    local set = {}
    for word in words:gmatch("[^%s]+") do
        set[word] = 1
    end
    return set
end

local function children()
    local pid = scratch.pid()
    return set_of(scratch.read(("/proc/%d/task/%d/children"):format(pid, pid)))
end

-- Processes that have the folder in their environment, as every command has.
local function commands(root)
    return set_of(scratch.shell(("grep -lsaF -- %s /proc/[0-9]*/environ || true"):format(scratch.quote(root .. "/"))))
end

local function files(root)
    local set = {}
    for _, name in ipairs(scratch.list(root)) do
        set[name] = 1
    end
    return set
end

local function globals()
    local set = {}
    for name in pairs(_G) do
        set[tostring(name)] = 1
    end
    return set
end

local function take(root)
    sandbox.loop():pollfd() -- the core's own descriptors, which stay, are there from the first use on
    collectgarbage()
    collectgarbage()
    return {
        descriptors = descriptors(),
        children = children(),
        commands = root and commands(root) or {},
        files = root and files(root) or {},
        globals = globals(),
    }
end

local function compare(before, after)
    local found = {}
    for what, set in pairs(after) do
        for name, count in pairs(set) do
            if count > (before[what][name] or 0) then
                table.insert(found, ("%s: %s"):format(what, name))
            end
        end
    end
    table.sort(found)
    return found
end

--- To be called in a `describe`, with busted's own functions, since a required file does not see them.
---@param before_each function
---@param after_each function
---@param root? string the folder of the workspaces
function leaks.watch(before_each, after_each, root)
    local before
    before_each(function()
        before = take(root)
    end)
    after_each(function()
        local found
        for _ = 1, 500 do -- at most 10 s for what is about to go, such as a process that has been killed
            found = compare(before, take(root))
            if #found == 0 then
                return
            end
            sandbox.sleep(20)
        end
        error("left behind: " .. table.concat(found, ", "))
    end)
end

return leaks
