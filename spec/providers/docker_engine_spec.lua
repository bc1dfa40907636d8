-- Engines that are not there, or not what they should be: none of this needs one.

local base64 = require "chamvi.sandbox.base64"
local docker = require "chamvi.sandbox.docker"
local engine_proxy = require "spec.support.engine_proxy"
local fails = require("spec.support.fails")("SandboxError")
local native = require "chamvi.sandbox.core"
local other_user = require "spec.support.other_user"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

describe("an engine", function()
    local function provider(host, options)
        local given = { docker = { host = host } }
        for name, value in pairs(options or {}) do
            given[name] = value
        end
        given.on_error = function(err)
            error(err)
        end
        return docker.create_docker_sandbox(given)
    end

    local function unreachable(host)
        local err = fails("engine_unreachable", provider(host):create({ run_id = "spec" }))
        assert.equal(err.message, fails("engine_unreachable", provider(host):collect_garbage()).message)
        return err.message
    end

    it("that is not there is unreachable", function()
        assert.matches("/nonexistent/socket: there is no such socket", unreachable("unix:///nonexistent/socket"))
        local folder = scratch.folder()
        scratch.write(folder .. "/file", "")
        unreachable("unix://" .. folder .. "/file")
        scratch.remove(folder)
        unreachable("tcp://127.0.0.1:1")
        -- Where names are resolved slowly the words are now these, now others.
        local nowhere = "tcp://no-such-host.invalid:2375"
        fails("engine_unreachable", provider(nowhere):create({ run_id = "spec" }))
        fails("engine_unreachable", provider(nowhere):collect_garbage())
    end)

    it("whose socket nobody serves is unreachable", function()
        local folder = scratch.folder()
        -- Its server has gone without removing it.
        local server = "require(\"net\").createServer().listen(\"%s/dead\", () => process.kill(process.pid, 9))"
        scratch.shell(("node -e '" .. server .. "' || true"):format(folder))
        assert.matches("refused", unreachable("unix://" .. folder .. "/dead"))
        scratch.remove(folder)
    end)

    it("whose socket is closed to this user is unreachable", function()
        if not other_user.is_root() then
            return pending("only root can become another user")
        end
        local folder = scratch.folder()
        scratch.shell("chmod 711 " .. folder)
        local server = assert(io.popen(("exec node -e 'require(\"net\").createServer().listen(\"%s/socket\");"
            .. "process.stdin.resume(); process.stdin.on(\"end\", () => process.exit())'"):format(folder), "w"))
        scratch.write(folder .. "/program.lua", ([[
            local docker = require "chamvi.sandbox.docker"
            local provider = docker.create_docker_sandbox({ docker = { host = "unix://%s/socket" } })
            local _, err = provider:create({ run_id = "spec" })
            print(err.code, err.message)
        ]]):format(folder))
        support.wait_until(function()
            return scratch.shell(("test -S %s/socket && echo yes || true"):format(folder)) == "yes\n"
        end, "the socket")
        scratch.shell(("chmod 600 %s/socket"):format(folder))
        other_user.copy(folder .. "/copy", { folder .. "/program.lua" })
        local text = scratch.shell(other_user.command(1000, folder .. "/copy", folder .. "/home", "program.lua"))
        server:close()
        scratch.remove(folder)
        assert.matches("^engine_unreachable\t.*[Pp]ermission denied", text)
    end)

    describe("that a script plays", function()
        local proxy

        before_each(function()
            proxy = engine_proxy.start()
        end)

        after_each(function()
            proxy:stop()
        end)

        local function ping(version, status)
            return { match = "^GET /_ping", act = "answer", status = status or 200, body = "OK",
                headers = { ["Api-Version"] = version } }
        end

        local nothing = { match = "^GET /(containers|volumes)", act = "answer", status = 200, body = "[]" }

        it("is asked at the newest version that both know", function()
            for newest, used in pairs({ ["1.40"] = "1.40", ["1.41"] = "1.41", ["1.47"] = "1.47", ["1.48"] = "1.47",
                ["1.52"] = "1.47", ["2.0"] = "1.47" }) do
                proxy:set({ ping(newest), nothing })
                assert.equal(0, provider(proxy.host):collect_garbage())
                assert.equal("v" .. used, proxy:versions()[2])
            end
        end)

        it("that is too old is refused, with what is needed", function()
            for _, version in ipairs({ "1.39", "1.9", "0.9" }) do
                proxy:set({ ping(version), nothing })
                local err = fails("engine_unreachable", provider(proxy.host):collect_garbage())
                assert.matches("too old.*1%.40 is needed", err.message)
            end
        end)

        it("is asked for its version once, and again after it was away", function()
            proxy:set({ ping("1.41"), nothing })
            local one = provider(proxy.host)
            assert.equal(0, one:collect_garbage())
            assert.equal(0, one:collect_garbage())
            assert.equal(1, select(2, table.concat(proxy:requests(), "\n"):gsub("/_ping", "")))
            proxy:set({ ping("1.44"), { match = "^GET /containers", act = "drop" } })
            assert.is_nil((one:collect_garbage()))
            proxy:set({ ping("1.44"), nothing })
            assert.equal(0, one:collect_garbage())
            assert.equal("v1.44", proxy:versions()[2])
        end)

        it("that is another server is unreachable", function()
            for _, rule in ipairs({
                { status = 200, body = "<html>" }, { status = 404, body = "no" }, { status = 500, body = "" },
                { status = 200, headers = { ["Api-Version"] = "one" } },
            }) do
                rule.match, rule.act = "^GET /_ping", "answer"
                proxy:set({ rule })
                local err = fails("engine_unreachable", provider(proxy.host):create({ run_id = "spec" }))
                assert.matches("no Docker Engine answers", err.message)
            end
            proxy:set({ { match = "^GET /_ping", act = "drop" } })
            local _, err = provider(proxy.host):create({ run_id = "spec" })
            assert.equal("create_failed", err.code)
        end)

        it("that answers nonsense makes no workspace", function()
            local image = { match = "^GET /images", act = "answer", status = 200, body = "{}" }
            local created = { match = "^POST /containers/create", act = "answer", status = 201, body = '{"Id":"x"}' }
            local missing = { match = "^DELETE", act = "answer", status = 404, body = "{}" }
            for _, rule in ipairs({
                { match = "^POST /containers/create", act = "answer", status = 200, body = "<html>" },
                { match = "^POST /containers/create", act = "answer", status = 500, body = ("x"):rep(100000) },
                { match = "^POST .*/attach", act = "answer", status = 200, body = "no upgrade" },
                { match = "^POST .*/attach", act = "answer", status = 404, body = "\255\0" },
            }) do
                proxy:set({ ping("1.41"), image, rule, created, missing })
                local err = fails("create_failed", provider(proxy.host):create({ run_id = "spec" }))
                assert.is_true(#err.message <= 1024)
                assert.is_true(err.detail == nil or #err.detail <= 4096)
            end
        end)

        it("whose word of the container is odd makes a workspace, or leaves none", function()
            local image = { match = "^GET /images", act = "answer", status = 200, body = "{}" }
            local created = { match = "^POST /containers/create", act = "answer", status = 201, body = '{"Id":"x"}' }
            local attached = { match = "^POST .*/attach", act = "answer", status = 101,
                headers = { Connection = "Upgrade", Upgrade = "tcp" },
                body = "\1\0\0\0\0\0\0\6ready\n" }
            local started = { match = "^POST .*/start", act = "answer", status = 204 }
            local removed = { match = "^DELETE", act = "answer", status = 204 }
            local function create(inspected)
                proxy:set({ ping("1.41"), image, created, attached, started, removed,
                    { match = "^GET /containers", act = "answer", status = 200, body = inspected } })
                return provider(proxy.host):create({ run_id = "spec" })
            end
            local running = '{"Id":"x","State":{"Running":true,"StartedAt":"now"},"Mounts":%s}'
            for _, mounts in ipairs({ "[null]", "[1]", '["x",{"Destination":null},{"Name":1}]', "null", "7" }) do
                local workspace = assert(create(running:format(mounts)))
                assert(workspace:dispose())
            end
            for _, inspected in ipairs({ "null", "[]", "x", '{"Id":null,"State":{"Running":true}}',
                '{"Id":"x","State":{"Running":null}}', '{"Id":"x","State":null}' }) do
                fails("create_failed", create(inspected))
                local requests = proxy:requests()
                assert.matches("^DELETE /containers/", requests[#requests], inspected)
            end
        end)

        it("that leaves a limit out is heard", function()
            local messages = {}
            proxy:set({ ping("1.41"), { match = "^GET /images", act = "answer", status = 200, body = "{}" },
                { match = "^POST /containers/create", act = "answer", status = 201,
                    body = '{"Id":"x","Warnings":["no swap limit"]}' },
                { match = "^POST .*/attach", act = "answer", status = 500, body = "{}" },
                { match = "^DELETE", act = "answer", status = 204 } })
            fails("create_failed", provider(proxy.host, {
                on_event = function(event)
                    table.insert(messages, event.message)
                end,
            }):create({ run_id = "spec" }))
            assert.equal("the engine warns: no swap limit", messages[2])
        end)

        it("never has a credential that it repeats shown", function()
            local auth = { username = "robot", password = 's3"cr&t/p+w \\é', serveraddress = "r.example" }
            local json = assert(native.json_encode(auth))
            local shown = {}
            local function note(text)
                table.insert(shown, tostring(text))
            end
            local function attempt(rules)
                table.insert(rules, 1, ping("1.41"))
                proxy:set(rules)
                local one = docker.create_docker_sandbox({
                    docker = { host = proxy.host },
                    pull = "always",
                    registry_auth = auth,
                    on_event = function(event)
                        note(event.message)
                    end,
                    on_error = note,
                })
                local _, err = one:create({ run_id = "spec", image = "r.example/image" })
                while err do
                    note(err.message)
                    note(err.detail)
                    err = err.cause
                end
                note(select(2, one:collect_garbage()))
            end
            local echoes = {
                auth.password,
                auth.username .. ":" .. auth.password,
                json, -- and escaped again
                json:gsub("&", "\\u0026"),
                base64.encode_url(json),
                base64.encode_url(json):gsub("=", ""),
                base64.encode(json),
                base64.encode(json):gsub("%p", function(mark) return ("%%%02X"):format(mark:byte()) end),
                base64.encode("x" .. auth.username .. ":" .. auth.password),
                "https://robot:s3%22cr&t%2Fp%2Bw+%5C%C3%A9@r.example",
            }
            for _, echo in ipairs(echoes) do
                local body = assert(native.json_encode({ message = "denied: " .. echo }))
                attempt({ { match = "^POST /images", act = "answer", status = 500, body = body } })
                attempt({ { match = "^POST /images", act = "answer", status = 401, body = "denied: " .. echo } })
                attempt({ { match = "^POST /images", act = "answer", status = 200,
                    body = assert(native.json_encode({ status = echo, id = echo })) .. "\n"
                        .. assert(native.json_encode({ errorDetail = { message = "denied: " .. echo } })) } })
                -- Later, when it no longer is about the image.
                local pulled = { match = "^POST /images", act = "answer", status = 200, body = '{"status":"ok"}' }
                local removed = { match = "^DELETE", act = "answer", status = 204 }
                attempt({ pulled, removed, { match = "^", act = "answer", status = 409, body = body } })
                attempt({ pulled, removed, { match = "^POST /containers/create", act = "answer", status = 201,
                    body = assert(native.json_encode({ Warnings = { echo } })) },
                    { match = "^", act = "answer", status = 403, body = body } })
            end
            local all = table.concat(shown, "\n")
            for _, secret in ipairs({ "s3", "robot", base64.encode(json):sub(-30, -10),
                base64.encode("robot:"):sub(1, 6), "%%C3", "u0026t" }) do
                local at = all:find(secret)
                assert.is_nil(at, at and all:sub(math.max(1, at - 100), at + 100))
            end
            assert.matches("the engine says 500: denied: ***", all, 1, true)
            assert.matches("the pull failed: denied: ***", all, 1, true)
            assert.matches("the engine warns: ***", all, 1, true)
        end)

        it("that forbids is told apart", function()
            for _, status in ipairs({ 401, 403 }) do
                proxy:set({ ping("1.41"), { match = "^GET /(images|containers)", act = "answer", status = status,
                    body = '{"message":"authorization denied by plugin"}' } })
                local err = fails("forbidden", provider(proxy.host):create({ run_id = "spec" }))
                assert.matches("authorization denied", err.message)
                fails("forbidden", provider(proxy.host):collect_garbage())
            end
        end)
    end)
end)
