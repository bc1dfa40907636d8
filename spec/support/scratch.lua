-- Folders, files, git repositories and processes for specs, by the shell.

local scratch = {}

--- Runs a shell script and returns what it printed; raises when it fails.
---@param script string
---@return string
function scratch.shell(script)
    local pipe = assert(io.popen("( " .. script .. "\n) 2>&1; echo \"status $?\"", "r"))
    local text = pipe:read("*a")
    pipe:close()
    local output, status = text:match("^(.*)status (%d+)\n$")
    assert(status == "0", ("%s\n%s"):format(script, text))
    return output
end

--- To be put before the command of a program that ends without closing its state: what that held is no leak, which
--- the suite's run with a sanitizer must be told.
scratch.unclosed = "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 "

function scratch.quote(text)
    return "'" .. text:gsub("'", "'\\''") .. "'"
end

--- A new empty folder.
---@return string path
function scratch.folder()
    return (scratch.shell("mktemp -d /tmp/chamvi-lua-spec-XXXXXX"):gsub("\n$", ""))
end

function scratch.remove(path)
    scratch.shell("rm -rf -- " .. scratch.quote(path))
end

---@return string[] names, sorted
function scratch.list(folder)
    local names = {}
    for name in scratch.shell("LC_ALL=C ls -A -- " .. scratch.quote(folder)):gmatch("[^\n]+") do
        table.insert(names, name)
    end
    return names
end

function scratch.write(path, text)
    local file = assert(io.open(path, "wb"))
    assert(file:write(text))
    assert(file:close())
end

---@return string|nil text nil when there is no such file
function scratch.read(path)
    local file = io.open(path, "rb")
    if not file then
        return nil
    end
    local text = file:read("*a")
    file:close()
    return text
end

--- The id of this process.
---@return integer
function scratch.pid()
    return tonumber(scratch.read("/proc/self/stat"):match("^%d+"))
end

---@return boolean
function scratch.is_alive(pid)
    local status = scratch.read(("/proc/%d/stat"):format(pid))
    return status ~= nil and status:match("^%d+ %(.*%) (%a)") ~= "Z"
end

--- Whether a process runs that has the word among its arguments.
---@return boolean
function scratch.is_running(word)
    for _, pid in ipairs(scratch.list("/proc")) do
        local command = pid:match("^%d+$") and scratch.read(("/proc/%s/cmdline"):format(pid))
        if command and ("\0" .. command):find("\0" .. word .. "\0", 1, true) then
            return true
        end
    end
    return false
end

local GIT = "git -c user.name=Spec -c user.email=spec@example.com -c init.defaultBranch=main"
    .. " -c commit.gpgSign=false -c tag.gpgSign=false"

--- A repository with a file `name` that tells them apart: branch `main` (two commits), branch `topic/one`, tags
--- `v1` (plain, on the first commit of main) and `v2` (annotated, on its second).
---@param path string the folder to make
---@return { url: string, first: string, main: string, topic: string }
function scratch.repository(path)
    local ids = scratch.shell(([[
        set -e
        mkdir -p %s; cd %s
        export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1
        commit() { echo "$1" > name; %s add name; %s commit --quiet -m "$1"; git rev-parse HEAD; }
        %s init --quiet
        commit first; git tag v1
        commit second; %s tag -a -m 'version 2' v2
        git checkout --quiet -b topic/one; commit topic
        git checkout --quiet main
    ]]):format(scratch.quote(path), scratch.quote(path), GIT, GIT, GIT, GIT))
    local first, main, topic = ids:match("(%x+)\n(%x+)\n(%x+)\n")
    return { url = "file://" .. path, first = first, main = main, topic = topic }
end

--- A repository without any commit.
---@param path string the folder to make
---@return string url
function scratch.empty_repository(path)
    scratch.shell(("HOME=/nonexistent %s init --quiet --bare %s"):format(GIT, scratch.quote(path)))
    return "file://" .. path
end

return scratch
