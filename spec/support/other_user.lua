-- Host programs that run as a user who is not root.

local scratch = require "spec.support.scratch"

local other_user = {}

local LUA = jit and "luajit" or "lua5.4"
-- With a /proc that hides nothing, where it can be mounted: some systems hide the processes that a user may not trace.
local WITH_PROC = [[unshare -m sh -c 'mount -t proc -o hidepid=0 proc /proc 2>/dev/null; exec "$@"' sh]]

---@return boolean
function other_user.is_root()
    return scratch.shell("id -u") == "0\n"
end

--- Copies what the programs of a spec need to where the other user may read it: a checkout may be closed to him.
---@param folder string is made, for everybody
---@param files string[] the programs
function other_user.copy(folder, files)
    local core = package.searchpath("chamvi.sandbox.core", package.cpath)
    scratch.shell(("set -e; mkdir %s; cp -rL %s/. %s; cp %s %s; chmod -R a+rX %s"):format(
        folder, scratch.quote(core:match("^(.*)/chamvi/sandbox/core%.so$")), folder, table.concat(files, " "), folder,
        folder))
end

--- The shell's command that runs a copied program as a user, in a folder of his own that it makes. Who is not root
--- runs it as himself.
---@param uid integer
---@param copy string
---@param folder string
---@param program string the name of the copied file
---@return string
function other_user.command(uid, copy, folder, program)
    local as_user = ""
    if other_user.is_root() then
        as_user = ("setpriv --reuid=%d --regid=%d --clear-groups --inh-caps=-all"):format(uid, uid)
        if uid == 0 then
            as_user = ""
        elseif scratch.shell("unshare -m true 2>/dev/null && echo yes || true") == "yes\n" then
            as_user = WITH_PROC .. " " .. as_user
        end
        scratch.shell(("mkdir -m 700 %s; chown %d:%d %s"):format(folder, uid, uid, folder))
    else
        scratch.shell("mkdir -m 700 " .. folder)
    end
    return ("cd / && LUA_PATH='%s/?.lua;%s/?/init.lua' LUA_CPATH='%s/?.so' %s %s %s/%s"):format(
        copy, copy, copy, as_user, LUA, copy, program)
end

return other_user
