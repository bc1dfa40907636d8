-- Faults that attacks from outside have found, one spec each.

local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local LUA = jit and "luajit" or "lua5.4"

describe("an attack:", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })

    -- Runs a program and gives what it printed.
    local function run_program(text, wrapper)
        local file = place.folder .. "/program.lua"
        scratch.write(file, text)
        local command = ("%s %s"):format(LUA, file)
        return scratch.shell((wrapper and wrapper:format(command) or command) .. " 2>&1")
    end

    it("processes that could not be killed are told by every dispose, not only the first", function()
        local supervised = require "chamvi.sandbox.supervised"
        local workspaces = require "chamvi.sandbox.workspace"
        local compat = require "chamvi.sandbox.compat"
        local errors = require "chamvi.sandbox.errors"
        local answers = { { nil, errors.sandbox("kill_failed", "1 processes could not be killed") }, { true } }
        local workspace = workspaces.new({
            id = "x",
            info = {},
            backend = supervised.new(0, function()
                return compat.unpack(table.remove(answers, 1), 1, 2)
            end),
        })
        for _ = 1, 2 do
            local disposed, err = workspace:dispose()
            assert.is_nil(disposed)
            assert.equal("kill_failed", err.code)
        end
        assert.equal(0, #answers)
    end)

    it("a call below a C function blocks, and no later run is disturbed", function()
        place.with(function(workspace)
            local sorted = sandbox.run(function()
                local numbers = { 3, 1, 2 }
                table.sort(numbers, function(a, b)
                    assert(workspace:exec({ "true" }))
                    sandbox.sleep(1)
                    assert.equal("joined", sandbox.run(function()
                        return "joined"
                    end))
                    return a < b
                end)
                return numbers
            end)
            assert.same({ 1, 2, 3 }, sorted)
            assert.equal("next", sandbox.run(function()
                sandbox.sleep(5)
                return "next"
            end))
        end)
    end)

    -- A sanitizer needs a /proc itself.
    it("without /proc there is no workspace, rather than one that can leak #unsanitized", function()
        if scratch.shell("unshare -m sh -c 'umount -l /proc' 2>/dev/null && echo yes || true") ~= "yes\n" then
            pending("needs the right to make a mount namespace")
            return
        end
        local text = run_program(
            ([[
            local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = %q })
            local workspace, err = provider:create({ run_id = "spec" })
            print(workspace, err.code, err.message)
        ]]):format(place.root),
            "unshare -m sh -c 'umount -l /proc && exec %s'"
        )
        assert.is_truthy(text:find("^nil%s+create_failed%s+.*/proc"), text)
        assert.same({}, scratch.list(place.root))
    end)

    it("too many arguments are the model's error, however short each is", function()
        place.with(function(workspace)
            local argv = { "true" }
            for index = 2, 400000 do
                argv[index] = ""
            end
            local result, err = workspace:exec(argv)
            assert.is_nil(result)
            assert.equal("ValidationError", err.name)
            assert.equal("invalid_argv", err.code)
            for index = 1, 20 do
                argv[index + 1] = ("x"):rep(131071)
            end
            for index = 400000, 22, -1 do
                argv[index] = nil
            end
            result, err = workspace:exec(argv)
            assert.is_nil(result)
            assert.equal("ValidationError", err.name)
            assert.equal("invalid_argv", err.code)
            assert.equal(0, assert(workspace:exec({ "true" })).exit_code)
        end)
    end)

    it("a link that leads a working directory out is named as that", function()
        place.with(function(workspace)
            assert(workspace:exec({ "ln", "-s", "/", "out" }))
            local result, err = workspace:exec({ "true" }, { cwd = "out" })
            assert.is_nil(result)
            assert.equal("outside_workspace", err.code)
            assert.is_nil(err.message:find("cross%-device"))
        end)
    end)

    it("what a callback raises can make no message long, nor give it control bytes", function()
        place.with(function(workspace)
            local result, err = workspace:exec({ "echo" }, {
                on_output = function()
                    error(("x\n\0\27"):rep(100000), 0)
                end,
            })
            assert.is_nil(result)
            assert.equal("aborted", err.code)
            assert.is_true(#err.message < 2000)
            assert.is_nil(err.message:find("%c"))
            assert.equal(400000, #err.cause)
        end)
    end)

    it("methods called on something else say so", function()
        place.with(function(workspace)
            for _, method in ipairs({ "exec", "dispose", "read_file", "write_file" }) do
                for _, self in ipairs({ {}, "x", 1 }) do
                    local ok, err = pcall(workspace[method], self)
                    assert.is_false(ok)
                    assert.is_truthy(tostring(err):find("bad argument #1 to '" .. method .. "'", 1, true), err)
                end
            end
            local ok, err = pcall(sandbox.signal().abort, {})
            assert.is_false(ok)
            assert.is_truthy(tostring(err):find("bad argument #1 to 'abort'", 1, true))
        end)
    end)

    it("an argv's metamethods are not called", function()
        place.with(function(workspace)
            local function refuse()
                error("called")
            end
            local argv = setmetatable({ "true" }, { __pairs = refuse, __index = refuse, __len = refuse })
            assert.equal(0, assert(workspace:exec(argv)).exit_code)
        end)
    end)

    it("no part of a wrong repository is told to anybody", function()
        local urls = {
            "https://h/x?token=SECRET",
            "https://h/x#SECRET",
            "https:///u:SECRET@h/x",
            "https://u%3aSECRET%40h/x",
            "SECRET/../x",
            "/SECRET",
            "ssh://SECRET@h/x",
            "SECRET:path",
        }
        place.with(function(workspace)
            for _, url in ipairs(urls) do
                for _, make in ipairs({
                    function()
                        return place.provider():create({ run_id = "spec", repo = url })
                    end,
                    function()
                        return sandbox.prepare_workspace(workspace, { repo = url })
                    end,
                }) do
                    local made, err = make()
                    assert.is_nil(made)
                    assert.equal("invalid_repo", err.code)
                    assert.is_nil((err.message .. (err.detail or "")):find("SECRET", 1, true))
                end
            end
        end)
    end)

    -- What git says on a URL with a secret in it, put in for another one by its configuration.
    local function words_for(base)
        local made, err = place.provider():create({
            run_id = "spec",
            repo = "https://example.invalid/a/b",
            env = {
                GIT_CONFIG_COUNT = "1",
                GIT_CONFIG_KEY_0 = "url." .. base .. ".insteadOf",
                GIT_CONFIG_VALUE_0 = "https://example.invalid/",
            },
        })
        assert.is_nil(made)
        assert.equal("checkout_failed", err.code)
        return err.message .. "\n" .. err.detail
    end

    it("no password in a URL that git repeats is told to anybody, whatever it holds", function()
        for _, secret in ipairs({ "SECRET", "/SECRET", "SECRET/", "@SECRET", "%SECRET%2f", "SECRET SECRET", "a'SECRET",
            "SECRET://", "?SECRET", "#SECRET", "a/b/SECRET@c", "12/SECRET" }) do
            local words = words_for(("https://user:%s@127.0.0.1:1/"):format(secret))
            assert.is_nil(words:find("port 12", 1, true), words)
            assert.is_nil(words:find("SECRET", 1, true), words)
            assert.is_truthy(words:find("127.0.0.1:1/a/b/': ", 1, true), words)
        end
        local words = words_for("https://127.0.0.1:1/p?token=SECRET&x=")
        assert.is_nil(words:find("SECRET", 1, true), words)
        assert.is_truthy(words:find("'https://127.0.0.1:1/p?***': ", 1, true), words)
        assert.is_truthy(words_for("https://127.0.0.1:1/"):find("'https://127.0.0.1:1/a/b/': ", 1, true))
    end)

    it("of git's words a line that was cut off is dropped: a password may begin in it", function()
        local function words_of(stderr)
            local result = { exit_code = 128, stdout = "", stderr = stderr, stderr_truncated = true }
            local _, err = sandbox.prepare_workspace({
                exec = function()
                    return result
                end,
            })
            return err
        end
        local err = words_of("error: one\nsee https://h/a?b.\nfatal: unable to access 'https://user:SEC")
        assert.equal("git init failed: one", err.message)
        assert.equal("error: one\nsee https://h/a?***.", err.detail)
        assert.equal("git init failed: git ended with exit code 128", words_of("https://user:SEC").message)
    end)

    it("no text of a stranger takes time that grows with its square", function()
        local size = 1024 * 1024
        local function long(byte, count)
            return "x" .. byte:rep(count) .. "x"
        end
        scratch.write(place.folder .. "/config.json", ('{"auths":{"r":{"auth":"%s"}}}'):format(
            require("chamvi.sandbox.base64").encode("u:" .. long("\0", size / 2))))
        scratch.write(place.folder .. "/kubeconfig", ([[
            {"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://%s"}}],
            "users": [{"name": "u", "user": {"token": "t"}}]}]]):format(long("/", size / 2)))
        -- Hours of the processor, were it so.
        local printed = run_program(([[
            local base64 = require "chamvi.sandbox.base64"
            local credentials = require "chamvi.sandbox.docker.credentials"
            local errors = require "chamvi.sandbox.errors"
            local file_commands = require "chamvi.sandbox.remote.file_commands"
            local folder, size = %q, %d
            local sandbox = require "chamvi.sandbox"

            local function git_prints(exit_code, text)
                sandbox.prepare_workspace({
                    exec = function()
                        return { exit_code = exit_code, stdout = text, stderr = text }
                    end,
                }, { repo = "https://h/x" })
            end
            for unit in (" |a|=|/|\n|'|@|:|?|\128|://|'a://b@|: |\r\n"):gmatch("[^|]+") do
                local long = unit:rep(math.floor(size / #unit))
                for _, text in ipairs({ long, "x" .. long .. "x", "x" .. long .. "\nx" }) do
                    git_prints(128, text)
                    git_prints(0, text)
                    base64.decode(text)
                    file_commands.error(1, text)
                    errors.sandbox("spec", text)
                end
            end
            require("chamvi.sandbox.local").create_local_sandbox({ root = "/x" .. ("/"):rep(size) .. "x" })
            assert(credentials.header("r"))
            assert(require("chamvi.sandbox.k8s").load_kube_config({ path = folder .. "/kubeconfig" }))
            print("done")
        ]]):format(place.folder, size), ("ulimit -t 600; DOCKER_CONFIG=%s %%s"):format(place.folder))
        assert.equal("done\n", printed)
    end)

    it("a checkout can be tried again after one that failed", function()
        local repository = scratch.repository(place.folder .. "/repository")
        place.with(function(workspace)
            local prepared, err = sandbox.prepare_workspace(workspace, { repo = repository.url, ref = "nope" })
            assert.is_nil(prepared)
            assert.equal("checkout_failed", err.code)
            prepared = assert(sandbox.prepare_workspace(workspace, { repo = repository.url, ref = "v1" }))
            assert.equal(repository.first, prepared.commit)
            local url = assert(workspace:exec({ "git", "remote", "get-url", "origin" })).stdout
            assert.equal(repository.url .. "\n", url)
            assert.equal(0, assert(workspace:exec({ "git", "fetch", "-q", "origin" })).exit_code)
        end)
        scratch.remove(place.folder .. "/repository")
    end)

    it("a disposal waits for a collection that removes the same workspace", function()
        local late = place.provider({
            clock = {
                now = function()
                    return require("chamvi.sandbox.core").now_ms() + 1e9
                end,
            },
        })
        for _ = 1, 5 do
            local workspace = assert(place.provider():create({ run_id = "spec" }))
            assert(workspace:exec({ "sh", "-c", "for i in $(seq 500); do mkdir d$i; done" }))
            local results = sandbox.run(sandbox.all, {
                function()
                    return late:collect_garbage()
                end,
                function()
                    sandbox.sleep(1)
                    return workspace:dispose()
                end,
            })
            assert.is_number(results[1][1], tostring(results[1][2]))
            assert.is_true(results[2][1], tostring(results[2][2]))
            assert.same({}, scratch.list(place.root))
        end
    end)

    it("a clock that gives no whole number is named, with the caller's place", function()
        for _, time in ipairs({ "x", 1.5, 0 / 0, 1 / 0, true }) do
            local provider = place.provider({
                clock = {
                    now = function()
                        return time
                    end,
                },
            })
            local ok, err = pcall(provider.create, provider, { run_id = "spec" })
            assert.is_false(ok)
            assert.equal("InvalidAgentDefinitionError", err.name)
            assert.is_truthy(err.message:find("clock", 1, true))
            assert.is_truthy(err.where:find("attacks_spec", 1, true))
        end
    end)

    it("times are whole numbers, and messages valid UTF-8", function()
        local workspace = assert(place.provider({ limits = { timeout_ms = 60000.0 } }):create({ run_id = "spec" }))
        assert.is_nil(tostring(workspace.info.expires_at):find("[^%d]"))
        local _, err = workspace:read_file("caf\233")
        assert.is_truthy(err.message:find("caf\239\191\189", 1, true), err.message)
        assert.equal("a?b", require("chamvi.sandbox.errors").sandbox("x", "a\27b").message)
        assert(workspace:dispose())
    end)

    if jit then
        it("a forked child gets nothing of the parent's, and marks nothing disposed", function()
            local text = run_program(([[
                local ffi = require "ffi"
                ffi.cdef("int fork(void); int waitpid(int, int *, int); void _exit(int);")
                local sandbox = require "chamvi.sandbox"
                local provider = require("chamvi.sandbox.local").create_local_sandbox({ root = %q })
                local workspace = assert(provider:create({ run_id = "spec" }))
                io.stdout:setvbuf("no")
                local pid = ffi.C.fork()
                if pid == 0 then
                    print("pollfd", (select(2, sandbox.loop():pollfd())).code)
                    print("dispose", (select(2, workspace:dispose())).code, workspace.disposed)
                    print("exec", (select(2, workspace:exec({ "true" }))).code)
                    ffi.C._exit(0)
                end
                ffi.C.waitpid(pid, nil, 0)
                print("parent", workspace:exec({ "true" }).exit_code, workspace:dispose())
            ]]):format(place.root))
            assert.equal("pollfd\tclosed\ndispose\tclosed\tfalse\nexec\tclosed\nparent\t0\ttrue\n", text)
        end)
    end
end)
