-- HTTP requests and streams, against Node's servers.

local core = require "chamvi.sandbox.core"
local http = require "chamvi.sandbox.http"
local http_server = require "spec.support.http_server"
local node_server = require "spec.support.node_server"
local programs = require "spec.support.programs"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local turns_during = require "spec.support.turns"

-- No host has this name, with a part that is longer than 63 characters: no name server is asked.
local NOBODY = ("x"):rep(64) .. ".invalid"

describe("http", function()
    if not node_server.available then
        pending("no node here")
        return
    end

    local server

    setup(function()
        server = http_server.start()
    end)

    teardown(function()
        server.stop()
    end)

    local function with(options, more)
        local merged = {}
        for _, from in ipairs({ options, more or {} }) do
            for key, value in pairs(from) do
                merged[key] = value
            end
        end
        return merged
    end

    local function on_unix(path, more)
        return with({ url = "http://engine" .. path, socket = server.folder .. "/socket" }, more)
    end

    local function on_tcp(path, more)
        return with({ url = ("http://127.0.0.1:%d%s"):format(server.ports.plain, path) }, more)
    end

    local function on_tls(name, path, more)
        local url = ("https://localhost:%d%s"):format(server.ports[name], path)
        return with({ url = url, ca_file = server.folder .. "/ca.pem", connect_ms = 60000 }, more)
    end

    local function pem(name)
        return scratch.read(("%s/%s.pem"):format(server.folder, name))
    end

    -- Listed into a file: of a pipe to `ls` one or both ends would be seen.
    local function descriptors()
        local file = server.folder .. "/descriptors"
        os.execute(("ls /proc/%d/fd > %s"):format(scratch.pid(), file))
        local _, count = scratch.read(file):gsub("\n", "")
        return count
    end

    local function decoded(response, err)
        assert(response, tostring(err))
        return core.json_decode(response.body)
    end

    local function assert_error(code, words, value, err)
        assert.is_nil(value)
        assert.is_true(sandbox.is_error(err, "SandboxError"))
        assert.equal(code, err.code, err.message)
        assert.is_truthy(err.message:find(words, 1, true), err.message)
        return err
    end

    describe("request", function()
        it("sends what it is given and brings the whole answer", function()
            for _, on in ipairs({ on_unix, on_tcp }) do
                local response = assert(http.request(on("/echo/a%20b?c=d", {
                    method = "POST",
                    headers = { ["Content-Type"] = "application/json", ["X-Empty"] = "" },
                    body = "{\255}",
                })))
                assert.equal(200, response.status)
                assert.equal("application/json", response.headers["content-type"])
                local seen = decoded(response)
                assert.equal("POST", seen.method)
                assert.equal("/echo/a%20b?c=d", seen.url)
                assert.equal("application/json", seen.headers["content-type"])
                assert.equal("", seen.headers["x-empty"])
                assert.equal("{\195\191}", seen.body) -- latin1 as UTF-8
            end
        end)

        it("takes any status for an answer", function()
            local response = assert(http.request(on_unix("/none")))
            assert.equal(404, response.status)
            assert.equal("no such route", decoded(response).message)
        end)

        it("joins the fields of one name", function()
            assert.equal("a, b", assert(http.request(on_unix("/two"))).headers["x-two"])
        end)

        it("keeps its connections, and its descriptors stay as many", function()
            for _, on in ipairs({ on_unix, on_tcp, function(path)
                return on_tls("tls", path)
            end }) do
                local before = decoded(http.request(on("/counts"))).connections
                collectgarbage() -- what earlier specs left may go meanwhile
                local open = descriptors()
                for _ = 1, on == on_unix and 1000 or 100 do
                    assert.equal(200, assert(http.request(on("/two"))).status)
                end
                assert.equal(before, decoded(http.request(on("/counts"))).connections, on("").url)
                assert.is_true(descriptors() <= open)
            end
        end)

        it("lets other tasks go on", function()
            local order, signal = {}, sandbox.signal()
            sandbox.run(function()
                sandbox.all({
                    function()
                        local _, err = http.request(on_unix("/hang", { signal = signal }))
                        table.insert(order, err.code)
                    end,
                    function()
                        assert(http.request(on_unix("/two")))
                        sandbox.sleep(1)
                        table.insert(order, "other")
                        signal:abort()
                    end,
                })
            end)
            assert.same({ "other", "aborted" }, order)
        end)

        it("serves many tasks at once", function()
            local functions = {}
            for i = 1, 100 do
                functions[i] = function()
                    return decoded(http.request(on_unix("/echo", { body = "body " .. i, method = "PUT" }))).body
                end
            end
            local results = sandbox.run(sandbox.all, functions)
            for i = 1, 100 do
                assert.equal("body " .. i, results[i][1])
            end
        end)

        it("tells what is wrong", function()
            local missing = { url = "http://engine/", socket = server.folder .. "/nothing" }
            assert_error("engine_unreachable", "there is no such socket", http.request(missing))
            assert_error("engine_unreachable", "connection refused", http.request({ url = "http://127.0.0.1:1/" }))
            assert_error("engine_unreachable", "can't be resolved", http.request({ url = "http://" .. NOBODY }))
            assert_error("transport_lost", "cut its answer short", http.request(on_unix("/cut")))
            assert_error("timed_out", "gave no answer within 50 ms",
                http.request(on_unix("/hang", { timeout_ms = 50 })))
            assert_error("response_too_large", "longer than 1000 bytes",
                http.request(on_unix("/flood/100000", { max_bytes = 1000 })))
            assert_error("invalid_request", "the URL is malformed", http.request({ url = "http://" }))
            assert_error("invalid_request", "control bytes",
                http.request(on_unix("/", { headers = { A = "b\r\nc: d" } })))
        end)

        it("raises on a field of a wrong type", function()
            assert.has_error(function()
                http.request({})
            end)
            assert.has_error(function()
                http.request(on_unix("/", { timeout_ms = "soon" }))
            end)
            assert.has_error(function()
                http.request(on_unix("/", { headers = { "no name" } }))
            end)
            assert.has_error(function()
                http.request(on_unix("/", { method = "GET\0" }))
            end)
        end)

        it("is aborted by its signal", function()
            local signal = sandbox.signal()
            sandbox.run(function()
                sandbox.spawn(function()
                    sandbox.sleep(20)
                    signal:abort("enough")
                end)
                local err = assert_error("aborted", "enough", http.request(on_unix("/hang", { signal = signal })))
                assert.equal("enough", err.cause)
            end)
            assert_error("aborted", "enough", http.request(on_unix("/two", { signal = signal })))
        end)

        it("leaves the signals of the program alone", function()
            local function signals()
                return scratch.read("/proc/self/status"):match("SigBlk.-SigCgt:[^\n]+")
            end
            local before = signals()
            assert(http.request(on_unix("/two")))
            assert(http.request(on_tls("tls", "/two")))
            assert.equal(before, signals())
        end)

        it("keeps secrets out of its errors", function()
            local secret = "s3cret"
            local _, err = http.request({
                url = "http://127.0.0.1:1/" .. secret,
                headers = { Authorization = "Bearer " .. secret },
                proxy = "nonsense://user:" .. secret .. "@127.0.0.1:1",
            })
            assert.is_nil((tostring(err) .. tostring(err.detail)):find(secret, 1, true))
            _, err = http.request({ url = "http://user:" .. secret .. "@127.0.0.1:1/" })
            assert.equal("invalid_request", err.code)
            assert.is_nil(err.message:find(secret, 1, true))
        end)
    end)

    describe("TLS", function()
        it("trusts the CA that it is given, as a file or as text", function()
            assert.equal("GET", decoded(http.request(on_tls("tls", "/echo"))).method)
            local text = { url = on_tls("tls", "/echo").url, ca = pem("ca") }
            assert.equal("GET", decoded(http.request(text)).method)
        end)

        it("trusts nobody else", function()
            local url = on_tls("tls", "/echo").url
            local words = "the server's certificate is not trusted"
            assert_error("engine_unreachable", words, http.request({ url = url }))
            assert_error("engine_unreachable", words, http.request({ url = url, ca = pem("stranger") }))
            assert_error("engine_unreachable", "expired", http.request(on_tls("expired", "/echo")))
            assert_error("engine_unreachable", "no alternative certificate subject name matches",
                http.request(on_tls("other", "/echo")))
            assert_error("engine_unreachable", "the CA certificates can't be read",
                http.request({ url = url, ca = "nonsense" }))
            assert_error("engine_unreachable", "the CA certificates can't be read",
                http.request({ url = url, ca_file = "/nonexistent" }))
        end)

        it("asks for another name where it is told to", function()
            local seen = decoded(http.request(on_tls("other", "/echo", { server_name = "engine.example" })))
            assert.equal("engine.example", seen.name)
            assert.equal("localhost:" .. server.ports.other, seen.headers.host)
        end)

        it("takes any certificate where it is told to", function()
            local url = on_tls("expired", "/echo").url
            assert.equal("GET", decoded(http.request({ url = url, insecure = true })).method)
        end)

        it("shows the client's certificate, as a file or as text", function()
            for _, name in ipairs({ "client", "client12" }) do
                local folder = server.folder
                local files = { cert_file = folder .. "/client.pem", key_file = folder .. "/client-key.pem" }
                assert.equal("client", decoded(http.request(on_tls(name, "/echo", files))).client)
                local text = { cert = pem("client"), key = pem("client-key") }
                assert.equal("client", decoded(http.request(on_tls(name, "/echo", text))).client)
            end
        end)

        it("tells that the client's certificate lacks, is refused or can't be used", function()
            for _, name in ipairs({ "strict", "strict12" }) do
                local client = { cert = pem("client"), key = pem("client-key") }
                assert.equal(200, assert(http.request(on_tls(name, "/", client))).status)
                assert_error("engine_unreachable", "it wants a client certificate", http.request(on_tls(name, "/")))
                local stranger = { cert = pem("stranger"), key = pem("stranger-key") }
                assert_error("engine_unreachable", "refuses the client certificate",
                    http.request(on_tls(name, "/", stranger)))
            end
            local wrong = {
                { cert = pem("client"), key = pem("stranger-key") },
                { cert = pem("client"), key = "nonsense" },
                { cert = pem("client"), key = pem("locked-key") }, -- and nobody is asked for its pass phrase
                { cert_file = "/nonexistent", key = pem("client-key") },
            }
            for _, options in ipairs(wrong) do
                local err = assert_error("engine_unreachable", "the client certificate or its key can't be used",
                    http.request(on_tls("strict", "/", options)))
                assert.is_nil(err.message:find("BEGIN", 1, true))
            end
        end)

        it("carries streams", function()
            local options = on_tls("client", "/echo", {
                upgrade = "tcp", cert = pem("client"), key = pem("client-key"),
            })
            local stream = assert(http.stream(options))
            assert(stream:write("hello"))
            assert.equal("hello", stream:read())
            stream:close()
        end)

        if jit then
            it("is not disturbed by a forked child that ends", function()
                local path = server.folder .. "/forking.lua"
                scratch.write(path, ([[
                    local ffi = require "ffi"
                    ffi.cdef("int fork(void); int waitpid(int, int *, int);")
                    local http = require "chamvi.sandbox.http"
                    io.stdout:setvbuf("no")
                    local options = { url = %q, ca_file = %q, upgrade = "tcp" }
                    local stream = assert(http.stream(options))
                    assert(http.request(options)) -- leaves an idle connection
                    if ffi.C.fork() == 0 then
                        print(select(2, pcall(stream.write, stream, "x")))
                        print(select(2, http.request(options)))
                        os.exit(0, true) -- closes the state, and the core with it
                    end
                    ffi.C.waitpid(-1, nil, 0)
                    assert(stream:write("hello"))
                    print(stream:read(), http.request(options).status)
                    stream:close()
                ]]):format(on_tls("tls", "/echo").url, server.folder .. "/ca.pem"))
                local lines = scratch.shell("luajit " .. path)
                local refused = "SandboxError: used in a forked process: start anew in the child"
                assert.equal(("nil\t%s\n%s\nhello\t200\n"):format(refused, refused), lines)
            end)
        end

        it("takes all that is written to a server that reads late", function()
            local stream = assert(http.stream(on_tls("tls", "/late", { upgrade = "tcp" })))
            local all, text = 16000000, ""
            sandbox.run(function()
                local writer = sandbox.spawn(function()
                    for _ = 1, all / 10000 do -- each behind what waits
                        assert(stream:write(("x"):rep(10000)))
                    end
                end)
                repeat
                    text = (text .. assert(stream:read())):sub(-100)
                until text:find(("%d\n"):format(all), 1, true)
                writer:join()
            end)
            stream:close()
        end)

        it("lets others have their turn while a quick server takes all that we write", function()
            local stream = assert(http.stream(on_tcp("/count", { upgrade = "tcp" })))
            local turns = turns_during(function()
                for _ = 1, 2000 do
                    assert(stream:write(("x"):rep(1000)))
                end
            end)
            assert.is_true(turns >= 4, turns)
            stream:close()
        end)

        it("survives a server that goes while we write", function()
            local stream = assert(http.stream(on_tls("tls", "/reset", { upgrade = "tcp" })))
            local ok, err = true, nil
            while ok do -- a signal for writing on a dead connection would end this process
                ok, err = stream:write(("x"):rep(100000))
            end
            assert.is_truthy(err.code == "closed" or err.code == "transport_lost", err.code)
            stream:close()
        end)
    end)

    describe("a proxy", function()
        local function proxied()
            return decoded(http.request(on_unix("/counts"))).proxied
        end

        local function url()
            return ("http://127.0.0.1:%d"):format(server.ports.proxy)
        end

        it("is used where it is given", function()
            local before = proxied()
            local through = decoded(http.request(on_tcp("/echo", { proxy = url() })))
            assert.equal(on_tcp("/echo").url, through.proxied)
            assert.equal("GET", decoded(http.request(on_tls("tls", "/echo", { proxy = url() }))).method)
            local stream = assert(http.stream(on_tcp("/echo", { proxy = url(), upgrade = "tcp" })))
            assert(stream:write("hello"))
            assert.equal("hello", stream:read())
            stream:close()
            assert.equal(before + 3, proxied())
        end)

        it("is not used for a unix socket", function()
            local before = proxied()
            assert(http.request(on_unix("/two", { proxy = url(), proxy_env = true })))
            assert.equal(before, proxied())
        end)

        it("is taken from the environment only where that is asked for, and not for this machine", function()
            local program = ([[
                local http = require "chamvi.sandbox.http"
                local function ask(url, proxy_env)
                    local answer = http.request{ url = url, proxy_env = proxy_env }
                    io.write(answer and answer.body:match("GET") or answer and "proxied" or "failed", " ")
                end
                ask(%q, true)
                ask("http://%s/echo")
                ask("http://%s/echo", true)
            ]]):format(on_tcp("/echo").url, NOBODY, NOBODY)
            local path = server.folder .. "/program.lua"
            scratch.write(path, program)
            local function run(name, no_proxy)
                local unset = "env -u http_proxy -u HTTP_PROXY -u all_proxy -u ALL_PROXY -u no_proxy"
                return scratch.shell(("%s %s=%s NO_PROXY=%s %s %s"):format(unset, name, url(), no_proxy, programs.LUA,
                    path))
            end
            assert.equal("GET failed proxied ", run("http_proxy", "''"))
            assert.equal("GET failed proxied ", run("HTTP_PROXY", "127.0.0.1,other.invalid"))
            assert.equal("GET failed failed ", run("HTTP_PROXY", "'*.invalid'"))
            assert.equal("GET failed failed ", run("ALL_PROXY", "''"))
        end)
    end)

    describe("open", function()
        it("brings the body as it comes", function()
            local download = assert(http.open(on_unix("/pull")))
            assert.equal(200, download.status)
            local splitter, lines, chunks = core.ndjson(1000), {}, 0
            for bytes in function() return download:read() end do
                chunks = chunks + 1
                for _, line in ipairs(assert(splitter:feed(bytes))) do
                    table.insert(lines, core.json_decode(line))
                    assert(http.request(on_unix("/pull_on")))
                end
            end
            assert.equal(5, #lines)
            assert.equal(5, lines[5].current)
            assert.equal("no such image", core.json_decode(splitter:finish()).error)
            assert.is_true(chunks >= 5)
            assert.is_nil(download:read())
            download:close()
        end)

        it("brings another status's body at once", function()
            local download = assert(http.open(on_unix("/none")))
            assert.equal(404, download.status)
            assert.equal("no such route", core.json_decode(download.body).message)
            assert.is_nil(download:read())
        end)

        it("reads no faster than it is read", function()
            local function flooded()
                return decoded(http.request(on_unix("/counts"))).flooded
            end
            local before, total = flooded(), 0
            local download = assert(http.open(on_unix("/flood/50000000")))
            sandbox.sleep(300)
            local ahead = flooded() - before
            assert.is_true(ahead > 0 and ahead < 8000000, ahead)
            for bytes in function() return download:read() end do
                total = total + #bytes
            end
            assert.equal(50000000, total)
            assert.equal(50000000, flooded() - before)
        end)

        it("tells of a cut behind what had come", function()
            local download = assert(http.open(on_unix("/cut")))
            assert.equal("half", download:read())
            assert_error("transport_lost", "cut its answer short", download:read())
            assert_error("transport_lost", "cut its answer short", download:read())
        end)

        it("is cut by close and by its signal", function()
            local download = assert(http.open(on_unix("/flood/50000000")))
            assert(download:read())
            download:close()
            download:close()
            assert_error("closed", "the download was closed", download:read())
            local signal = sandbox.signal()
            download = assert(http.open(on_unix("/flood/50000000", { signal = signal })))
            assert(download:read())
            signal:abort("enough")
            sandbox.sleep(1)
            assert_error("aborted", "enough", download:read())
        end)
    end)

    describe("stream", function()
        it("carries bytes both ways, as many as one likes", function()
            for _, on in ipairs({ on_unix, on_tcp }) do
                local stream = assert(http.stream(on("/echo", { upgrade = "tcp", body = "{}" })))
                assert.equal("tcp", stream.headers.upgrade)
                local sent, length = ("0123456789"):rep(300000), 0
                sandbox.run(function()
                    local writer = sandbox.spawn(function()
                        assert(stream:write(sent))
                        stream:shutdown()
                    end)
                    for bytes in function() return stream:read() end do
                        assert.equal(sent:sub(length + 1, length + #bytes), bytes)
                        length = length + #bytes
                    end
                    writer:join()
                end)
                assert.equal(#sent, length)
                stream:close()
            end
        end)

        it("ends one way alone, over TLS too", function()
            for _, options in ipairs({ on_unix("/count"), on_tcp("/count") }) do
                local stream = assert(http.stream(with(options, { upgrade = "tcp" })))
                assert(stream:write("hello"))
                stream:shutdown()
                assert_error("closed", "takes no more bytes", stream:write("x"))
                assert.equal("5", stream:read())
                assert.is_nil(stream:read())
                stream:close()
            end
        end)

        it("is taken apart where it is Docker's", function()
            local stream = assert(http.stream(on_unix("/docker", { upgrade = "tcp" })))
            local decoder, out = core.docker_stream(), { stdout = "", stderr = "" }
            for bytes in function() return stream:read() end do
                local pieces = assert(decoder:feed(bytes))
                for i = 1, #pieces, 2 do
                    out[pieces[i]] = out[pieces[i]] .. pieces[i + 1]
                end
            end
            assert.is_true(decoder:whole())
            assert.same({ stdout = "output", stderr = "err" }, out)
            stream:close()
        end)

        it("gives the answer of a server that refuses", function()
            local stream, err, answer = http.stream(on_unix("/none", { upgrade = "tcp" }))
            assert.is_nil(stream)
            assert.equal("upgrade_refused", err.code)
            assert.equal("the server answered 409 to the upgrade", err.message)
            assert.equal("not running", err.detail)
            assert.equal(409, answer.status)
            assert.equal("not running", answer.body)
            assert.equal("11", answer.headers["content-length"])
        end)

        it("tells of a reset behind what had come", function()
            local stream = assert(http.stream(on_tcp("/reset", { upgrade = "tcp" })))
            assert.equal("last words", stream:read())
            assert_error("transport_lost", "lost", stream:read())
            assert.is_nil((stream:write("x")))
            stream:close()
        end)

        it("is cut by close and by its signal, whoever waits", function()
            sandbox.run(function()
                local stream = assert(http.stream(on_unix("/echo", { upgrade = "tcp" })))
                local reader = sandbox.spawn(function()
                    return stream:read()
                end)
                sandbox.sleep(1)
                stream:close()
                stream:close()
                assert_error("closed", "the stream is closed", reader:join())
                assert_error("closed", "the stream is closed", stream:write("x"))

                local signal = sandbox.signal()
                stream = assert(http.stream(on_unix("/echo", { upgrade = "tcp", signal = signal })))
                reader = sandbox.spawn(function()
                    return stream:read()
                end)
                sandbox.sleep(1)
                signal:abort("enough")
                assert_error("aborted", "enough", reader:join())
                assert_error("aborted", "enough", stream:write("x"))
                stream:close()
            end)
        end)

        it("leaves no descriptor", function()
            local function once()
                local stream = assert(http.stream(on_unix("/echo", { upgrade = "tcp" })))
                assert(stream:write("x"))
                assert.equal("x", stream:read())
                stream:close()
            end
            once()
            collectgarbage() -- what earlier ones left may go meanwhile
            local before = descriptors()
            for i = 1, 50 do
                once()
                assert.is_true(descriptors() <= before, i)
            end
        end)
    end)
end)
