-- The shell script around each command of a remote workspace, and what it reports.
--
-- The transport starts `sh`, which enters the working directory and runs GNU `timeout`; that makes a process group, and
-- in it another `sh` becomes the command. So the group's id is the process id of `timeout`, which the inner shell
-- reports ("start"). When `timeout` has ended, the outer shell marks the end of the command's output on stdout ("end")
-- and reports on stderr how that went ("exit"): what the command wrote is ahead of both.
--
-- Only a shell's status tells how a command ended, and it is 128+n for a signal as well as for an exit with that code.
-- `jobs` tells the two apart: "Done(143)" or "Terminated". dash and busybox know that after a `wait`, bash only before
-- it, so there a trapped SIGCHLD interrupts the first `wait` (with 145).
--
-- `timeout` ends with the command. What else of the group has not obeyed its SIGTERM by then is killed later.
--
-- A time-out is told from a command's own 124 and 137 by `timeout -v`, which then says so on its stderr. That is a pipe
-- to the outer shell; the inner one gives the command the real stderr.
--
-- Whether the kernel has killed for want of memory, the container's control group counts: memory.events (v2) or
-- memory.oom_control (v1). Commands that run at the same time share the count.
--
-- A command that has made its output non-blocking leaves the shell a pipe that refuses the last reports while it is
-- full: they are tried again, for a minute, unless nobody reads any more.
--
-- No variable of the environment may be touched, so the scripts' own have a prefix.

local constants = require "chamvi.sandbox.constants"

local wrapper = {}

-- @name@ is filled in. No single quote and no newline here: it stands in single quotes in OUTER, and in the first line
-- of what /proc shows of `timeout`, where a kill finds the mark.
local INNER = table.concat({
    ": @mark@;",
    [[exec 2>&4; printf "\036@mark@ start $PPID\036" >&2;]],
    "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; shift;",
    -- bash has two lines for these; what is not there is left to `exec`.
    'case $1 in */*) if [ -d "$1" ] || { [ -e "$1" ] && [ ! -x "$1" ]; }; then',
    [[printf "%s: permission denied\n" "$1" >&2; exit 126; fi;; esac;]],
    -- dash has no `exec --`, and `env` takes a name with a `=` for a variable.
    'case $1 in -*=*) printf "%s: not found\\n" "$1" >&2; exit 127;; -*) exec env -- "$@";; *) exec "$@";; esac',
}, " ")

local OUTER = [[
exec 3>&1 4>&2 5<&0
trap 'printf "\036@mark@ end\036" >&3; printf "\036@mark@ exit \036" >&4' EXIT
umask 022
case $1 in
'') ;;
@root@) cd -P @root@ || chamvi_cwd=missing ;;
*)
    chamvi_root=$(cd -P @root@ && pwd -P) && cd -P "$1" || chamvi_cwd=missing
    case $(pwd -P)/ in
    "${chamvi_root%/}"/*) ;;
    *) chamvi_cwd=${chamvi_cwd:-outside} ;;
    esac
    ;;
esac 2>/dev/null
if [ -n "${chamvi_cwd-}" ]; then
    trap - EXIT
    printf '\036@mark@ end\036' >&3
    printf '\036@mark@ cwd %s\036' "$chamvi_cwd" >&4
    exit 0
fi
unset OLDPWD
chamvi_count() {
    chamvi_kills=
    while read -r chamvi_key chamvi_value; do
        [ "$chamvi_key" != oom_kill ] || chamvi_kills=$chamvi_value
    done
}
if [ -r /sys/fs/cgroup/memory.events ]; then
    chamvi_events=/sys/fs/cgroup/memory.events
elif [ -r /sys/fs/cgroup/memory/memory.oom_control ]; then
    chamvi_events=/sys/fs/cgroup/memory/memory.oom_control
else
    chamvi_events=/dev/null
fi
chamvi_count <"$chamvi_events"
chamvi_before=$chamvi_kills
chamvi_note=$(
    exec 2>&1
    [ -z "${BASH_VERSION-}" ] || trap : CHLD
    timeout -v -k @kill_after@ @limit@ sh -c '@inner@' sh "$@" <&5 >&3 &
    wait "$!"
    chamvi_code=$?
    if [ -n "${BASH_VERSION-}" ] && [ "$chamvi_code" = 145 ]; then
        while kill -0 "$!" 2>/dev/null; do
            wait "$!"
            chamvi_code=$?
        done
        jobs %1 2>/dev/null && { wait "$!"; chamvi_code=$?; }
    else
        jobs
    fi
    printf '|%s|%s' "$chamvi_code" "$!"
)
case $chamvi_note in
*'timeout: '*'|124|'*)
    { sleep @kill_after@; kill -KILL "-${chamvi_note##*|}"; } </dev/null >/dev/null 2>&1 3>&- 4>&- 5>&- &
    ;;
esac
chamvi_count <"$chamvi_events"
[ "$chamvi_kills" = "$chamvi_before" ] || chamvi_note=${chamvi_note}oom
trap chamvi_left=0 PIPE
trap - EXIT
chamvi_report() {
    chamvi_left=600
    until printf "$@" || [ "$chamvi_left" -le 0 ]; do
        chamvi_left=$((chamvi_left - 1))
        sleep 0.1 || chamvi_left=0
    done
} 2>/dev/null
chamvi_report '\036@mark@ end\036' >&3
chamvi_report '\036@mark@ exit %s\036' "$chamvi_note" >&4
exit 0
]]

local function fill(text, values)
    return (text:gsub("@([%l_]+)@", values))
end

--- What the transport is to run for a command.
---@param mark string letters and digits, not digits alone
---@param command { argv: string[], cwd: string, timeout_ms: integer } `cwd` is absolute, or "" to stay where
---   the transport starts programs
---@return string[]
function wrapper.wrap(mark, command)
    local script = fill(OUTER, {
        mark = mark,
        root = constants.WORKSPACE_ROOT,
        kill_after = constants.TIMEOUT_KILL_AFTER_SECONDS,
        limit = ("%d.%03d"):format(math.floor(command.timeout_ms / 1000), command.timeout_ms % 1000),
        inner = fill(INNER, { mark = mark }),
    })
    local argv = { "sh", "-c", script, "sh", command.cwd }
    for _, argument in ipairs(command.argv) do
        table.insert(argv, argument)
    end
    return argv
end

-- Kills the process groups of commands. Each is named by its id, or by its mark while that is not known; then the
-- command may still be about to start, and is looked for during two seconds.
local KILL = [[
for chamvi_target; do
    case $chamvi_target in
    *[!0-9]*)
        chamvi_left=20
        while [ "$chamvi_left" -gt 0 ]; do
            for chamvi_folder in /proc/[0-9]*; do
                chamvi_line=
                IFS= read -r chamvi_line <"$chamvi_folder/cmdline"
                case $chamvi_line in
                timeout*": $chamvi_target;"*)
                    kill -KILL "-${chamvi_folder#/proc/}" && chamvi_left=0
                    ;;
                esac
            done
            chamvi_left=$((chamvi_left - 1))
            [ "$chamvi_left" -le 0 ] || sleep 0.1 || chamvi_left=0
        done
        ;;
    *) kill -KILL "-$chamvi_target" ;;
    esac
done 2>/dev/null
exit 0
]]

--- What the transport is to run to kill the process groups of commands that it started.
---@param targets string[] group ids from reports, or marks
---@return string[]
function wrapper.kill(targets)
    local argv = { "sh", "-c", KILL, "sh" }
    for _, target in ipairs(targets) do
        table.insert(argv, target)
    end
    return argv
end

--- How a command ended, by the wrapper's "exit" report.
---@class chamvi.WrapperExit
---@field code? integer 0 to 255; nil: the shell could not even start `timeout`
---@field timed_out boolean
---@field term_signal? integer
---@field oom_killed boolean
---@field words string what `timeout` or the shell said, for an error

--- What a report says: "start" and the group's id, "end", "cwd" and what is wrong, "exit" and how.
---@param text string from the filter; a command can have forged it
---@return string|nil what nil when it makes no sense
---@return string|chamvi.WrapperExit|nil value
function wrapper.read(text)
    if text == "end" then
        return "end"
    end
    local group = text:match("^start (%d%d*)$")
    if group then
        -- 0 and 1 would mean the killer's own group, and everybody.
        return #group <= 10 and tonumber(group) > 1 and "start" or nil, group
    end
    local wrong = text:match("^cwd (%l+)$")
    if wrong == "missing" or wrong == "outside" then
        return "cwd", wrong
    end
    local note = text:match("^exit (.*)$")
    if not note then
        return nil
    end
    local words, digits, oom = note:match("^(.*)|(%d%d?%d?)|%d*(%l*)$")
    local code = tonumber(digits)
    if code and code > 255 then
        return nil
    end
    local exit = { code = code, timed_out = false, oom_killed = false, words = words or note }
    if code then
        local _, signals = words:gsub("timeout: ", "") -- that it has sent, SIGTERM and then SIGKILL
        exit.timed_out = (code == 124 or code == 137) and signals > 0
        local state = ("\n" .. words):match("\n%[1%][+%s]*(%S.*)$")
        -- Without a state, as in a shell that is none of the three, the code means what it means to a shell.
        local by_itself = state and state:match("^%S+[ (](%d+)") == digits
        if exit.timed_out then
            -- `timeout` exits with 137 for a command that SIGKILL ended, or dies with it. 124 is for all the others.
            exit.term_signal = code == 137 and (signals > 1 or by_itself) and 9 or nil
        elseif code > 128 and code <= 192 and not by_itself then
            exit.term_signal = code - 128
        end
        -- Its own end, or that of what a shell ran last.
        exit.oom_killed = oom == "oom" and code == 137 and not exit.timed_out
    end
    return "exit", exit
end

return wrapper
