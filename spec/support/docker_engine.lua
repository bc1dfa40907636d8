-- An engine of scripts/services as specs look at it and disturb it from outside: by Docker's own client, which shares
-- nothing with what is tested.

local compat = require "chamvi.sandbox.compat"
local native = require "chamvi.sandbox.core"
local scratch = require "spec.support.scratch"

local docker_engine = {}

-- No call of the client takes longer, in seconds; an engine that hangs is a failure of the spec.
local CALL_MAX_S = 60

---@class spec.DockerEngine
---@field service "docker"|"docker-tls"|"podman" its name for scripts/services
---@field host string its address in the form of DOCKER_HOST
---@field cert_path? string the folder of the certificates in the form of DOCKER_CERT_PATH, with TLS only
---@field other_cert_path? string the same from an authority that the engine does not trust, with TLS only
---@field image string an image that it has: Debian with git and a user 1000
---@field pid_file? string of the daemon, when it was started for specs
local Engine = {}
Engine.__index = Engine

--- The engine that the environment names.
---@param service "docker"|"docker-tls"|"podman"
---@return spec.DockerEngine|nil engine
---@return string|nil reason why there is none, for `pending`
function docker_engine.find(service)
    local prefix = "CHAMVI_TEST_" .. service:upper():gsub("-", "_")
    local host, image = os.getenv(prefix .. "_HOST"), os.getenv("CHAMVI_TEST_IMAGE")
    if not host or not image then
        return nil, ("no engine: run `eval \"$(scripts/services %s env)\"` first"):format(service)
    end
    return setmetatable({
        service = service,
        host = host,
        cert_path = os.getenv(prefix .. "_CERT_PATH"),
        other_cert_path = os.getenv(prefix .. "_OTHER_CERT_PATH"),
        image = image,
        pid_file = os.getenv(prefix .. "_PID_FILE"),
    }, Engine)
end

local function words(list)
    local quoted = {}
    for index, word in ipairs(list) do
        quoted[index] = scratch.quote(word)
    end
    return table.concat(quoted, " ")
end

local function lines_of(text)
    local lines = {}
    for line in text:gmatch("[^\n]+") do
        table.insert(lines, line)
    end
    table.sort(lines)
    return lines
end

--- Docker's client, in words for a shell that has more to do with it than `try` can.
---@return string
function Engine:client()
    local settings = { "DOCKER_HOST=" .. self.host }
    if self.cert_path then
        settings[2], settings[3] = "DOCKER_TLS_VERIFY=1", "DOCKER_CERT_PATH=" .. self.cert_path
    end
    return ("env -u DOCKER_CONTEXT -u DOCKER_TLS -u DOCKER_TLS_VERIFY -u DOCKER_CERT_PATH %s timeout -k 5 %d docker")
        :format(words(settings), CALL_MAX_S)
end

--- Runs Docker's client.
---@param ... string its arguments
---@return boolean succeeded
---@return string stdout
---@return string stderr
function Engine:try(...)
    local errors = os.tmpname()
    local pipe = assert(io.popen(("%s %s </dev/null 2>%s; echo \"status $?\""):format(self:client(), words({ ... }),
        scratch.quote(errors))))
    local text = pipe:read("*a")
    pipe:close()
    local stderr = scratch.read(errors)
    os.remove(errors)
    local stdout, status = text:match("^(.*)status (%d+)\n$")
    return status == "0", stdout, stderr
end

--- Runs Docker's client, and raises when it fails.
---@param ... string its arguments
---@return string stdout without the last line's end
function Engine:call(...)
    local succeeded, stdout, stderr = self:try(...)
    if not succeeded then
        error(("docker %s: %s%s"):format(table.concat({ ... }, " "), stdout, stderr), 2)
    end
    return (stdout:gsub("\n$", ""))
end

-- The arguments of a list's filters.
local function filters(given)
    local arguments = {}
    for key, value in pairs(given or {}) do
        table.insert(arguments, "--filter")
        table.insert(arguments, type(key) == "number" and value or ("label=%s=%s"):format(key, value))
    end
    return arguments
end

local function list(self, arguments, given)
    for _, argument in ipairs(filters(given)) do
        table.insert(arguments, argument)
    end
    return lines_of(self:call(compat.unpack(arguments)))
end

--- The full ids of the containers in any state, sorted.
---@param labels? table<string|integer, string> those with these labels; under an integer, another filter of the client
---@return string[]
function Engine:containers(labels)
    return list(self, { "ps", "--all", "--quiet", "--no-trunc" }, labels)
end

--- The names of the volumes, sorted.
---@param labels? table<string|integer, string> as for containers
---@return string[]
function Engine:volumes(labels)
    return list(self, { "volume", "ls", "--quiet" }, labels)
end

--- What a watch has not seen at its start.
---@class spec.DockerWatch
---@field left fun(): string[] "container ID (STATE)" and "volume NAME" that are new since, sorted
---@field forget fun(): string[] gives the same, removes it where that can be, and lists it no more

--- Remembers the containers and volumes of now, labelled or not, so that a spec can assert that nothing is left.
---@return spec.DockerWatch
function Engine:watch()
    local known = {}
    for _, id in ipairs(self:containers()) do
        known[id] = true
    end
    for _, name in ipairs(self:volumes()) do
        known[name] = true
    end
    local watch = {}

    function watch.left()
        local left = {}
        for _, line in ipairs(lines_of(self:call("ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.State}}"))) do
            local id, state = line:match("^(%S+) (.*)$")
            if not known[id] then
                table.insert(left, ("container %s (%s)"):format(id, state))
            end
        end
        for _, name in ipairs(self:volumes()) do
            if not known[name] then
                table.insert(left, "volume " .. name)
            end
        end
        return left
    end

    function watch.forget()
        local left = watch.left()
        for _, entry in ipairs(left) do
            local kind, name = entry:match("^(%S+) (%S+)")
            known[name] = true
            if kind == "container" then
                self:try("rm", "--force", "--volumes", name)
            else
                self:try("volume", "rm", "--force", name)
            end
        end
        return left
    end

    return watch
end

--- What the engine says of a container.
---@param id string or a name
---@return table|nil inspected as in the Engine API, null as `chamvi.sandbox.core`'s; nil when there is no such one
function Engine:inspect(id)
    local succeeded, stdout, stderr = self:try("container", "inspect", id)
    if not succeeded then
        -- "No such container" by Docker, "no such container" by Podman.
        assert(stderr:lower():find("no such container", 1, true), stderr)
        return nil
    end
    return assert(native.json_decode(stdout))[1]
end

--- The state of a container: "running", "paused", "exited" and so on, nil when there is no such container.
---@param id string or a name
---@return string|nil
function Engine:state(id)
    local inspected = self:inspect(id)
    return inspected and inspected.State.Status
end

-- What the Engine API answers, asked by curl: a status and a body.
local function ask(self, arguments, path)
    local address = self.host:match("^unix://(.*)$")
    if address then
        arguments = { "--unix-socket", address, compat.unpack(arguments) }
        path = "http://localhost" .. path
    elseif self.cert_path then
        arguments = { "--cacert", self.cert_path .. "/ca.pem", "--cert", self.cert_path .. "/cert.pem", "--key",
            self.cert_path .. "/key.pem", compat.unpack(arguments) }
        path = self.host:gsub("^tcp", "https") .. path
    else
        path = self.host:gsub("^tcp", "http") .. path
    end
    local text = scratch.shell(("curl -sSg -m %d -w '\\n%%{http_code}' %s %s"):format(CALL_MAX_S, words(arguments),
        scratch.quote(path)))
    local body, status = text:match("^(.*)\n(%d+)$")
    return tonumber(status), body
end

--- What the Engine API answers to a GET.
---@param path string such as "/version"
---@return any|nil answer nil when it is 404
function Engine:get(path)
    local status, body = ask(self, {}, path)
    if status == 404 then
        return nil
    end
    assert(status == 200, body)
    return (assert(native.json_decode(body)))
end

--- Makes an image of a container, as it is. Docker's client can't with Podman 4.3.
---@param id string
---@param image string with a tag
function Engine:commit(id, image)
    local name, tag = image:match("^(.*):(.*)$")
    local status, body = ask(self, { "-H", "Content-Type: application/json", "-d", "{}" },
        ("/commit?container=%s&repo=%s&tag=%s"):format(id, name, tag))
    assert(status == 201, body)
end

--- How many execs run in a container by the engine's own account.
---@param id string or a name
---@return integer
function Engine:exec_count(id)
    local count = 0
    local ids = assert(self:inspect(id), "no such container").ExecIDs
    for _, exec in ipairs(type(ids) == "table" and ids or {}) do
        -- Podman lists ended ones too; one may be gone since.
        local state = self:get("/exec/" .. exec .. "/json")
        if state and state.Running then
            count = count + 1
        end
    end
    return count
end

--- The command lines of all processes in a running container, sorted, its init among them: as root of this machine sees
--- them in the container's process namespace.
---@param id string or a name
---@return string[]
function Engine:processes(id)
    local pid = assert(self:inspect(id), "no such container").State.Pid
    return lines_of(scratch.shell(([[
        space=$(readlink /proc/%d/ns/pid)
        for process in /proc/[0-9]*; do
            [ "$(readlink "$process/ns/pid")" != "$space" ] || { tr '\0\n' '  ' <"$process/cmdline"; echo; }
        done 2>/dev/null
    ]]):format(pid)):gsub(" *\n", "\n"))
end

--- Where containers of the default network find this machine, when the engine runs on it.
---@return string address
function Engine:gateway()
    return self:get("/networks/bridge").IPAM.Config[1].Gateway
end

--- Sends a signal to a container's init.
---@param id string or a name
---@param signal? string default "KILL"
function Engine:kill(id, signal)
    self:call("kill", "--signal", signal or "KILL", id)
end

--- Stops a container as an operator might, without the wait for its init.
---@param id string or a name
function Engine:stop(id)
    self:call("stop", "--time", "0", id)
end

function Engine:pause(id)
    self:call("pause", id)
end

function Engine:unpause(id)
    self:call("unpause", id)
end

--- Starts a stopped container again.
function Engine:start(id)
    self:call("start", id)
end

--- Removes a container in any state with its anonymous volumes.
---@param id string or a name
function Engine:remove(id)
    self:call("rm", "--force", "--volumes", id)
end

-- The daemon's process id, when the spec may disturb it.
local function daemon_pid(self)
    assert(self.pid_file, "the engine was not started for specs: leave it alone")
    return tonumber((assert(scratch.read(self.pid_file), "the daemon is not running"):match("^%d+")))
end

--- Why the daemon can't be stopped and started by a spec, for `pending`; nil when it can.
---@return string|nil reason
function Engine:untouchable()
    return not self.pid_file and "the engine was not started by scripts/services" or nil
end

--- Ends the daemon in order, and its containers with it.
function Engine:stop_daemon()
    daemon_pid(self)
    scratch.shell(("scripts/services %s stop"):format(self.service))
end

--- Kills the daemon alone, as a crash would.
function Engine:kill_daemon()
    local pid = daemon_pid(self)
    scratch.shell(("kill -KILL %d"):format(pid))
    for _ = 1, 300 do
        if not scratch.is_alive(pid) then
            return
        end
        scratch.shell("sleep 0.1")
    end
    error("the killed daemon is not dead after 30 s")
end

--- Freezes the daemon, so that it accepts connections and answers nothing; `thaw_daemon` is a must.
function Engine:freeze_daemon()
    -- Each of its threads stops when it has its next turn.
    scratch.shell(([[
        kill -STOP %d
        n=0
        while grep '^State:' /proc/%d/task/*/status 2>/dev/null | grep -vq 'State:.T'; do
            n=$((n + 1)); [ $n -lt 300 ] || exit 1; sleep 0.1
        done
    ]]):format(daemon_pid(self), daemon_pid(self)))
end

function Engine:thaw_daemon()
    scratch.shell(("kill -CONT %d"):format(daemon_pid(self)))
end

--- Starts the daemon when it does not run, and waits until it answers.
function Engine:start_daemon()
    assert(self.pid_file, "the engine was not started for specs")
    scratch.shell(("scripts/services %s start"):format(self.service))
end

return docker_engine
