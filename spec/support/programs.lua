-- Programs that specs start.

local scratch = require "spec.support.scratch"

local programs = {}

programs.LUA = jit and "luajit" or "lua5.4"

--- Compiles a C program of one file.
---@param source string
---@param folder string where the program goes
---@param flags? string
---@return string program
function programs.compile(source, folder, flags)
    local program = folder .. "/" .. source:match("([^/]+)%.c$")
    scratch.shell(("cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror %s -o %s %s"):format(flags or "", program, source))
    return program
end

--- Runs a program of spec/support as a user who is not root, with `folder`, which it may write into, as its first
--- argument. Who is not root runs it as himself.
---@param uid integer
---@param file string the program's
---@param folder string
---@param given? { arguments?: string, before?: string } for the shell; `before` stands before the whole command
---@return string|nil printed nil where setpriv is missing
function programs.run_as(uid, file, folder, given)
    local as_user = ""
    if scratch.shell("id -u") == "0\n" then
        if scratch.shell("command -v setpriv || true") == "" then
            return nil
        end
        as_user = ("setpriv --reuid=%d --regid=%d --clear-groups --inh-caps=-all"):format(uid, uid)
    end
    -- The checkout may be closed to the other user, so everything that runs is copied.
    local copy = scratch.folder()
    local core = package.searchpath("chamvi.sandbox.core", package.cpath)
    local printed = scratch.shell(([[
        set -e
        cp -rL %s/. %s; cp spec/support/%s %s/program.lua; chmod -R a+rX %s; chmod 777 %s
        cd /; export LUA_PATH='%s/?.lua;%s/?/init.lua' LUA_CPATH='%s/?.so'
        %s %s %s %s/program.lua %s %s
    ]]):format(scratch.quote(core:match("^(.*)/chamvi/sandbox/core%.so$")), copy, file, copy, copy, folder, copy,
        copy, copy, given and given.before or "", as_user, programs.LUA, copy, folder,
        given and given.arguments or ""))
    scratch.remove(copy)
    return printed
end

return programs
