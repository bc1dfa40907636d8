---@meta chamvi.sandbox.host

-- For LuaLS: what `require "chamvi.sandbox.host"` gives; see types/chamvi/sandbox.lua.

--- Which host the library runs in.
---@class chamvi.sandbox.host
local host = {}

---@class chamvi.Future
---@field done boolean
local Future = {}

--- Has `wake()` called once when the future is done, which it is not yet. `wake` must not yield.
---@param wake fun()
function Future:subscribe(wake) end

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

--- Picks the host. To be called before anything waits or spawns: tasks stay with the host that they began in.
---@param adapter string|chamvi.HostAdapter|nil the name of a host ("luv"), or an adapter; nil: the host is detected
---   again. Anything else raises an InvalidAgentDefinitionError
function host.use(adapter) end

--- The adapter in use: the one that was picked, else that of the host which runs the caller.
---@return chamvi.HostAdapter
function host.current() end

return host
