-- What a workspace's container is: the body of `POST /containers/create`, and the program that keeps it alive.

local constants = require "chamvi.sandbox.constants"
local rules = require "chamvi.sandbox.rules"
local times = require "chamvi.sandbox.docker.limits"

local container = {}

container.NAME_PREFIX = "chamvi-ws-"
container.USER = "1000:1000"

-- The main program. When it may not write to the folder it says "closed" and waits for about a minute until it may.
-- Makes the folder a git repository where that is to be empty, says "ready" or, where it did not, "open", and sleeps
-- until the workspace has expired: then the container ends, and with AutoRemove the engine deletes it, whether or not
-- anybody is left to ask for it.
local MAIN = [[
lifetime=$1
shift
state=open
if [ ! -w . ]; then
    echo closed
    chances=6000
    until [ -w . ] || [ "$chances" = 0 ]; do
        chances=$((chances - 1))
        sleep 0.01
    done
fi
[ "$#" = 0 ] || { "$@" >/dev/null 2>&1 && state=ready; }
echo "$state"
exec sleep "$lifetime" >/dev/null 2>&1
]]

---@class chamvi.ContainerOptions
---@field id string
---@field run_id string
---@field image string
---@field network string
---@field env string[] NAME=value
---@field limits chamvi.Limits all of them
---@field expires_at integer
---@field init? string[] the argv that makes the folder a repository; nil: that is done later

local function labels_of(given)
    local labels = {
        [constants.RUN_LABEL] = given.run_id,
        [constants.WORKSPACE_LABEL] = given.id,
        [constants.EXPIRES_AT_KEY] = ("%.0f"):format(given.expires_at),
    }
    for name, value in pairs(constants.SANDBOX_LABELS) do
        labels[name] = value
    end
    return labels
end

--- The name of a workspace's container.
---@param id string
---@return string
function container.name(id)
    return container.NAME_PREFIX .. id
end

--- The body of the request that creates it.
---@param given chamvi.ContainerOptions
---@return table
function container.body(given)
    local limits, labels = given.limits, labels_of(given)
    local memory = rules.parse_memory(limits.memory)
    local main = { "-c", MAIN, "chamvi", ("%d"):format(math.ceil((limits.timeout_ms + times.LATE) / 1000)) }
    for _, argument in ipairs(given.init or {}) do
        table.insert(main, argument)
    end
    return {
        Image = given.image,
        User = container.USER,
        WorkingDir = constants.WORKSPACE_ROOT,
        Entrypoint = { "sh" },
        Cmd = main,
        Env = given.env,
        Labels = labels,
        AttachStdout = true,
        Tty = false,
        OpenStdin = false,
        Healthcheck = { Test = { "NONE" } }, -- the image's would run beside the commands
        HostConfig = {
            AutoRemove = true,
            Init = true, -- reaps what commands leave behind
            NetworkMode = given.network,
            ReadonlyRootfs = true,
            CapDrop = { "ALL" },
            SecurityOpt = { "no-new-privileges:true" },
            Privileged = false,
            Memory = memory,
            MemorySwap = memory, -- memory and swap together: no swap
            NanoCpus = math.max(1, math.floor(rules.parse_cpu(limits.cpu) * 1e9 + 0.5)),
            PidsLimit = limits.pids,
            IpcMode = "private",
            Tmpfs = {
                ["/tmp"] = ("rw,exec,nosuid,nodev,mode=1777,size=%.0f"):format(rules.parse_memory(constants.TMP_SIZE)),
            },
            Mounts = {
                {
                    Type = "volume",
                    Target = constants.WORKSPACE_ROOT,
                    VolumeOptions = { Labels = labels },
                },
            },
            LogConfig = { Type = "none" }, -- nobody reads it, and a daemon could fill the disk with it
        },
    }
end

return container
