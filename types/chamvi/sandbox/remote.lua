---@meta chamvi.sandbox.remote

-- For LuaLS: what `create_remote_workspace` of chamvi.sandbox is given; see types/chamvi/sandbox.lua.

---@class chamvi.RemoteOptions
---@field id string a UUID
---@field info chamvi.WorkspaceInfo belongs to the provider, which sets `commit` after the checkout
---@field transport chamvi.Transport
---@field clock? chamvi.Clock for `duration_ms`, never for a time limit; default: the system's

---@class chamvi.OutputSink
---@field write fun(self: chamvi.OutputSink, chunk: string) must be given every chunk as it arrives; never waits

---@class chamvi.TransportExec
---@field stdin? string the whole standard input; none: end of file at once
---@field stdout chamvi.OutputSink
---@field stderr chamvi.OutputSink
---@field signal chamvi.Signal fires when the workspace is done with the program: stop waiting and detach

---@class chamvi.TransportResult
---@field exit_code integer 127: the program could not be started

--- Runs programs in one container, pod or other place. Its functions are called in jobs of the library: they may wait,
--- by what the library offers. What they raise counts as a failure, and so does an answer that is none of these.
---@class chamvi.Transport
---@field exec fun(self: chamvi.Transport, argv: string[], given: chamvi.TransportExec): chamvi.TransportResult?, any
---   runs a program and returns when it has ended and all of its output is written; or nil and an error
---@field alive? fun(self: chamvi.Transport, signal: chamvi.Signal): boolean?, any asked after a failed exec: only false
---   means that the place is no more. The signal fires after ALIVE_PROBE_TIMEOUT_MS
---@field remove fun(self: chamvi.Transport): true?, any ends what runs there and deletes the place; or nil and an
---   error, then it is called again when the workspace is disposed again. A place that is no more is fine
return {}
