-- A workspace as users see it, whatever runs its commands: the checks of what its calls are given, and its life.

local errors = require "chamvi.sandbox.errors"
local exec_request = require "chamvi.sandbox.exec_request"
local files = require "chamvi.sandbox.files"
local loop = require "chamvi.sandbox.loop"
local printed = require "chamvi.sandbox.printed"
local report = require "chamvi.sandbox.report"
local task = require "chamvi.sandbox.task"

local workspaces = {}

---@class chamvi.WorkspaceInfo
---@field run_id string
---@field provider string name of the provider that made it
---@field repo? string
---@field ref? string
---@field commit? string what HEAD was after the checkout
---@field created_at integer epoch milliseconds
---@field expires_at integer epoch milliseconds

---@class chamvi.ExecResult
---@field status "exited"|"signaled"|"timed_out"|"oom_killed" the last where the kernel's count of such kills can be
---   read; of commands at the same time it may be another's
---@field exit_code integer as a shell reports it: 127 not found, 126 not executable, 128+n signal n, 124 timeout
---@field term_signal? integer
---@field stdout string UTF-8, at most OUTPUT_MAX_BYTES
---@field stderr string
---@field stdout_truncated boolean
---@field stderr_truncated boolean
---@field stdout_bytes integer all that was printed, kept or not
---@field stderr_bytes integer
---@field streams_held boolean a background job still holds the output
---@field timed_out boolean
---@field duration_ms integer

--- What a workspace stands on. Its calls may wait and get what has been checked. None is begun after `remove`.
---@class chamvi.Backend
---@field exec fun(self: chamvi.Backend, request: chamvi.ExecRequest): chamvi.ExecResult?, chamvi.Error?
---@field read_file fun(self: chamvi.Backend, path: string): string?, chamvi.Error? `path` is relative to the root; the
---   error has a code that files.error knows, or one of its own
---@field write_file fun(self: chamvi.Backend, path: string, content: string): true?, chamvi.Error?
---@field is_lost fun(self: chamvi.Backend, err: chamvi.Error): boolean after a failed call: the workspace is no more
---@field remove fun(self: chamvi.Backend): true?, chamvi.Error? ends the calls under way with `disposed`, kills and
---   deletes all. Runs as a job, one at a time, and again after a failure

---@class chamvi.Workspace
---@field id string a UUID
---@field info chamvi.WorkspaceInfo
---@field disposed boolean true after `dispose`, and once it was found gone
local Workspace = {}
Workspace.__index = Workspace

--- A workspace on its backend.
---@param input { id: string, info: chamvi.WorkspaceInfo, backend: chamvi.Backend }
---@return chamvi.Workspace
function workspaces.new(input)
    return setmetatable({
        id = input.id,
        info = input.info,
        disposed = false,
        _state = {
            backend = input.backend,
            gone = false, -- found gone, before any dispose
            closed = false, -- dispose was called
            removal = nil, -- future of the latest removal
            removed = false,
        },
    }, Workspace)
end

local function check_self(self, method)
    if not rawequal(getmetatable(self), Workspace) then
        error(("bad argument #1 to '%s' (workspace expected, got %s)"):format(method, type(self)), 3)
    end
end

local function check_usable(self)
    local state = self._state
    if state.closed then
        return nil, errors.sandbox("disposed", "the workspace was disposed")
    end
    if state.gone then
        return nil, errors.sandbox("gone", "the workspace is gone: its folder, container or pod no longer exists")
    end
    return true
end

-- What a call has given, after a look at what its failure means.
local function finish(self, value, err)
    if value == nil and self._state.backend:is_lost(err) then
        self._state.gone = true
        self.disposed = true
    end
    return value, err
end

---@class chamvi.ExecOptions
---@field cwd? string relative to the root or under /workspace; default the root
---@field timeout_ms? integer default EXEC_TIMEOUT_MS, clamped to EXEC_TIMEOUT_MAX_MS
---@field stdin? string default: end of file at once
---@field signal? chamvi.Signal aborts the command
---@field on_output? fun(stream: "stdout"|"stderr", chunk: string) gets every raw chunk, beyond the cap too; must
---   not wait; a command that outruns it is slowed down; what it raises aborts the command

--- Runs a command; no shell is involved. Waits until it has ended. A non-zero exit is a result, no error.
---@param argv string[] the program and its arguments, without NUL, each at most 131,071 bytes
---@param given? chamvi.ExecOptions
---@return chamvi.ExecResult|nil
---@return chamvi.Error? err ValidationError for argv, cwd, timeout_ms, stdin; SandboxError `aborted`, `disposed`,
---   `gone`, `cwd_not_found`, `outside_workspace` (a link in cwd leads out), `start_failed`, `no_shell`,
---   `transport_lost` (the outcome is unknown; `err.partial` has the output so far)
function Workspace:exec(argv, given)
    check_self(self, "exec")
    local request, err = exec_request.check(argv, given)
    if not request then
        return nil, err
    end
    task.check_may_wait("exec")
    local usable
    usable, err = check_usable(self)
    if not usable then
        return nil, err
    end
    if request.signal and request.signal.aborted then
        return nil, task.aborted(request.signal)
    end
    return finish(self, self._state.backend:exec(request))
end

-- The path of a file as one relative to the root.
local function file_path(path)
    local relative, err = exec_request.relative_path(path)
    if not relative then
        return nil, err
    end
    local ok
    ok, err = files.check_names_file(path)
    if not ok then
        return nil, err
    end
    return relative
end

--- Reads a whole file. Links are followed as long as they stay inside the workspace.
---@param path string relative to the root or under /workspace
---@return string|nil text valid UTF-8, at most FILE_MAX_BYTES
---@return chamvi.Error? err ValidationError `invalid_path`; SandboxError `file_not_found`, `not_a_file` (folders and
---   all but regular files), `file_too_large`, `not_utf8`, `outside_workspace`, `permission_denied`, `file_failed`,
---   `disposed`, `gone`, `transport_lost`
function Workspace:read_file(path)
    check_self(self, "read_file")
    local relative, err = file_path(path)
    if not relative then
        return nil, err
    end
    task.check_may_wait("read_file")
    local usable, text
    usable, err = check_usable(self)
    if not usable then
        return nil, err
    end
    text, err = finish(self, self._state.backend:read_file(relative))
    if not text then
        return nil, files.error(err, path, false)
    end
    return text
end

--- Writes a whole file in one step: who reads it meanwhile sees the old content or the new one. Makes missing
--- folders (0755). An existing file keeps its mode, a new one gets 0644. Of a link that stays inside the
--- workspace the target is written.
---@param path string relative to the root or under /workspace
---@param content string any bytes, at most FILE_MAX_BYTES
---@return true|nil
---@return chamvi.Error? err ValidationError `invalid_path`, `invalid_input` (content that is no string); SandboxError
---   `file_too_large`, `not_a_file`, `outside_workspace`, `permission_denied`, `no_space`, `file_failed`, `disposed`,
---   `gone`, `transport_lost` (it was written or not)
function Workspace:write_file(path, content)
    check_self(self, "write_file")
    local relative, err = file_path(path)
    if not relative then
        return nil, err
    end
    local ok
    ok, err = files.check_content(path, content)
    if not ok then
        return nil, err
    end
    task.check_may_wait("write_file")
    ok, err = check_usable(self)
    if not ok then
        return nil, err
    end
    ok, err = finish(self, self._state.backend:write_file(relative, content))
    if not ok then
        return nil, files.error(err, path, true)
    end
    return true
end

-- Apart from the wait for it, as in task.lua.
local function start_removal(state)
    state.removal = task.start(function()
        local removed, err = state.backend:remove()
        state.removed = removed
        if not removed then
            return nil, err
        end
        return true
    end)
end

--- Kills everything that the workspace ran and deletes everything that it stored, and waits until that is
--- done. Commands under way end with `disposed`. May be called again, also by several at once; after a
--- failure the next call tries again.
---@return true|nil
---@return chamvi.Error? err
function Workspace:dispose()
    check_self(self, "dispose")
    task.check_may_wait("dispose")
    local usable, unusable = loop.core()
    if not usable then
        return nil, unusable
    end
    local state = self._state
    self.disposed, state.closed = true, true
    if state.removed then
        return true
    end
    if not state.removal or state.removal.done then -- none yet, or it failed
        start_removal(state)
    end
    return task.wait(state.removal)
end

local function close(self)
    local called, disposed, err = pcall(self.dispose, self)
    if not disposed or not called then
        report(("closing the workspace %s failed: %s"):format(self.id, printed(called and err or disposed)))
    end
end

--- The end of a to-be-closed variable in Lua 5.4: disposes the workspace, whoever else uses it. Never raises;
--- failures are reported on stderr. Waits like `dispose`; where nothing may wait, as in `on_output`, the disposal
--- goes on in the background.
function Workspace:__close()
    if task.can_wait() then
        close(self)
    else
        task.start(close, self)
    end
end

return workspaces
