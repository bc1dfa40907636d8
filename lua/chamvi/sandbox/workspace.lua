-- A workspace whose commands a supervisor runs, and the checks of what its calls are given.

local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local files = require "chamvi.sandbox.files"
local loop = require "chamvi.sandbox.loop"
local native = require "chamvi.sandbox.core"
local options = require "chamvi.sandbox.options"
local printed = require "chamvi.sandbox.printed"
local report = require "chamvi.sandbox.report"
local task = require "chamvi.sandbox.task"

local workspaces = {}

local ARGUMENT_MAX_BYTES = 131071 -- one string of execve(2) on Linux, without its NUL

-- What a model gives is of any type here: a wrong one is its error and is returned, not raised.
local EXEC_OPTIONS = {
    cwd = options.any,
    timeout_ms = options.any,
    stdin = options.any,
    signal = options.signal,
    on_output = options.callable,
}

local function check_argv(argv)
    local function wrong(...)
        return nil, errors.validation("invalid_argv", string.format(...))
    end

    if type(argv) ~= "table" then
        return wrong("argv must be a list of strings, got a %s", type(argv))
    end
    local keys = 0
    for _ in next, argv do -- pairs would call what the table brings along
        keys = keys + 1
    end
    local copy = {}
    for index = 1, keys do
        local value = rawget(argv, index)
        if value == nil then
            return wrong("argv must be a list without gaps or other keys: element %d is missing", index)
        end
        if type(value) ~= "string" then
            return wrong("argv element %d must be a string, got a %s", index, type(value))
        end
        if value:find("\0", 1, true) then
            return wrong("argv element %d has a NUL byte", index)
        end
        if #value > ARGUMENT_MAX_BYTES then
            return wrong("argv element %d has %d bytes; at most %d are possible: pass it on stdin or in a file",
                index, #value, ARGUMENT_MAX_BYTES)
        end
        copy[index] = value
    end
    if keys == 0 then
        return wrong("argv is empty: its first element must name the program")
    end
    if copy[1] == "" then
        return wrong("argv element 1 is empty: it must name the program")
    end
    return copy
end

-- The path as one relative to the root, "" for the root itself.
local function relative_path(path)
    local absolute, relative, message = native.workspace_path(path)
    if not absolute then
        return nil, errors.validation(relative, message) -- the code in its place
    end
    return relative
end

local function check_timeout(timeout_ms)
    if timeout_ms == nil then
        return constants.EXEC_TIMEOUT_MS
    end
    -- A NaN fails each comparison.
    if type(timeout_ms) ~= "number" or not (timeout_ms >= 1 and timeout_ms % 1 == 0 or timeout_ms == math.huge) then
        return nil, errors.validation("invalid_timeout", "timeout_ms must be a whole number of at least 1")
    end
    return math.min(timeout_ms, constants.EXEC_TIMEOUT_MAX_MS)
end

local function check_stdin(stdin)
    if stdin ~= nil and type(stdin) ~= "string" then
        return nil, errors.validation("invalid_stdin", ("stdin must be a string, got a %s"):format(type(stdin)))
    end
    return true
end

---@class chamvi.ExecRequest
---@field argv string[] a copy
---@field cwd string relative to the root, "" for the root
---@field timeout_ms integer at most EXEC_TIMEOUT_MAX_MS
---@field stdin? string
---@field signal? chamvi.Signal
---@field on_output? function

--- Checks what `exec` was given. Wrong options raise; a model's wrong input is returned as ValidationError.
---@param argv any
---@param given any
---@return chamvi.ExecRequest|nil
---@return chamvi.Error? err
local function check_exec(argv, given)
    local request = options.check("exec", given, EXEC_OPTIONS)
    local ok, err
    request.argv, err = check_argv(argv)
    if not request.argv then
        return nil, err
    end
    request.cwd, err = relative_path(request.cwd == nil and "." or request.cwd)
    if not request.cwd then
        return nil, err
    end
    request.timeout_ms, err = check_timeout(request.timeout_ms)
    if not request.timeout_ms then
        return nil, err
    end
    ok, err = check_stdin(request.stdin)
    if not ok then
        return nil, err
    end
    return request
end

---@class chamvi.WorkspaceInfo
---@field run_id string
---@field provider string name of the provider that made it
---@field repo? string
---@field ref? string
---@field commit? string what HEAD was after the checkout
---@field created_at integer epoch milliseconds
---@field expires_at integer epoch milliseconds

---@class chamvi.ExecResult
---@field status "exited"|"signaled"|"timed_out"
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

---@class chamvi.Workspace
---@field id string a UUID
---@field info chamvi.WorkspaceInfo
---@field disposed boolean true after `dispose`, and once it was found gone
local Workspace = {}
Workspace.__index = Workspace

--- A workspace on a running supervisor.
---@param input { id: string, info: chamvi.WorkspaceInfo, handle: integer, remove: fun(): true?, chamvi.Error? }
---   `handle` from core:launch; `remove` ends the supervisor and deletes all: it runs as a job, one at a time,
---   and again after a failure
---@return chamvi.Workspace
function workspaces.new(input)
    return setmetatable({
        id = input.id,
        info = input.info,
        disposed = false,
        _state = {
            handle = input.handle,
            remove = input.remove,
            gone = false, -- found gone, before any dispose
            closed = false, -- dispose was called
            removal = nil, -- future of the latest removal
            removed = false,
            unkilled = false, -- the error of a removal that left processes alive
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
        return nil, errors.sandbox("gone", "the workspace is gone: its folder or its supervisor no longer exists")
    end
    return true
end

-- The core, for a call on a workspace that still is one.
local function usable_core(self)
    local usable, err = check_usable(self)
    if not usable then
        return nil, err
    end
    return loop.core()
end

local function mark_gone(self)
    self._state.gone = true
    self.disposed = true
end

-- A call failed: does that tell that the workspace is no more?
local function note_loss(self, err)
    local core = loop.core()
    if err.code == "gone" or err.code == "transport_lost" and core and core:lost(self._state.handle) then
        mark_gone(self)
    end
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
---   `gone`, `cwd_not_found`, `transport_lost` (the outcome is unknown; `err.partial` has the output so far)
function Workspace:exec(argv, given)
    check_self(self, "exec")
    local request, err = check_exec(argv, given)
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

    local core
    core, err = loop.core()
    if not core then
        return nil, err
    end
    local handle = self._state.handle
    local result
    result, err = task.complete(
        request,
        core:exec(
            handle,
            request.argv,
            request.cwd,
            request.timeout_ms,
            constants.OUTPUT_MAX_BYTES,
            request.stdin,
            request.on_output ~= nil
        )
    )
    if result then
        return result
    end
    note_loss(self, err)
    return nil, err
end

-- The path of a file as one relative to the root.
local function file_path(path)
    local relative, err = relative_path(path)
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
    local core
    core, err = usable_core(self)
    if not core then
        return nil, err
    end
    local text
    text, err = task.complete(nil, core:read_file(self._state.handle, relative, constants.FILE_MAX_BYTES))
    if text then
        return text
    end
    note_loss(self, err)
    return nil, files.error(err, path, false)
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
    local core
    core, err = usable_core(self)
    if not core then
        return nil, err
    end
    ok, err = task.complete(nil, core:write_file(self._state.handle, relative, content))
    if ok then
        return true
    end
    note_loss(self, err)
    return nil, files.error(err, path, true)
end

--- Kills everything that the workspace ran and deletes everything that it stored, and waits until that is
--- done. Commands under way end with `disposed`. May be called again, also by several at once; after a
--- failure the next call tries again.
---@return true|nil
---@return chamvi.Error? err
function Workspace:dispose()
    check_self(self, "dispose")
    task.check_may_wait("dispose")
    local core, unusable = loop.core()
    if not core then
        return nil, unusable
    end
    local state = self._state
    self.disposed, state.closed = true, true
    if state.removed then
        return true
    end
    if not state.removal or state.removal.done then -- none yet, or it failed
        state.removal = task.start(function()
            local removed, err = state.remove()
            -- What could not be killed is nobody's child any more: no later removal can tell that it has ended.
            state.unkilled = state.unkilled or not removed and err.code == "kill_failed" and err
            state.removed = removed and not state.unkilled
            if not state.removed then
                return nil, state.unkilled or err
            end
            return true
        end)
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
