-- One command on a transport, from the start to the first of: it has ended and its output is there, the transport
-- failed, the time is over, somebody stops it.

local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local filters = require "chamvi.sandbox.remote.filter"
local native = require "chamvi.sandbox.core"
local rules = require "chamvi.sandbox.rules"
local signals = require "chamvi.sandbox.signal"
local task = require "chamvi.sandbox.task"
local timer = require "chamvi.sandbox.timer"
local transports = require "chamvi.sandbox.remote.transport"
local wrapper = require "chamvi.sandbox.remote.wrapper"

local runs = {}

-- After a command's own exit, how long to wait for the transport's end: a background job may hold the output. Less than
-- the 2 s after which Docker ends the stream of such a command by itself.
local HELD_OUTPUT_MS = 1500

-- Of all arguments together: Linux takes fewer, whatever its limits (since 4.13: bprm_stack_limits in fs/exec.c).
local ARGV_MAX_BYTES = 6291456

-- How a place ends, with words, that could not start the first shell: it has no process left, or the arguments are too
-- long together. That shell itself ends with 0 once it has reported, and else with 2 or more than 128, by an error or a
-- signal: then its reports may be lost, and the command may have run.
local REFUSED = { [1] = true, [126] = true }

---@class chamvi.RemoteCommand
---@field argv string[]
---@field cwd string absolute, "" for none
---@field timeout_ms integer
---@field stdin? string
---@field on_stdout fun(bytes: string, run: chamvi.RemoteRun) must not wait
---@field on_stderr fun(bytes: string, run: chamvi.RemoteRun)
---@field on_overdue fun(run: chamvi.RemoteRun) the guard has stopped the run; what it ran may still be there

--- What a run came to: one of `exit`, `refused`, `wrong_cwd` and `err`.
---@class chamvi.RemoteOutcome
---@field exit? chamvi.WrapperExit
---@field refused? boolean the place did not even start the first shell; the output says why
---@field wrong_cwd? "missing"|"outside"
---@field err? chamvi.Error
---@field lost? boolean with `err`: nobody reported how the command ended
---@field started boolean the command's process group was there
---@field streams_held boolean

---@class chamvi.RemoteRun
---@field outcome chamvi.Future of a chamvi.RemoteOutcome
local Run = {}
Run.__index = Run

-- Settles the run; only the first time counts.
local function settle(self, outcome)
    if self.settled then
        return
    end
    for _, filter in pairs(self.filters) do
        filter:finish()
    end
    if self.settled then -- by what the last bytes were given to
        return
    end
    self.settled = true
    for _, cancel in pairs(self.timers) do
        cancel()
    end
    if not self.returned then
        self.signal:abort("the workspace is done with the exec")
    end
    outcome.started = self.group ~= nil
    outcome.streams_held = outcome.streams_held or false
    self.outcome:set(outcome)
end

local function is_complete(self)
    return (self.exit or self.wrong_cwd) and self.output_ended
end

local function settle_complete(self, streams_held)
    settle(self, { exit = self.exit, wrong_cwd = self.wrong_cwd, streams_held = streams_held })
end

-- Has settle called when the transport does not end by itself.
local function await_end(self)
    if not is_complete(self) or self.complete_at then
        return
    end
    self.complete_at = native.monotonic_ms()
    self.timers.held = timer(HELD_OUTPUT_MS, function()
        settle_complete(self, true)
    end)
end

local function note_report(self, text)
    local what, value = wrapper.read(text)
    if not what then
        return -- made up by the command
    end
    self.reported = true
    if what == "start" then
        self.group = self.group or value
    elseif what == "end" then
        self.output_ended = true
    elseif not self.exit and not self.wrong_cwd then
        self.exit = what == "exit" and value or nil
        self.wrong_cwd = what == "cwd" and value or nil
    end
    await_end(self)
end

-- The transport has returned, and with it the last byte.
local function note_return(self, code, err)
    self.returned = true
    if self.settled then
        return
    end
    if is_complete(self) then
        -- On a busy machine this may be seen before the timer.
        settle_complete(self, native.monotonic_ms() - self.complete_at >= HELD_OUTPUT_MS)
        return
    end
    if REFUSED[code] and not self.reported and self.has_words then
        settle(self, { refused = true })
        return
    elseif code == 127 and not self.reported then
        err = errors.sandbox("no_shell", "the image has no sh, which every command needs")
    elseif code then
        local missing = self.exit and "the command's output is not complete" or "nobody reported how the command ended"
        err = errors.sandbox("transport_lost", ("%s; the transport says exit code %s"):format(missing, code))
    end
    settle(self, { err = err, lost = true })
end

local function new_sink(self, filter)
    return {
        write = function(_, chunk)
            if type(chunk) ~= "string" then
                error(("bad argument #1 to 'write' (string expected, got %s)"):format(type(chunk)), 2)
            end
            if not self.settled then
                filter:write(chunk)
            end
        end,
    }
end

-- Bytes go on until the run is settled, also within a chunk.
local function until_settled(self, take)
    return function(bytes)
        if not self.settled then
            self.has_words = true
            take(bytes, self)
        end
    end
end

--- A run that has not begun.
---@param command chamvi.RemoteCommand
---@return chamvi.RemoteRun|nil
---@return chamvi.Error? err `start_failed` for arguments that are too long; or the system gives no random bytes
function runs.new(command)
    if #table.concat(command.argv) > ARGV_MAX_BYTES then
        return nil, errors.sandbox("start_failed", ("the command could not be started: its arguments have more than "
            .. "%d bytes together"):format(ARGV_MAX_BYTES))
    end
    local id, err = rules.uuid()
    if not id then
        return nil, err
    end
    local self = setmetatable({
        command = command,
        mark = "m" .. id:gsub("-", ""),
        outcome = task.future(),
        signal = signals.new(), -- the transport's
        timers = {}, -- functions that cancel them
        group = nil, -- the id of the command's process group
        reported = false, -- anything
        has_words = false, -- there was output other than reports
        exit = nil,
        wrong_cwd = nil,
        output_ended = false,
        complete_at = nil, -- by the monotonic clock
        returned = false, -- the transport has
        settled = false,
    }, Run)
    local function on_report(text)
        note_report(self, text)
    end
    self.filters = {
        stdout = filters.new(self.mark, until_settled(self, command.on_stdout), on_report),
        stderr = filters.new(self.mark, until_settled(self, command.on_stderr), on_report),
    }
    return self
end

--- Begins. A transport that blocks has the run end in here.
---@param transport chamvi.Transport
---@return true|nil
---@return chamvi.Error? err the core can't be used
function Run:start(transport)
    local command = self.command
    local err
    self.timers.guard, err = timer(command.timeout_ms + constants.EXEC_GRACE_MS, function()
        local missing = self.exit and "the command's output did not arrive" or "nobody reported how the command ended"
        local message = ("%s within its time limit and %d ms"):format(missing, constants.EXEC_GRACE_MS)
        settle(self, { err = errors.sandbox("transport_lost", message), lost = true })
        command.on_overdue(self)
    end)
    if not self.timers.guard then
        return nil, err
    end
    task.start(function()
        note_return(self, transports.exec(transport, wrapper.wrap(self.mark, command), {
            stdin = command.stdin,
            stdout = new_sink(self, self.filters.stdout),
            stderr = new_sink(self, self.filters.stderr),
            signal = self.signal,
        }))
    end)
    return true
end

--- Ends the run with an error, unless it has ended. Does not wait. What it started is not killed.
---@param err chamvi.Error
---@return boolean stopped it was under way
function Run:stop(err)
    local stopped = not self.settled
    settle(self, { err = err })
    return stopped
end

--- What a kill needs to find the command.
---@return string target the id of its process group, or its mark
function Run:target()
    return self.group or self.mark
end

return runs
