-- Which host the library runs in.

local errors = require "chamvi.sandbox.errors"
local loop = require "chamvi.sandbox.loop"

local host = {}

--- What a host has to give: how to wait there, and the functions of the same name in chamvi.sandbox.
---@class chamvi.HostAdapter
---@field wait fun(future: chamvi.Future) returns when `future.done`: yields where the running coroutine is a task of
---   the host, runs the core (`pump` of chamvi.sandbox.loop) where it is not; `future:subscribe(wake)` has `wake`
---   called once when it is done
---@field can_wait fun(): boolean whether `wait` would work here; not where a task can't yield
---@field run fun(fn: function, ...: any): any
---@field spawn fun(fn: function, ...: any): chamvi.Task
---@field all fun(functions: function[]): table[]
---@field sleep fun(ms: integer): true?, chamvi.Error?
---@field async fun(fn: function, done: function)
---@field loop fun(): chamvi.Loop
---@field owner? fun(): table|nil the task that calls, for `owner` of chamvi.sandbox.callback: while
---   its `on_output` is called, what `spawn` starts can join the same `run`
---@field serve? fun() called when an operation begins, maybe with nobody waiting for it: from here on the host's own
---   loop has to run the core until `idle` of chamvi.sandbox.loop says that nothing is under way. Must not wait
---@field forbids_waiting? fun(): string|nil, boolean? what the caller is in, when nothing may wait there, for the
---   message of an error; true: nor can a task be spawned there
---@field guard? fun(ended: fun()): fun() for the task that calls: has `ended()`, which must not wait, called when the
---   host has ended the task, unless the function that it returns was called before
---@field log? fun(line: string) where failures go that nobody waits for; default: stderr

local FUNCTIONS = { "wait", "can_wait", "run", "spawn", "all", "sleep", "async", "loop" }

-- The adapters of the library: chamvi.sandbox.host.<name>
local NAMES = { "script", "luv", "cqueues", "copas", "openresty" }

local function loaded(module)
    return function()
        return package.loaded[module] ~= nil
    end
end

-- nginx's module for HTTP; its other ones are no host.
local function in_nginx()
    local ngx = package.loaded.ngx
    return type(ngx) == "table" and ngx.config ~= nil and ngx.config.subsystem == "http"
end

-- Hosts that are detected, in this order: the name, and whether the program has that host's module at all. Only then
-- is the adapter loaded, and its `running()` tells whether the caller is in that host now.
local DETECTED = {
    { name = "openresty", is_there = in_nginx },
    { name = "cqueues", is_there = loaded("cqueues") },
    { name = "copas", is_there = loaded("copas") },
    { name = "luv", is_there = loaded("luv") }, -- the last, since Neovim's loop always runs
}

local chosen -- by `use`

local function named(wanted)
    for _, name in ipairs(NAMES) do
        if name == wanted then
            return require("chamvi.sandbox.host." .. name)
        end
    end
    errors.raise_definition("invalid_option", "host.use: no such host; there are: " .. table.concat(NAMES, ", "))
end

local function check(adapter)
    for _, name in ipairs(FUNCTIONS) do
        if type(adapter[name]) ~= "function" then
            errors.raise_definition("invalid_option", ('host.use: the adapter has no function "%s"'):format(name))
        end
    end
end

--- Picks the host. To be called before anything waits or spawns: tasks stay with the host that they began in.
---@param adapter string|chamvi.HostAdapter|nil the name of a host ("luv"), or an adapter; nil: the host is detected
---   again. Anything else raises an InvalidAgentDefinitionError
function host.use(adapter)
    if type(adapter) == "string" then
        adapter = named(adapter)
    elseif type(adapter) == "table" then
        check(adapter)
    elseif adapter ~= nil then
        local message = ("host.use: a name or an adapter is expected, got a %s; the names are: %s"):format(
            type(adapter), table.concat(NAMES, ", "))
        errors.raise_definition("invalid_option", message)
    end
    chosen = adapter
end

--- The adapter in use: the one that was picked, else that of the host which runs the caller.
---@return chamvi.HostAdapter
function host.current()
    if chosen then
        return chosen
    end
    for _, candidate in ipairs(DETECTED) do
        if candidate.is_there() then
            local adapter = require("chamvi.sandbox.host." .. candidate.name)
            if adapter.running() then
                return adapter
            end
        end
    end
    return require "chamvi.sandbox.host.script"
end

loop.on_begin(function()
    local adapter = host.current()
    if adapter.serve then
        adapter.serve()
    end
end)

return host
