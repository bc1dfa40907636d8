-- A create is a transaction: whatever happens on the way, it ends, in time and with the first error, and leaves
-- nothing.

local docker_target = require "spec.support.docker_target"
local engine_proxy = require "spec.support.engine_proxy"
local limits = require "chamvi.sandbox.docker.limits"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local busted = { describe = describe, it = it, after_each = after_each, teardown = teardown, pending = pending }

docker_target.each(busted, { "docker", "podman" }, "creates", function(target)
    local engine = target.engine
    local proxy, provider, complaints, patience

    before_each(function()
        patience = {}
        for name, ms in pairs(limits) do
            patience[name] = ms
        end
        complaints = {}
        proxy = engine_proxy.start(engine)
        provider = target.provider({
            docker = { host = proxy.host },
            on_error = function(err)
                table.insert(complaints, err)
            end,
        })
    end)

    after_each(function()
        for name, ms in pairs(patience) do
            limits[name] = ms
        end
        proxy:stop()
    end)

    local function create(request)
        local given = { run_id = "spec" }
        for name, value in pairs(request or {}) do
            given[name] = value
        end
        return provider:create(given)
    end

    -- A request without what is another one in each create.
    local function step_of(request)
        local step = request:gsub("chamvi%-ws%-[%x-]+", "NAME"):gsub("%x%x%x%x%x%x%x%x%x%x+", "ID")
        return (step:gsub("%?.*", ""))
    end

    -- The steps of a create that has a repository, in order: what every request is and which create it belongs to.
    local function steps()
        local workspace = assert(create({ repo = target.repository.url }))
        local list, seen = {}, {}
        for _, request in ipairs(proxy:requests()) do
            local step = step_of(request)
            if not seen[step] and step ~= "GET /_ping" then
                seen[step] = true
                table.insert(list, step)
            end
        end
        assert(workspace:dispose())
        return list
    end

    local function was_reached(step)
        for _, request in ipairs(proxy:requests()) do
            if step_of(request) == step then
                return true
            end
        end
        return false
    end

    local function pattern(step)
        return "^" .. step:gsub("NAME", "[^/]+"):gsub("ID", "[^/]+") .. "(\\?|$)"
    end

    local function fails(codes, workspace, err)
        assert.is_nil(workspace)
        assert.is_true(sandbox.is_error(err, "SandboxError"), tostring(err))
        assert.is_truthy((" " .. codes .. " "):find(" " .. err.code .. " ", 1, true), err.code .. ": " .. err.message)
        return err
    end

    it("need few requests", function()
        assert.same({
            "GET /images/" .. target.image .. "/json",
            "POST /containers/create",
            "POST /containers/NAME/attach",
            "POST /containers/NAME/start",
            "GET /containers/NAME/json",
        }, { (table.unpack or unpack)(steps(), 1, 5) })
    end)

    -- Nothing is left; but where the request for the container got no answer, nobody can know that.
    local function check_complaints(step, act)
        local unknown = table.remove(complaints)
        if unknown and step == "POST /containers/create" then
            assert.matches("nobody knows whether it was made, and it has not come so far$", unknown.message)
            unknown = nil
        end
        assert.is_nil(unknown, step .. ", " .. act)
        assert.same({}, complaints, step .. ", " .. act)
    end

    it("leave nothing when the connection is cut at any step", function()
        for _, step in ipairs(steps()) do
            for _, act in ipairs({ "drop", "lose" }) do
                proxy:set({ { match = pattern(step), act = act, times = 3 } })
                local workspace, err = create({ repo = target.repository.url })
                if workspace then -- by another try, or the answer did not matter
                    assert(step:find("^GET"), step)
                    assert(workspace:dispose())
                else
                    fails("create_failed engine_unreachable image_unavailable checkout_failed", workspace, err)
                end
                assert.same({}, target.left(), step .. ", " .. act)
                check_complaints(step, act)
            end
        end
    end)

    it("leave nothing when the engine refuses any step, and say why", function()
        for _, step in ipairs(steps()) do
            proxy:set({ { match = pattern(step), act = "answer", status = 500, body = '{"message":"on purpose"}' } })
            local workspace, err = create({ repo = target.repository.url })
            if workspace then
                assert.equal("GET /exec/ID/json", step)
                assert(workspace:dispose())
            else
                fails("create_failed checkout_failed", workspace, err)
                assert.matches("on purpose", err.message .. (err.detail or ""))
            end
            assert.same({}, target.left(), step)
            assert.same({}, complaints, step)
        end
    end)

    it("leave nothing when the engine is silent at any step", function()
        for _, step in ipairs(steps()) do
            -- Those of commands have a spec of their own.
            local acts = step:find("^POST") and { "hang", "mute" } or { "hang" }
            for _, act in ipairs(step:find("/exec") and {} or acts) do
                for _, ms in ipairs({ 1500, 15000 }) do -- a busy engine is too slow for a step before, and gets more
                    limits.REQUEST, limits.START, limits.EXIT = ms, ms, 500
                    complaints = {}
                    proxy:set({ { match = pattern(step), act = act } })
                    fails("create_failed engine_unreachable", create())
                    if was_reached(step) then
                        break
                    end
                end
                assert.is_true(was_reached(step), step)
                assert.same({}, target.left(), step .. ", " .. act)
                check_complaints(step, act)
            end
        end
    end)

    it("that are aborted at any step leave nothing", function()
        for _, step in ipairs(steps()) do
            local go = proxy.folder .. "/go" -- the step waits for it
            os.remove(go)
            proxy:set({ { match = pattern(step), ["until"] = go, times = 1 } })
            sandbox.run(function()
                local signal = sandbox.signal()
                local job = sandbox.spawn(create, { repo = target.repository.url, signal = signal })
                docker_target.wait_until(step, function()
                    return was_reached(step)
                end)
                signal:abort("enough")
                sandbox.sleep(100)
                scratch.write(go, "")
                fails("aborted", job:join())
            end)
            assert.same({}, target.left(), step)
            assert.same({}, complaints, step)
        end
    end)

    it("that are aborted while the engine is silent return all the same, and clean up later", function()
        limits.ABORT, limits.START, limits.REMOVE = 300, 6000, 6000
        proxy:set({ { match = "^POST /containers/create", act = "mute", times = 1 } })
        sandbox.run(function()
            local signal = sandbox.signal()
            local job = sandbox.spawn(create, { signal = signal })
            docker_target.wait_until("the container is made", function()
                return #target.left() == 1
            end)
            signal:abort("enough")
            fails("aborted", job:join())
            assert.equal(1, #target.left())
            docker_target.wait_until("the container is removed", function()
                return #target.left() == 0
            end)
        end)
        assert.same({}, complaints)
    end)

    it("tell on_error what they could not remove", function()
        limits.BUSY = 100
        for _, rule in ipairs({
            { match = "^DELETE", act = "answer", status = 500, body = '{"message":"device busy"}' },
            { match = "^DELETE", act = "hang" },
        }) do
            limits.CLEAN_UP = rule.act == "hang" and 1500 or 15000
            proxy:set({ { match = "/attach", act = "drop" }, rule })
            fails("create_failed", create())
            assert.equal(1, #complaints)
            local complaint = table.remove(complaints)
            assert.equal("remove_failed", complaint.code)
            assert.matches(rule.status and "device busy" or "does not answer", complaint.message)
            local left = target.left()
            assert.equal(1, #left)
            assert.is_truthy(complaint.message:find(left[1], 1, true))
            engine:remove("chamvi-ws-" .. left[1])
        end
    end)

    it("that find a full disk leave nothing", function()
        -- The file system is put in the volume's place when the container runs and before the clone begins.
        local script = [[
            pid=$(%s inspect --format '{{.State.Pid}}' $(%s ps -q --filter ancestor=%s))
            nsenter -t $pid -m mount -t tmpfs -o size=16k,mode=1777 tmpfs /workspace
        ]]
        local rule = { match = "^POST /containers/[^/]+/exec", times = 1 }
        rule.run = script:format(engine:client(), engine:client(), target.image)
        -- Docker gives the volume to root, and the first command is the one that opens it.
        proxy:set(target.name == "docker" and { { match = rule.match, times = 1 }, rule } or { rule })
        local err = fails("checkout_failed", create({ repo = target.repository.url }))
        assert.matches("No space left on device", err.detail)
    end)

    it("of an image that is not there", function()
        fails("image_unavailable", create({ image = "localhost/chamvi-none:1" }))
        provider = target.provider({ pull = "missing" })
        local err = fails("image_unavailable", create({ image = "localhost:1/chamvi-none:1" }))
        assert.matches("localhost:1", err.message)
        provider = target.provider({ pull = "always" })
        fails("image_unavailable", create({ image = "localhost:1/chamvi-none:1" }))
        for _, image in ipairs({ "../containers/json?x=", "no such", "UPPER/../x", "a//b", "?" }) do
            fails("image_unavailable", create({ image = image }))
        end
    end)

    it("of a network that is not there", function()
        provider = target.provider({ network = "chamvi-none" })
        local err = fails("create_failed", create())
        assert.matches("chamvi%-none", err.message)
    end)

    it("that are denied leave nothing", function()
        proxy:set({ { match = "^POST /containers/create", act = "answer", status = 403, body = '{"message":"no"}' } })
        fails("forbidden", create())
    end)
end)
