-- Files of a remote workspace, read and written by shell scripts in it.
--
-- Links are resolved by `readlink -m` and the result is compared with the root. A read then looks again at what it has
-- opened, and a write enters one folder after the other and looks each time where it is, so that links that are swapped
-- meanwhile don't lead out. A write fills a new file in the target's folder and renames it.

local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"

local file_commands = {}

-- What the scripts exit with, and CHANGED. Anything else but 0 is explained by the last words on stderr.
local CHANGED = 43
local CODES = { [40] = "not_a_file", [41] = "outside_workspace", [42] = "transport_lost" }

-- A result that is a link is a circle, unless it was changed meanwhile. What is wrong is said by programs: shells don't
-- give the system's own words.
local RESOLVE = [[
LC_ALL=C
export LC_ALL
root=$(readlink -mv @root@) && file=$(readlink -mv -- "$1" && printf .) || exit 1
file=${file%??}
case $file in
"$root") exit 40 ;;
"$root"/*) ;;
*) exit 41 ;;
esac
if [ -L "$file" ]; then
    head -c 0 -- "$file" || exit 1
    exit 43
fi
]]

local READ = RESOLVE .. [[
if [ ! -e "$file" ]; then
    head -c 0 -- "$file" || exit 1
    exit 43
fi
[ -f "$file" ] || exit 40
{
    case $(readlink /proc/self/fd/0) in
    "$root"/*) ;;
    *) exit 41 ;;
    esac
    [ -f /proc/self/fd/0 ] || exit 40
    exec head -c "$2"
} <"$file"
exit 1
]]

-- `mkdir -p` is fine with a folder that somebody has made meanwhile, `set -C` opens with O_EXCL, `mv -T` does not enter
-- a folder that has come there.
local WRITE = RESOLVE .. [[
umask 022
[ ! -e "$file" ] || [ -f "$file" ] || exit 40
enter() {
    cd -P "$1" 2>/dev/null || {
        ls -d -- "$1/." >/dev/null
        exit 1
    }
}
enter "$root"
rest=${file#"$root"/}
while :; do
    case $rest in */*) ;; *) break ;; esac
    folder=./${rest%%/*}
    rest=${rest#*/}
    mkdir -p -- "$folder" || exit 1
    enter "$folder"
    case $(pwd -P)/ in
    "$root"/*) ;;
    *) exit 41 ;;
    esac
done
name=./${file##*/}
new=./$3
trap 'rm -f -- "$new"' EXIT
trap 'exit 1' HUP INT TERM
( umask 077; set -C; cat >"$new" ) || exit 1
[ "$(wc -c <"$new")" -eq "$2" ] || exit 42
if [ -f "$name" ]; then
    chown --reference="$name" -- "$new" 2>/dev/null
    chmod --reference="$name" -- "$new" || exit 1
else
    chmod 644 -- "$new" || exit 1
fi
mv -fT -- "$new" "$name" || exit 1
trap - EXIT
]]

local function script(text)
    return (text:gsub("@root@", constants.WORKSPACE_ROOT))
end

local function absolute(path)
    return path == "" and constants.WORKSPACE_ROOT or constants.WORKSPACE_ROOT .. "/" .. path
end

--- The argv that prints a file, and one byte more than is allowed where it is too large.
---@param path string relative to the root
---@return string[]
function file_commands.read(path)
    return { "sh", "-c", script(READ), "sh", absolute(path), tostring(constants.FILE_MAX_BYTES + 1) }
end

--- The argv that writes its standard input.
---@param path string relative to the root
---@param bytes integer how many there will be: with fewer nothing is written
---@param id string that no other write has
---@return string[]
function file_commands.write(path, bytes, id)
    return { "sh", "-c", script(WRITE), "sh", absolute(path), tostring(bytes), ".chamvi-" .. id }
end

-- By the words of glibc, musl and shells for errno, at the end of a message.
local WORDS = {
    ["No such file or directory"] = "file_not_found",
    ["No such file"] = "file_not_found", -- dash, for a read
    ["Directory nonexistent"] = "file_not_found", -- dash, for a write
    ["nonexistent directory"] = "file_not_found", -- busybox
    ["Is a directory"] = "not_a_file",
    ["Not a directory"] = "not_a_file",
    ["File exists"] = "not_a_file", -- `mkdir -p`, about what is no folder
    ["No such device or address"] = "not_a_file",
    ["Permission denied"] = "permission_denied",
    ["Operation not permitted"] = "permission_denied",
    ["Read-only file system"] = "permission_denied",
    ["No space left on device"] = "no_space",
    ["Disk quota exceeded"] = "no_space",
    ["Quota exceeded"] = "no_space",
    ["File name too long"] = "invalid_path",
    ["Filename too long"] = "invalid_path",
}

--- Whether a script found something else than the moment before, and is to be run again.
---@param exit_code integer
---@return boolean
function file_commands.is_changed(exit_code)
    return exit_code == CHANGED
end

--- The error of a script that has ended, but not well.
---@param exit_code integer
---@param stderr string
---@return chamvi.Error err with a code that files.error knows, or transport_lost
function file_commands.error(exit_code, stderr)
    local line = ("\n" .. stderr:gsub("\n$", "")):match("^.*\n(.*)")
    local code = CODES[exit_code] or WORDS[line:match(": ([^:]*)$")] or "file_failed"
    if code == "transport_lost" then
        return errors.sandbox(code, "the transport did not deliver the whole content; the file is as it was")
    end
    local words = line ~= "" and line
        or exit_code == CHANGED and "what the path leads to is changed all the time"
        or "the workspace's shell ended with exit code " .. exit_code
    return errors.sandbox(code, words, { detail = words })
end

return file_commands
