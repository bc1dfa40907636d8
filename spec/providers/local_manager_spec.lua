-- A manager over local workspaces: random operations of tasks that get in each other's way, after which nothing is
-- left. CHAMVI_SEED=<n> draws the same operations again; how they meet is up to the machine.

local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local sequence = require "spec.support.manager_sequence"
local support = require "spec.support.local_workspace"

local SEED = tonumber(os.getenv("CHAMVI_SEED") or "") or os.time() % 1000000
local TASKS, OPERATIONS = 8, 250
local RUNS = { "one", "two", "three" }
local CAP = 2
local LIFETIME_MS = 60000

-- What may come of an operation while others do theirs; anything else is a fault.
local ALLOWED = {
    acquire = { "aborted", "released", "cap_reached", "ref_conflict", "checkout_failed" },
    get = { "workspace_not_found", "workspace_expired", "gone", "no_workspace", "workspace_required" },
    release = { "workspace_not_found" },
    release_run = {},
    collect = {},
    exec = { "disposed", "gone", "transport_lost" },
    dispose = {},
}

-- Kills the supervisor, the parent of a command, if it still is that: a child of a child of this program. Else the
-- command's parent is the guard or whoever takes in orphans.
local KILL = ([[
    guard=$(cut -d' ' -f4 /proc/$PPID/stat) && host=$(cut -d' ' -f4 /proc/$guard/stat) &&
        [ "$host" = %d ] && kill -KILL $PPID
]]):format(scratch.pid())

local WEIGHTS = {
    acquire = 8, get = 3, exec = 4, kill = 1, lose = 1, dispose = 1, release = 2, release_run = 1, expire = 1,
    collect = 1,
}

describe("a manager over local workspaces", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    local title = ("leaves nothing behind after %d random operations of %d tasks, seed %d"):format(
        TASKS * OPERATIONS, TASKS, SEED)
    it(title, function()
        local core = require "chamvi.sandbox.core"
        local repository = scratch.repository(place.folder .. "/repository")
        local inputs = {
            {},
            {},
            { repo = repository.url },
            { repo = repository.url, ref = "v1" },
            { repo = repository.url, ref = "missing" },
        }
        local skipped_ms, reported = 0, {}
        local clock = {
            now = function()
                return core.now_ms() + skipped_ms
            end,
        }
        local manager = sandbox.create_workspace_manager({
            provider = place.provider({ clock = clock }),
            allow_file_repos = true,
            limits = { timeout_ms = LIFETIME_MS },
            max_workspaces_per_run = CAP,
            gc_interval_ms = LIFETIME_MS,
            clock = clock,
            on_error = function(err)
                -- A create that nobody waits for any more can still fail in its own way, and expire on its way.
                if err.code ~= "checkout_failed" and not (err.code == "create_failed" and skipped_ms > 0) then
                    table.insert(reported, tostring(err))
                end
            end,
        })
        local creating = {} -- per acquire under way: its run, and the time when its create began or before
        local known = {} -- the workspaces that came of any acquire, the latest last
        local counts = {}

        local function check(what, value, err)
            local how = "ok"
            if not value then
                assert(sandbox.is_error(err), what .. ": " .. tostring(err))
                how = err.code
                local allowed = false
                for _, code in ipairs(ALLOWED[what]) do
                    allowed = allowed or code == how
                end
                assert(allowed, what .. ": " .. tostring(err))
            end
            counts[what .. " " .. how] = (counts[what .. " " .. how] or 0) + 1
            return value
        end

        local function operations(draw)
            local function run_id()
                return RUNS[draw(#RUNS) + 1]
            end
            local function recent()
                return #known > 0 and known[#known - draw(math.min(#known, 4))] or nil
            end
            local kinds = {}

            function kinds.acquire()
                local input = inputs[draw(#inputs) + 1]
                local signal = draw(4) == 0 and sandbox.signal() or nil
                local delay = draw(12)
                if signal then
                    sandbox.spawn(function()
                        sandbox.sleep(delay)
                        signal:abort("enough")
                    end)
                end
                local entry = { run_id = run_id(), since = clock.now() }
                for other in pairs(creating) do
                    if other.run_id == entry.run_id then
                        entry.since = math.min(entry.since, other.since)
                    end
                end
                creating[entry] = true
                local workspace, err = manager:acquire(entry.run_id,
                    { repo = input.repo, ref = input.ref, signal = signal })
                creating[entry] = nil
                -- A workspace can expire while it is being made, and is collected then.
                if workspace or err.code ~= "create_failed" or clock.now() - entry.since < LIFETIME_MS then
                    check("acquire", workspace, err)
                end
                if workspace then
                    table.insert(known, workspace)
                end
            end

            function kinds.get()
                local workspace = draw(2) == 0 and recent() or nil
                local owner = workspace and workspace.info.run_id or run_id()
                check("get", manager:get(owner, workspace and workspace.id))
            end

            function kinds.exec()
                local workspace = recent()
                if workspace then -- one job that outlives its command, one that is in a session of its own
                    local script = "setsid sleep 100 >/dev/null 2>&1 & sleep 100 >/dev/null 2>&1 & echo done"
                    check("exec", workspace:exec({ "sh", "-c", script }))
                end
            end

            function kinds.kill()
                local workspace = recent()
                if workspace then
                    check("exec", workspace:exec({ "sh", "-c", KILL }))
                end
            end

            function kinds.lose()
                local workspace = recent()
                if workspace then
                    -- Which may find it half removed, by somebody else.
                    scratch.shell(("rm -rf -- %s || true"):format(place.path(workspace)))
                    check("exec", workspace:exec({ "true" }))
                end
            end

            function kinds.dispose()
                local workspace = recent()
                if workspace then
                    check("dispose", workspace:dispose())
                end
            end

            function kinds.release()
                local workspace = recent()
                if workspace then
                    check("release", manager:release(workspace.info.run_id, workspace.id))
                end
            end

            function kinds.release_run()
                check("release_run", manager:release(run_id()))
            end

            function kinds.expire()
                skipped_ms = skipped_ms + LIFETIME_MS / 5
            end

            function kinds.collect()
                check("collect", manager:collect_garbage())
            end

            return kinds
        end

        local names = sequence.names(WEIGHTS)
        local results = sandbox.run(function()
            local workers = {}
            for index = 1, TASKS do
                workers[index] = function()
                    local draw = sequence.generator(SEED * TASKS + index)
                    local kinds = operations(draw)
                    for _ = 1, OPERATIONS do
                        kinds[names[draw(#names) + 1]]()
                        if draw(4) == 0 then
                            sandbox.sleep(draw(3))
                        end
                    end
                    return true
                end
            end
            return sandbox.all(workers)
        end)
        assert.is_true(manager:close())
        for _, result in ipairs(results) do
            assert(result[1], tostring(result[2]))
        end
        assert.same({}, reported)
        assert.same({}, scratch.list(place.root))
        for _, what in ipairs({ "acquire ok", "acquire aborted", "acquire released", "get ok", "release ok" }) do
            assert(counts[what], "never happened: " .. what)
        end
    end)
end)
