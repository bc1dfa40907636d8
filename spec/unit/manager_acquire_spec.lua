-- What CONTRACT and reference say about acquire, sentence by sentence, over the fake provider.

local errors = require "chamvi.sandbox.errors"
local managed = require "spec.support.managed"
local sandbox = require "chamvi.sandbox"

local ONE, TWO = "https://example.com/one", "https://example.com/two"

describe("acquire", function()
    local function assert_error(code, value, err, ...)
        assert.is_nil(value)
        assert.is_true(sandbox.is_error(err), tostring(err))
        assert.equal(code, err.code)
        assert.equal(0, select("#", ...))
        assert.is_nil(err.message:find("\n"))
        return err
    end

    describe("is keyed by run and normalized repository, or none:", function()
        it("the same workspace for the same run and repository, however that is written", function()
            local manager = managed.new()
            local first, reused = assert(manager:acquire("run", { repo = "owner/name" }))
            assert.is_false(reused)
            local second, again = manager:acquire("run", { repo = "HTTPS://GitHub.com:443/owner/name/" })
            assert.equal(first, second)
            assert.is_true(again)
        end)

        it("another one without a repository, for another repository, for another run", function()
            local manager, place = managed.new()
            local made = {
                assert(manager:acquire("run")),
                assert(manager:acquire("run", { repo = ONE })),
                assert(manager:acquire("run", { repo = TWO })),
                assert(manager:acquire("other")),
            }
            assert.equal(4, place.fake.created)
            for left = 1, 4 do
                for right = left + 1, 4 do
                    assert.are_not.equal(made[left], made[right])
                end
            end
        end)

        it("the provider gets run, normalized repository, ref, image, env and limits", function()
            local env, limits = { A = "1" }, { cpu = "2", timeout_ms = 5 }
            local manager, place = managed.new({ image = "image", env = env, limits = limits })
            env.A, limits.cpu = "2", "3" -- too late
            assert(manager:acquire("run", { repo = "owner/name", ref = "topic" }))
            local request = place.fake.creates[1].request
            assert.equal("run", request.run_id)
            assert.equal("https://github.com/owner/name.git", request.repo)
            assert.equal("topic", request.ref)
            assert.equal("image", request.image)
            assert.same({ A = "1" }, request.env)
            assert.same({ cpu = "2", timeout_ms = 5 }, request.limits)
            assert.is_false(request.signal.aborted)
        end)
    end)

    describe("refuses", function()
        it("repositories and refs that the rules refuse, before the provider is asked", function()
            local manager, place = managed.new()
            assert_error("invalid_repo", manager:acquire("run", { repo = "file:///tmp/x" }))
            assert_error("invalid_repo", manager:acquire("run", { repo = 7 }))
            assert_error("invalid_ref", manager:acquire("run", { repo = ONE, ref = "-x" }))
            assert_error("invalid_ref", manager:acquire("run", { repo = ONE, ref = {} }))
            assert_error("invalid_input", manager:acquire("run", { ref = "main" }))
            assert.equal(0, place.fake.created)
        end)

        it("nothing of a file repository with allow_file_repos", function()
            local manager, place = managed.new({ allow_file_repos = true })
            assert(manager:acquire("run", { repo = "file:///tmp/x//" }))
            assert.equal("file:///tmp/x", place.fake.creates[1].request.repo)
        end)

        it("what allow_repo refuses, which gets the normalized URL", function()
            local asked = {}
            local answers = { [ONE] = true, [TWO] = false }
            local callable = setmetatable({}, {
                __call = function(_, url)
                    table.insert(asked, url)
                    return answers[url]
                end,
            })
            local manager, place = managed.new({ allow_repo = callable })
            assert(manager:acquire("run", { repo = "HTTPS://EXAMPLE.com/one/" }))
            assert.equal("ValidationError",
                assert_error("repo_not_allowed", manager:acquire("run", { repo = TWO })).name)
            assert_error("repo_not_allowed", manager:acquire("run", { repo = "owner/name" })) -- nil is no either
            assert(manager:acquire("run")) -- no repository, no question
            assert.same({ ONE, TWO, "https://github.com/owner/name.git" }, asked)
            assert.same({}, place.errors)
        end)

        it("a repository for which allow_repo raises, and reports what it raised", function()
            local manager, place = managed.new({
                allow_repo = function()
                    error("broken", 0)
                end,
            })
            assert_error("repo_not_allowed", manager:acquire("run", { repo = ONE }))
            assert.same({ "broken" }, place.errors)
        end)

        it("wrong arguments of the host program, by raising", function()
            local manager = managed.new()
            assert.error_matches(function()
                manager:acquire(7)
            end, "bad argument #1 to 'acquire' %(run id expected, got number%)")
            assert.error_matches(function()
                manager:acquire("")
            end, "got an empty string")
            assert.error_matches(function()
                manager.acquire({}, "run")
            end, "manager expected")
            local _, err = pcall(manager.acquire, manager, "run", { reff = "main" })
            assert.is_true(sandbox.is_error(err, "InvalidAgentDefinitionError"))
            assert.equal("unknown_option", err.code)
            _, err = pcall(manager.acquire, manager, "run", { signal = {} })
            assert.equal("invalid_option", err.code)
        end)
    end)

    describe("with a ref:", function()
        it("without one a held workspace is reused, whatever its ref", function()
            local manager = managed.new()
            local held = assert(manager:acquire("run", { repo = ONE, ref = "topic" }))
            local same, reused = manager:acquire("run", { repo = ONE })
            assert.equal(held, same)
            assert.is_true(reused)
        end)

        it("a given one must equal the held one's", function()
            local manager = managed.new()
            local held = assert(manager:acquire("run", { repo = ONE, ref = "topic" }))
            assert.equal(held, (manager:acquire("run", { repo = ONE, ref = "topic" })))
            assert_error("ref_conflict", manager:acquire("run", { repo = ONE, ref = "main" }))
            assert(manager:acquire("run", { repo = TWO }))
            assert_error("ref_conflict", manager:acquire("run", { repo = TWO, ref = "main" }))
        end)

        it("or that of the one being created", function()
            local manager, place = managed.new()
            place.fake.plan_create = managed.wait
            local made = sandbox.spawn(manager.acquire, manager, "run", { repo = ONE, ref = "topic" })
            assert_error("ref_conflict", manager:acquire("run", { repo = ONE, ref = "main" }))
            place.fake.creates[1]:finish()
            assert(made:join())
        end)

        it("the conflict is settled by a release", function()
            local manager = managed.new()
            local held = assert(manager:acquire("run", { repo = ONE, ref = "topic" }))
            assert(manager:release("run", held.id))
            local _, reused = assert(manager:acquire("run", { repo = ONE, ref = "main" }))
            assert.is_false(reused)
        end)
    end)

    describe("at the same time:", function()
        it("calls share one create, and joiners get reused = true", function()
            local manager, place = managed.new()
            place.fake.plan_create = managed.wait
            sandbox.run(function()
                local tasks = {}
                for index = 1, 3 do
                    tasks[index] = sandbox.spawn(manager.acquire, manager, "run", { repo = ONE })
                end
                managed.settle()
                assert.equal(1, place.fake.created)
                place.fake.creates[1]:finish()
                local first, reused = tasks[1]:join()
                assert.is_false(reused)
                for index = 2, 3 do
                    local workspace, joined = tasks[index]:join()
                    assert.equal(first, workspace)
                    assert.is_true(joined)
                end
            end)
        end)

        it("a joiner in any coroutine gets its answer", function()
            local manager, place = managed.new()
            place.fake.plan_create = function()
                return { "turns", 3 }
            end
            local task = sandbox.spawn(manager.acquire, manager, "run")
            -- A coroutine that is no task blocks, and has the create go on all the same.
            local joined, reused = coroutine.wrap(function()
                return manager:acquire("run")
            end)()
            assert.is_true(reused)
            assert.equal(joined, (task:join()))
        end)

        it("a failure goes to all of them, and the next acquire starts anew", function()
            local manager, place = managed.new()
            local failure = errors.sandbox("image_unavailable", "no such image")
            place.fake.plan_create = managed.wait
            sandbox.run(function()
                local one = sandbox.spawn(manager.acquire, manager, "run")
                local two = sandbox.spawn(manager.acquire, manager, "run")
                managed.settle()
                place.fake.creates[1]:finish({ "fail", failure })
                for _, task in ipairs({ one, two }) do
                    local workspace, err = task:join()
                    assert.is_nil(workspace)
                    assert.equal(failure, err)
                end
            end)
            place.fake.plan_create = function() end
            local _, reused = assert(manager:acquire("run"))
            assert.is_false(reused)
            assert.equal(2, place.fake.created)
        end)

        it("aborting one waiter detaches that waiter alone", function()
            local manager, place = managed.new()
            place.fake.plan_create = managed.wait
            sandbox.run(function()
                local signal = sandbox.signal()
                local leaver = sandbox.spawn(manager.acquire, manager, "run", { signal = signal })
                local stayer = sandbox.spawn(manager.acquire, manager, "run", { signal = sandbox.signal() })
                managed.settle()
                signal:abort("enough")
                local err = assert_error("aborted", leaver:join())
                assert.equal("enough", err.cause)
                assert.is_false(place.fake.creates[1].request.signal.aborted)
                place.fake.creates[1]:finish()
                local _, reused = assert(stayer:join())
                assert.is_true(reused)
            end)
        end)

        it("the create is aborted when its last waiter has gone", function()
            local manager, place = managed.new()
            place.fake.plan_create = managed.wait
            sandbox.run(function()
                local signals, tasks = {}, {}
                for index = 1, 2 do
                    signals[index] = sandbox.signal()
                    tasks[index] = sandbox.spawn(manager.acquire, manager, "run", { signal = signals[index] })
                end
                managed.settle()
                signals[2]:abort()
                signals[1]:abort()
                assert.is_true(place.fake.creates[1].request.signal.aborted)
                assert_error("aborted", tasks[1]:join())
                assert_error("aborted", tasks[2]:join())
            end)
            place.fake:assert_nothing_left()
        end)

        it("the next acquire never joins a create that is being aborted", function()
            local manager, place = managed.new({ max_workspaces_per_run = 1 })
            place.fake.plan_create = function(step)
                return step.number == 1 and { "wait", on_abort = "ignore" } or nil
            end
            sandbox.run(function()
                local signal = sandbox.signal()
                local leaver = sandbox.spawn(manager.acquire, manager, "run", { signal = signal })
                managed.settle()
                signal:abort()
                assert_error("aborted", leaver:join()) -- promptly, though the provider takes its time
                local fresh, reused = assert(manager:acquire("run"))
                assert.is_false(reused)
                place.fake.creates[1]:finish() -- too late: it must not stay
                managed.settle()
                assert.same({ 2 }, place.fake:alive())
                assert.equal(fresh, (manager:get("run")))
            end)
            assert.same({}, place.errors)
        end)

        it("a call whose signal was aborted before starts nothing", function()
            local manager, place = managed.new()
            local signal = sandbox.signal()
            signal:abort("before")
            assert_error("aborted", manager:acquire("run", { signal = signal }))
            assert.equal(0, place.fake.created)
        end)

        it("an abort after the answer changes nothing", function()
            local manager, place = managed.new()
            local signal = sandbox.signal()
            local workspace = assert(manager:acquire("run", { signal = signal }))
            signal:abort()
            assert.is_false(workspace.disposed)
            assert.same({ 1 }, place.fake:alive())
        end)
    end)

    describe("the cap", function()
        it("is MAX_WORKSPACES_PER_RUN, and of each run", function()
            local manager = managed.new()
            for index = 1, sandbox.MAX_WORKSPACES_PER_RUN do
                assert(manager:acquire("run", { repo = "https://example.com/" .. index }))
            end
            assert_error("cap_reached", manager:acquire("run"))
            assert(manager:acquire("run", { repo = "https://example.com/1" })) -- one that it has
            assert(manager:acquire("other"))
        end)

        it("counts creates", function()
            local manager, place = managed.new({ max_workspaces_per_run = 1 })
            place.fake.plan_create = managed.wait
            local task = sandbox.spawn(manager.acquire, manager, "run")
            assert_error("cap_reached", manager:acquire("run", { repo = ONE }))
            place.fake.creates[1]:finish({ "fail", "no" })
            assert_error("create_failed", task:join())
            place.fake.plan_create = function() end
            assert(manager:acquire("run", { repo = ONE })) -- a failed one does not count
        end)

        it("drops expired and gone ones first", function()
            local manager, place = managed.new({ max_workspaces_per_run = 2, limits = { timeout_ms = 100 } })
            local gone = assert(manager:acquire("run"))
            place.time = place.time + 50
            assert(manager:acquire("run", { repo = ONE }))
            assert_error("cap_reached", manager:acquire("run", { repo = TWO }))
            place.fake:lose(1)
            assert(manager:acquire("run", { repo = TWO }))
            assert_error("cap_reached", manager:acquire("run"))
            place.time = place.time + 100 -- now the two others have expired
            local fresh = assert(manager:acquire("run"))
            assert.are_not.equal(gone, fresh)
            assert.same({ 4 }, place.fake:alive())
        end)
    end)

    describe("makes a new one", function()
        it("when the held one has expired, which is disposed in the background", function()
            local manager, place = managed.new({ limits = { timeout_ms = 100 } })
            place.fake.plan_dispose = managed.wait
            assert(manager:acquire("run"))
            place.time = place.time + 99
            assert.is_true(select(2, assert(manager:acquire("run"))))
            place.time = place.time + 1
            assert.is_false(select(2, assert(manager:acquire("run")))) -- though the disposal is not over
            assert.same({ 1, 2 }, place.fake:alive())
            place.fake.accounts[1].disposal:finish()
            assert.same({ 2 }, place.fake:alive())
        end)

        it("when the held one is gone, and disposes what is left of it", function()
            local manager, place = managed.new()
            assert(manager:acquire("run"))
            place.fake:lose(1)
            assert.is_false(select(2, assert(manager:acquire("run"))))
            assert.same({ 2 }, place.fake:alive())
        end)

        it("and a disposal in the background that fails goes to on_error and stops nothing", function()
            local manager, place = managed.new()
            local failure = errors.sandbox("remove_failed", "busy")
            place.fake.plan_dispose = function()
                return { "fail", failure }
            end
            assert(manager:acquire("run"))
            place.fake:lose(1)
            assert(manager:acquire("run"))
            assert.same({ failure }, place.errors)
        end)
    end)

    describe("with a provider that misbehaves:", function()
        local function acquire(outcome)
            local manager, place = managed.new()
            place.fake.plan_create = function()
                return outcome
            end
            return manager:acquire("run")
        end

        it("a raise is create_failed, with what was raised as cause", function()
            local err = assert_error("create_failed", acquire({ "raise", "on purpose" }))
            assert.equal("on purpose", err.cause)
            assert.matches("on purpose", err.message)
        end)

        it("nonsense is create_failed", function()
            assert_error("create_failed", acquire({ "give" }))
            assert_error("create_failed", acquire({ "give", nil, "words", n = 3 }))
            assert_error("create_failed", acquire({ "give", true }))
            assert_error("create_failed", acquire({ "give", {} }))
        end)

        it("a failure that is an error of this library stays what it is", function()
            local failure = errors.sandbox("network_none", "no network, no clone")
            local _, err = acquire({ "fail", failure })
            assert.equal(failure, err)
        end)
    end)

    it("does not start in a callback", function()
        local manager, place = managed.new()
        local message
        local signal = sandbox.signal()
        signal:on_abort(function()
            local _, raised = pcall(manager.acquire, manager, "run")
            message = raised
        end)
        signal:abort()
        assert.matches("acquire waits, and an abort listener must not", message)
        assert.equal(0, place.fake.created)
    end)
end)
