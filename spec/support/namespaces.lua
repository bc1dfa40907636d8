-- Remote workspaces in Linux namespaces of this machine: real containers without an image, for specs. A local
-- workspace of root's holds each of them: it runs the first process of the namespaces, and `nsenter` for each program.

local clocks = require "chamvi.sandbox.clock"
local compat = require "chamvi.sandbox.compat"
local errors = require "chamvi.sandbox.errors"
local local_sandbox = require "chamvi.sandbox.local"
local options = require "chamvi.sandbox.options"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"
local task = require "chamvi.sandbox.task"

local namespaces = {}

local USER = "1000"

-- In namespaces of its own: what this machine has, and /workspace. Its first process reaps the others.
local FIRST = [[
set -e
here=$1
mount -t tmpfs none "$here/root"
for entry in /*; do
    name=${entry#/}
    case $name in proc | workspace) continue ;; esac
    if [ -L "$entry" ]; then
        ln -s "$(readlink "$entry")" "$here/root/$name"
    elif [ -d "$entry" ]; then
        mkdir "$here/root/$name"
        mount --rbind "$entry" "$here/root/$name"
    fi
done
mkdir "$here/root/workspace" "$here/root/proc"
mount --bind "$here/volume" "$here/root/workspace"
mount -t proc proc "$here/root/proc"
if [ -n "$2" ]; then
    cp "$2" "$here/shell"
    mount --bind "$here/shell" "$here/root$(readlink -f /bin/sh)"
fi
exec chroot "$here/root" sh -c ': >"$1"; while :; do sleep 3600 & wait; done' sh "$here/ready"
]]

-- Prints the process id of the first one.
local START = [[
set -e
mkdir volume root
chown "$1:$1" volume
unshare --mount --pid --fork --kill-child sh -c "$2" sh "$PWD" "$3" >log 2>&1 </dev/null &
until [ -e ready ]; do
    kill -0 $! 2>/dev/null || { cat log >&2; exit 1; }
    sleep 0.01
done
cat "/proc/$!/task/$!/children"
]]

--- Why there can be none here, or nil.
---@return string?
function namespaces.missing()
    if scratch.shell("id -u") ~= "0\n" then
        return "only root makes namespaces with mounts"
    end
    if not os.execute("unshare --mount --pid --fork true 2>/dev/null") then
        return "this system lets nobody make namespaces with mounts"
    end
    return nil
end

local Transport = {}
Transport.__index = Transport

-- Of a process that ends already, as in its seventh word after its name: PF_EXITING (include/linux/sched.h).
local EXITING = 0x4

-- The first one kills the others before it is a zombie: who sees their end must not see it alive.
local function is_running(self)
    local stat = scratch.read(("/proc/%d/stat"):format(self.first))
    local state, flags = (stat or ""):match("^%d+ %(.*%) (%a)" .. (" %-?%d+"):rep(5) .. " (%d+)")
    return state ~= nil and state ~= "Z" and math.floor(tonumber(flags) / EXITING) % 2 == 0
end

function Transport:exec(argv, given)
    local command = { "nsenter", "-t", self.first, "-m", "-p", "-r", "-w" }
    local enter = ("setsid setpriv --clear-groups --reuid %s --regid %s env -i"):format(USER, USER)
    for argument in enter:gmatch("%S+") do
        table.insert(command, argument)
    end
    for name, value in pairs(self.env) do
        table.insert(command, name .. "=" .. value)
    end
    for _, argument in ipairs(argv) do
        table.insert(command, argument)
    end
    local result, err = self.place:exec(command, {
        stdin = given.stdin,
        timeout_ms = sandbox.EXEC_TIMEOUT_MAX_MS,
        signal = given.signal,
        on_output = function(stream, chunk)
            given[stream]:write(chunk)
        end,
    })
    if not result then
        return nil, err
    end
    if not is_running(self) then
        return nil, "the container is not running"
    end
    -- As an engine's stream: it ends with the last who holds it.
    if result.streams_held and not given.signal.aborted then
        local aborted = task.future()
        given.signal:on_abort(function()
            aborted:set()
        end)
        task.wait(aborted)
    end
    return { exit_code = result.exit_code }
end

function Transport:alive()
    return is_running(self)
end

function Transport:remove()
    local removed, err = self.place:dispose()
    if removed then
        self.live[self.place.id] = nil
    end
    return removed, err
end

local PROVIDER_OPTIONS = { clock = options.clock, limits = options.limits, env = options.env, shell = options.string }
local CREATE_OPTIONS = {
    run_id = options.string,
    repo = options.any,
    ref = options.any,
    image = options.string,
    env = options.env,
    limits = options.limits,
    signal = options.signal,
}

local function environment(...)
    local env = { PATH = "/usr/local/bin:/usr/bin:/bin", LANG = "C.UTF-8" }
    for _, layer in ipairs({ sandbox.SANDBOX_ENV, ... }) do
        for name, value in pairs(layer) do
            env[name] = value
        end
    end
    return env
end

-- Makes the container; what fails leaves nothing.
local function start(state, given, request)
    local place, err = state.places:create({ run_id = request.run_id, signal = request.signal })
    if not place then
        return nil, err
    end
    local started
    started, err = place:exec({ "sh", "-c", START, "sh", USER, FIRST, given.shell or "" }, { signal = request.signal })
    if started and started.exit_code == 0 then
        state.live[place.id] = true
        return setmetatable({
            place = place,
            first = started.stdout:match("%d+"),
            live = state.live,
            env = environment(given.env or {}, request.env or {}),
        }, Transport)
    end
    assert(place:dispose())
    return nil, err or errors.sandbox("create_failed", started.stderr)
end

local function create(state, given, now, request)
    local signal = request.signal
    if signal and signal.aborted then
        return nil, task.aborted(signal)
    end
    local repo = request.repo
    if repo ~= nil then
        local refused
        repo, refused = sandbox.normalize_repo(repo, { allow_file_repos = true })
        if not repo then
            return nil, refused
        end
    end
    local transport, err = start(state, given, request)
    if not transport then
        return nil, err
    end
    local created_at = now()
    local workspace = sandbox.create_remote_workspace({
        id = transport.place.id,
        transport = transport,
        clock = given.clock,
        info = {
            run_id = request.run_id,
            provider = "namespaces",
            repo = repo,
            ref = request.ref,
            created_at = created_at,
            expires_at = created_at
                + compat.integer(sandbox.resolve_limits(given.limits, request.limits).timeout_ms),
        },
    })
    local prepared
    prepared, err = sandbox.prepare_workspace(workspace, { repo = repo, ref = request.ref, signal = signal })
    if not prepared then
        assert(workspace:dispose())
        return nil, err
    end
    workspace.info.commit = prepared.commit
    state.live[workspace.id] = workspace
    return workspace
end

local function collect(state, now)
    local count = 0
    for id, workspace in pairs(options.copy(state.live)) do
        if workspace ~= true and workspace.info.expires_at <= now() and state.live[id] then
            assert(workspace:dispose())
            count = count + 1
        end
    end
    return count
end

--- A world of containers: what its providers have made, they share.
---@param root string the folder of their local workspaces
---@return { provider: (fun(options?: table): table), lose: function, left: fun(): string[] }
function namespaces.new(root)
    local state = { live = {}, places = local_sandbox.create_local_sandbox({ root = root }) }
    local world = {}

    --- `shell`: the path of another program that is `sh` in there.
    function world.provider(given)
        given = options.check("namespaces", given, PROVIDER_OPTIONS)
        local now = clocks(given.clock)
        return {
            name = "namespaces",
            create = function(_, request)
                request = options.check("create", request, CREATE_OPTIONS, { "run_id" })
                return task.wait(task.start(create, state, given, now, request))
            end,
            collect_garbage = function()
                return task.wait(task.start(collect, state, now))
            end,
        }
    end

    --- Kills a container from outside.
    function world.lose(workspace)
        local first = workspace._state.backend.transport.first
        scratch.shell("kill -KILL " .. first)
        support.wait_until(function()
            return not scratch.is_alive(first)
        end, "the end of the container")
    end

    --- The ids of the workspaces that anything is left of.
    function world.left()
        local ids, list = {}, {}
        for _, name in ipairs(scratch.list(root)) do
            ids[name:sub(1, 36)] = true
        end
        for id in pairs(ids) do
            table.insert(list, id)
        end
        return list
    end

    return world
end

return namespaces
