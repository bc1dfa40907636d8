-- What a workspace stands on that is behind a transport.

local constants = require "chamvi.sandbox.constants"
local callback = require "chamvi.sandbox.callback"
local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local file_commands = require "chamvi.sandbox.remote.file_commands"
local is_utf8 = require "chamvi.sandbox.is_utf8"
local native = require "chamvi.sandbox.core"
local report = require "chamvi.sandbox.report"
local rules = require "chamvi.sandbox.rules"
local runs = require "chamvi.sandbox.remote.run"
local task = require "chamvi.sandbox.task"
local transports = require "chamvi.sandbox.remote.transport"
local wrapper = require "chamvi.sandbox.remote.wrapper"

local backends = {}

local FILE_TIMEOUT_MS = 60000 -- for a read or write: more only where the disk itself hangs
local FILE_TRIES = 5 -- while somebody changes what the path leads to
local FILE_WORDS_MAX_BYTES = 8192 -- kept of what the scripts for files say
local KILL_TIMEOUT_MS = 10000

---@class chamvi.RemoteBackend: chamvi.Backend
local Remote = {}
Remote.__index = Remote

---@param id string of the workspace, for messages
---@param transport chamvi.Transport
---@param now fun(): integer
---@return chamvi.RemoteBackend
function backends.new(id, transport, now)
    return setmetatable({
        id = id,
        transport = transport,
        now = now,
        runs = {}, -- those under way, as keys
        closed = false, -- removed, or about to be
    }, Remote)
end

-- Kills process groups in the background.
local function kill(self, targets)
    task.start(function()
        local killed, err = transports.run_quietly(self.transport, wrapper.kill(targets), KILL_TIMEOUT_MS)
        if not killed and not self.closed and err.code ~= "gone" then
            report(("a command of the workspace %s may still run: %s"):format(self.id, err.message))
        end
    end)
end

-- Apart from the wait, as in task.lua.
local function killer(self)
    return function(run)
        kill(self, { run:target() })
    end
end

-- Ends a run by an error, and kills what it started.
local function stop(self, run, err)
    if run:stop(err) then
        kill(self, { run:target() })
    end
end

-- Apart from the wait, as in task.lua.
local function watch_run(self, run, signal)
    self.runs[run] = true
    run.outcome:subscribe(function()
        self.runs[run] = nil
    end)
    return signal and signal:on_abort(function()
        stop(self, run, task.aborted(signal))
    end)
end

-- Runs a command to its outcome.
local function run_command(self, command, signal)
    local run, err = runs.new(command)
    if not run then
        return nil, err
    end
    local forget = watch_run(self, run, signal)
    local outcome
    outcome, err = run:start(self.transport)
    if outcome then
        outcome = task.wait(run.outcome)
    end
    if forget then
        forget()
    end
    return outcome, err
end

local function start_failed(detail)
    local words = detail:match("[^\r\n]+") or "the shell gave no reason"
    return errors.sandbox("start_failed", "the command could not be started: " .. words, { detail = detail })
end

-- The error of a command that nothing began, or whose end the shell around it did not see; nil for all others.
local function exit_error(outcome, stdout, stderr)
    if outcome.refused then
        return start_failed(stderr ~= "" and stderr or stdout) -- an engine may say it on either
    end
    local exit = outcome.exit
    if exit.code and (outcome.started or exit.timed_out or exit.code > 128) then
        return nil
    elseif outcome.started then
        local message = "nobody reported how the command ended: the shell around it was stopped"
        return errors.sandbox("transport_lost", message)
    end
    local detail = exit.words ~= "" and exit.words or stderr -- where the outer shell itself could not fork
    local words = detail:match("[^\n]+") or ""
    if exit.code == 127 or words:find("option") or words:find("[Uu]sage") then
        return errors.sandbox("no_shell", "the image has no GNU timeout, which every command needs: " .. words, {
            detail = detail,
        })
    end
    return start_failed(detail)
end

-- ---- Commands ----------------------------------------------------------------------------------

local function new_output()
    return { collector = native.create_output_collector(constants.OUTPUT_MAX_BYTES), bytes = 0 }
end

local function new_result(outcome, stdout, stderr, duration_ms)
    local exit = outcome.exit
    local signaled = exit.term_signal ~= nil
    return {
        status = exit.timed_out and "timed_out"
            or exit.oom_killed and "oom_killed"
            or signaled and "signaled"
            or "exited",
        exit_code = exit.timed_out and 124 or compat.integer(exit.code),
        term_signal = signaled and compat.integer(exit.term_signal) or nil,
        stdout = stdout.collector:text(),
        stderr = stderr.collector:text(),
        stdout_truncated = stdout.collector.truncated,
        stderr_truncated = stderr.collector.truncated,
        stdout_bytes = stdout.bytes,
        stderr_bytes = stderr.bytes,
        streams_held = outcome.streams_held,
        timed_out = exit.timed_out,
        duration_ms = math.max(0, duration_ms),
    }
end

local function note_partial(err, stdout, stderr)
    err.partial = {
        stdout = stdout.collector:text(),
        stderr = stderr.collector:text(),
        stdout_truncated = stdout.collector.truncated,
        stderr_truncated = stderr.collector.truncated,
    }
end

local function cwd_error(wrong, cwd)
    if wrong == "missing" and cwd == "" then
        return errors.sandbox("cwd_not_found", "the place has no folder " .. constants.WORKSPACE_ROOT
            .. " that can be entered")
    elseif wrong == "missing" then
        return errors.sandbox("cwd_not_found", "the working directory is no folder that can be entered")
    end
    return errors.sandbox("outside_workspace", "the working directory leads out of the workspace by a link")
end

local function new_command(self, request, stdout, stderr)
    local owner = request.on_output and task.owner()
    local function take(name, output)
        return function(bytes, run)
            output.bytes = output.bytes + #bytes
            output.collector:write(bytes)
            if request.on_output and not run.outcome:is_abandoned() then
                local ok, cause = callback.call_for(owner, "on_output", request.on_output, name, bytes)
                if not ok then
                    stop(self, run, task.output_failed(cause))
                end
            end
        end
    end

    return {
        argv = request.argv,
        cwd = request.cwd == "" and constants.WORKSPACE_ROOT or constants.WORKSPACE_ROOT .. "/" .. request.cwd,
        timeout_ms = request.timeout_ms,
        stdin = request.stdin,
        on_stdout = take("stdout", stdout),
        on_stderr = take("stderr", stderr),
        on_overdue = killer(self),
    }
end

function Remote:exec(request)
    local stdout, stderr = new_output(), new_output()
    local began = self.now()
    local outcome, err = run_command(self, new_command(self, request, stdout, stderr), request.signal)
    if not outcome then
        return nil, err
    end

    if outcome.wrong_cwd then
        return nil, cwd_error(outcome.wrong_cwd, request.cwd)
    end
    if outcome.exit or outcome.refused then
        err = exit_error(outcome, stdout.collector:text(), stderr.collector:text())
        if err then
            if err.code == "transport_lost" then
                note_partial(err, stdout, stderr)
            end
            return nil, err
        end
        return new_result(outcome, stdout, stderr, self.now() - began)
    end
    if outcome.lost then
        note_partial(outcome.err, stdout, stderr)
    end
    return nil, outcome.err
end

-- ---- Files -------------------------------------------------------------------------------------

-- Keeps the first bytes.
local function new_buffer(max_bytes)
    local buffer = { chunks = {}, bytes = 0 }
    function buffer.take(bytes)
        bytes = bytes:sub(1, max_bytes - buffer.bytes)
        buffer.bytes = buffer.bytes + #bytes
        table.insert(buffer.chunks, bytes)
    end
    function buffer.text()
        return table.concat(buffer.chunks)
    end
    return buffer
end

-- Runs a script for a file. Returns what it printed.
local function run_script(self, argv, stdin, tries)
    tries = tries or FILE_TRIES
    local stdout = new_buffer(constants.FILE_MAX_BYTES + 1)
    local stderr = new_buffer(FILE_WORDS_MAX_BYTES)
    local outcome, err = run_command(self, {
        argv = argv,
        cwd = "",
        timeout_ms = FILE_TIMEOUT_MS,
        stdin = stdin,
        on_stdout = stdout.take,
        on_stderr = stderr.take,
        on_overdue = killer(self),
    })
    err = outcome and outcome.err or err
    if err then
        return nil, err
    end
    err = exit_error(outcome, stdout.text(), stderr.text())
    if err then
        return nil, err
    end
    if outcome.exit.timed_out then
        local words = ("it took longer than %d ms"):format(FILE_TIMEOUT_MS)
        return nil, errors.sandbox("file_failed", words, { detail = words })
    end
    if file_commands.is_changed(outcome.exit.code) and tries > 1 then
        return run_script(self, argv, stdin, tries - 1)
    end
    if outcome.exit.code ~= 0 then
        return nil, file_commands.error(outcome.exit.code, stderr.text())
    end
    return stdout.text()
end

function Remote:read_file(path)
    local text, err = run_script(self, file_commands.read(path))
    if not text then
        return nil, err
    end
    if #text > constants.FILE_MAX_BYTES then
        return nil, errors.sandbox("file_too_large", "the file is too large")
    end
    if not is_utf8(text) then
        return nil, errors.sandbox("not_utf8", "the file is no UTF-8 text")
    end
    return text
end

function Remote:write_file(path, content)
    local id, err = rules.uuid()
    if not id then
        return nil, err
    end
    local written
    written, err = run_script(self, file_commands.write(path, #content, id), content)
    if not written then
        return nil, err
    end
    return true
end

-- ---- The end -----------------------------------------------------------------------------------

function Remote:is_lost(err)
    if err.code == "gone" then
        return true
    end
    local unknown = err.code == "transport_lost" or err.code == "no_shell"
    return unknown and not self.closed and transports.says_dead(self.transport, constants.ALIVE_PROBE_TIMEOUT_MS)
end

function Remote:remove()
    self.closed = true
    local targets = {}
    for run in pairs(self.runs) do
        if run:stop(errors.sandbox("disposed", "the workspace was disposed")) then
            table.insert(targets, run:target())
        end
    end
    if #targets > 0 then
        kill(self, targets) -- the removal may fail, and later ones too
    end
    return transports.remove(self.transport)
end

return backends
