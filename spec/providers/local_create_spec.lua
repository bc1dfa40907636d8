local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

describe("create of a local workspace", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })
    local repository, empty

    setup(function()
        repository = scratch.repository(place.folder .. "/repository with space")
        repository.url = repository.url:gsub(" ", "%%20")
        empty = scratch.empty_repository(place.folder .. "/empty.git")
    end)

    -- Asserts that the create fails with the code and leaves nothing, and returns its error.
    local function fails(code, given, options)
        given.run_id = "spec"
        local workspace, err = place.provider(options):create(given)
        assert.is_nil(workspace)
        assert.is_true(sandbox.is_error(err), tostring(err))
        assert.equal(code, err.code)
        assert.same({}, scratch.list(place.root))
        return err
    end

    it("gives an id and what is known of it", function()
        local provider = place.provider({
            limits = { timeout_ms = 5000 },
            clock = {
                now = function()
                    return 1000000
                end,
            },
        })
        local workspace = assert(provider:create({ run_id = "run 1", image = "ignored", limits = { cpu = "1" } }))
        assert.matches("^%x+%-%x+%-4%x+%-[89ab]%x+%-%x+$", workspace.id)
        assert.same({
            run_id = "run 1",
            provider = "local",
            created_at = 1000000,
            expires_at = 1005000,
        }, workspace.info)
        local script = "git status -s; echo commits: $(git rev-list --all | wc -l)"
        assert.equal("commits: 0\n", assert(workspace:exec({ "sh", "-c", script })).stdout)
        assert(workspace:dispose())

        workspace = assert(place.provider():create({ run_id = "run 1", limits = { timeout_ms = 7000 } }))
        assert.equal(7000, workspace.info.expires_at - workspace.info.created_at)
        assert.is_true(math.abs(workspace.info.created_at / 1000 - os.time()) < 60)
        assert(workspace:dispose())
    end)

    it("makes the root and the folders for their owner alone", function()
        local root = place.folder .. "/new/root"
        local workspace = assert(place.provider({ root = root .. "//" }):create({ run_id = "spec" }))
        local modes = scratch.shell(("stat -c '%%a' %s %s/*"):format(root, root))
        assert(workspace:dispose())
        -- the root, the folder, .home, .json, .tmp
        assert.equal("700\n700\n700\n600\n700\n", modes)
        scratch.remove(place.folder .. "/new")
    end)

    describe("checks out", function()
        -- The commit and the content of the file that a checkout gives.
        local function checkout(given)
            local commit, content
            place.with(function(workspace)
                commit = workspace.info.commit
                assert.equal(given.repo, workspace.info.repo)
                assert.equal(given.ref, workspace.info.ref)
                local head = assert(workspace:exec({ "git", "rev-parse", "HEAD" })).stdout
                assert.equal(commit .. "\n", head)
                assert.equal("HEAD\n", assert(workspace:exec({ "git", "rev-parse", "--abbrev-ref", "HEAD" })).stdout)
                content = assert(workspace:exec({ "cat", "name" })).stdout
            end, given)
            return commit, content
        end

        it("the default branch, a branch, a tag, a full ref, a full commit id", function()
            local expected = {
                [false] = { repository.main, "second\n" },
                ["main"] = { repository.main, "second\n" },
                ["topic/one"] = { repository.topic, "topic\n" },
                ["v1"] = { repository.first, "first\n" },
                ["v2"] = { repository.main, "second\n" },
                ["refs/heads/topic/one"] = { repository.topic, "topic\n" },
                ["refs/tags/v1"] = { repository.first, "first\n" },
                [repository.first] = { repository.first, "first\n" },
                [repository.topic] = { repository.topic, "topic\n" },
            }
            for ref, result in pairs(expected) do
                assert.same(result, { checkout({ repo = repository.url, ref = ref or nil }) })
            end
        end)

        it("an empty repository: without a commit, but with its origin", function()
            place.with(function(workspace)
                assert.is_nil(workspace.info.commit)
                assert.equal(empty .. "\n", assert(workspace:exec({ "git", "remote", "get-url", "origin" })).stdout)
            end, { repo = empty })
        end)

        it("so that more can be fetched and worked on later", function()
            place.with(function(workspace)
                local script = [[
                    set -e
                    git fetch --quiet --unshallow origin
                    git log --format=%s origin/topic/one
                    git checkout --quiet -b work
                    echo changed > name
                    git -c user.name=a -c user.email=a@example.com commit --quiet -am work
                ]]
                local result = assert(workspace:exec({ "sh", "-c", script }))
                assert.equal("topic\nsecond\nfirst\n", result.stdout)
                assert.equal(0, result.exit_code)
            end, { repo = repository.url })
        end)

        it("by prepare_workspace, for any workspace, with all inputs optional", function()
            local commands = {}
            local workspace = {
                exec = function(_, argv)
                    table.insert(commands, table.concat(argv, " "))
                    return { exit_code = 0, stdout = repository.main .. "\n", stderr = "" }
                end,
            }
            assert.same({}, sandbox.prepare_workspace(workspace))
            assert.equal(1, #commands)
            assert.matches(" init ", commands[1])
            local prepared = sandbox.prepare_workspace(workspace, { repo = "https://example.com/x.git", ref = "+odd" })
            assert.same({ commit = repository.main }, prepared)
            for _, command in ipairs(commands) do
                for _, part in ipairs({ "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS= ", "SSH_ASKPASS= ", "core.askPass= ",
                    "core.hooksPath=/dev/null", "credential.helper= ", "GIT_ALLOW_PROTOCOL=https:file" }) do
                    assert.is_truthy(command:find(part, 1, true), part)
                end
            end
            local all = table.concat(commands, "\n")
            assert.is_truthy(all:find("--depth 1", 1, true))
            assert.is_truthy(all:find("--end-of-options origin ++odd", 1, true))
            assert.is_truthy(all:find("checkout --quiet --detach " .. repository.main, 1, true))
            assert.has_error(function()
                sandbox.prepare_workspace(nil)
            end, "bad argument #1 to 'prepare_workspace' (workspace expected, got nil)")
        end)
    end)

    describe("refuses", function()
        it("a ref or repository that git can't find, in git's own words, and leaves nothing", function()
            local err = fails("checkout_failed", { repo = repository.url, ref = "no-such-ref" })
            assert.equal("SandboxError", err.name)
            assert.matches("no%-such%-ref", err.message)
            assert.matches("fatal: ", err.detail)
            fails("checkout_failed", { repo = repository.url, ref = repository.main:sub(1, 10) })
            fails("checkout_failed", { repo = repository.url, ref = ("0"):rep(40) })
            fails("checkout_failed", { repo = empty, ref = "main" })
            err = fails("checkout_failed", { repo = "file://" .. place.folder .. "/none" })
            assert.matches("fatal: ", err.detail)
            fails("checkout_failed", { repo = "https://127.0.0.1:1/owner/name.git" })
        end)

        it("every other transport", function()
            local marker = place.folder .. "/marker"
            fails("invalid_repo", { repo = "ext::sh -c touch% " .. marker })
            fails("invalid_repo", { repo = "ssh://127.0.0.1:1/owner/name" })
            fails("invalid_repo", { repo = "http://127.0.0.1:1/owner/name" })
            fails("invalid_repo", { repo = "--upload-pack=touch " .. marker })
            assert.is_nil(scratch.read(marker))
        end)

        it("wrong input of a model, of any type", function()
            local marker = place.folder .. "/marker"
            local hostile = "--upload-pack=touch " .. marker
            for _, ref in ipairs({ "", "-x", hostile, "a:b", "a b", "a^", "a~1", "*", "a\0", 5, {} }) do
                fails("invalid_ref", { repo = repository.url, ref = ref })
            end
            for _, repo in ipairs({ "", "a\nb", "a\0", 5, {}, true }) do
                fails("invalid_repo", { repo = repo })
            end
            fails("invalid_input", { ref = "main" })
            assert.is_nil(scratch.read(marker))
        end)

        it("user info in a URL, and never says it again", function()
            local err = fails("invalid_repo", { repo = "https://user:hunter2@127.0.0.1:1/owner/name" })
            assert.not_matches("hunter2", tostring(err))
            assert.is_nil(err.detail)
        end)
    end)

    it("runs no hook and asks nobody, whatever the configured environment says", function()
        local marker = place.folder .. "/marker"
        local ask = place.folder .. "/ask"
        scratch.write(ask, "#!/bin/sh\ntouch " .. marker .. "\n")
        scratch.shell("mkdir -p " .. place.folder .. "/hooks && chmod +x " .. ask)
        for _, hook in ipairs({ "post-checkout", "reference-transaction" }) do
            scratch.shell(("ln -sf %s %s/hooks/%s"):format(ask, place.folder, hook))
        end
        local provider = place.provider({
            env = {
                GIT_ASKPASS = ask,
                SSH_ASKPASS = ask,
                GIT_CONFIG_COUNT = "1",
                GIT_CONFIG_KEY_0 = "core.hooksPath",
                GIT_CONFIG_VALUE_0 = place.folder .. "/hooks",
            },
        })
        local workspace = assert(provider:create({ run_id = "spec", repo = repository.url }))
        assert(workspace:dispose())
        assert.is_nil(scratch.read(marker))
    end)

    it("that is aborted ends at once and leaves nothing", function()
        local bin = place.folder .. "/bin"
        scratch.shell("mkdir " .. bin)
        scratch.write(bin .. "/git", "#!/bin/sh\necho $$ > " .. place.folder .. "/git.pid\nexec sleep 1000\n")
        scratch.shell("chmod +x " .. bin .. "/git")
        local signal = sandbox.signal()
        local started = require("chamvi.sandbox.core").monotonic_ms()
        sandbox.run(function()
            sandbox.spawn(function()
                support.wait_until(function()
                    return (scratch.read(place.folder .. "/git.pid") or ""):find("\n")
                end, "git")
                signal:abort("changed my mind")
            end)
            local path = { PATH = bin .. ":/usr/bin:/bin" }
            local err = fails("aborted", { signal = signal, repo = repository.url }, { env = path })
            assert.equal("changed my mind", err.cause)
        end)
        assert.is_true(require("chamvi.sandbox.core").monotonic_ms() - started < 60000)
        assert.is_false(scratch.is_alive(tonumber(scratch.read(place.folder .. "/git.pid"))))
        -- One that was aborted before does not begin.
        fails("aborted", { signal = signal })
    end)

    it("without git says so", function()
        local err = fails("checkout_failed", {}, { env = { PATH = "/nowhere" } })
        assert.matches("no git", err.message)
    end)

    it("that can't make its folders says why", function()
        scratch.write(place.folder .. "/file", "")
        local err = fails("create_failed", {}, { root = place.folder .. "/file/root" })
        assert.matches("Not a directory", err.message)
        assert.is_true(sandbox.is_error(err.cause, "SandboxError"))
    end)

    it("works side by side, and from a coroutine that is no task", function()
        sandbox.run(function()
            local created = sandbox.all({
                function()
                    return place.provider():create({ run_id = "a", repo = repository.url })
                end,
                function()
                    return place.provider():create({ run_id = "b", repo = repository.url, ref = "v1" })
                end,
            })
            local other = coroutine.wrap(function()
                coroutine.yield(place.provider():create({ run_id = "c", repo = empty }))
            end)()
            assert.equal(repository.main, created[1][1].info.commit)
            assert.equal(repository.first, created[2][1].info.commit)
            for _, workspace in ipairs({ created[1][1], created[2][1], other }) do
                assert(workspace:dispose())
            end
        end)
    end)
end)
