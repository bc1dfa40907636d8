-- WebSockets and the streams of a Kubernetes exec, against node-ws and against a server that is wrong on purpose.

local core = require "chamvi.sandbox.core"
local exec_stream = require "chamvi.sandbox.k8s.exec_stream"
local http = require "chamvi.sandbox.http"
local node_server = require "spec.support.node_server"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"
local websocket = require "chamvi.sandbox.websocket"
local timer = require "chamvi.sandbox.timer"
local turns_during = require "spec.support.turns"

local V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"

-- Not under sanitizers with the hostile collector, where long messages take minutes: the C tests look at the same code.
describe("websocket #unsanitized", function()
    if not node_server.available then
        pending("no node here")
        return
    end

    local server

    setup(function()
        server = node_server.start("spec/support/websocket_server.js", scratch.folder())
    end)

    teardown(function()
        server.stop()
    end)

    local function at(name, path, more)
        local options = {
            url = ("http://127.0.0.1:%d/%s"):format(server.ports[name], path),
            protocols = { V5, V4 },
            close_ms = 60000,
        }
        for key, value in pairs(more or {}) do
            options[key] = value
        end
        return options
    end

    local function open(path, more)
        return assert(websocket.open(at("ws", path, more)))
    end

    local function assert_error(code, words, value, err)
        assert.is_nil(value)
        assert.is_true(sandbox.is_error(err, "SandboxError"), tostring(err))
        assert.equal(code, err.code, err.message)
        assert.is_truthy(err.message:find(words, 1, true), err.message)
        return err
    end

    -- Listed into a file: of a pipe to `ls` one or both ends would be seen.
    local function descriptors()
        local file = server.folder .. "/descriptors"
        os.execute(("ls /proc/%d/fd > %s"):format(scratch.pid(), file))
        local _, count = scratch.read(file):gsub("\n", "")
        return count
    end

    it("carries messages both ways, empty and long ones", function()
        local socket = open("echo")
        assert.equal(V5, socket.protocol)
        for _, message in ipairs({ "x", "", ("\0\255"):rep(40), ("y"):rep(70000), ("z"):rep(1024 * 1024) }) do
            sandbox.run(function()
                local writer = sandbox.spawn(function()
                    return socket:write(message)
                end)
                assert.is_true(message == socket:read())
                assert.is_true(writer:join())
            end)
        end
        socket:close()
        assert.equal(1000, socket.code)
        assert_error("closed", "closed", socket:write("x"))
        assert.is_nil((socket:read()))
    end)

    it("takes bytes as they come", function()
        local socket = open("echo?slow=1")
        assert(socket:write(("0123456789"):rep(30)))
        assert.equal(("0123456789"):rep(30), socket:read())
        socket:close()
    end)

    it("takes the first bytes that come with the answer", function()
        local socket = assert(websocket.open(at("raw", "early")))
        assert.equal("early", socket:read())
        assert.is_nil(socket:read())
        assert.equal(1000, socket.code)
        socket:close()
    end)

    it("offers protocols and takes the one that is chosen", function()
        for _, protocol in ipairs({ V4, V5 }) do
            local socket = open("echo?speaks=" .. protocol)
            assert.equal(protocol, socket.protocol)
            socket:close()
        end
        assert_error("transport_lost", "chooses none of the protocols", websocket.open(at("ws", "echo?speaks=v3")))
    end)

    it("refuses an answer that is not one", function()
        for path, words in pairs({
            accept = "Sec-WebSocket-Accept does not belong to the key",
            noaccept = "Sec-WebSocket-Accept does not belong to the key",
            protocol = "chooses a protocol that was not offered",
            noprotocol = "chooses none of the protocols",
            extension = "an extension that was not offered",
        }) do
            assert_error("transport_lost", words, websocket.open(at("raw", path)))
        end
    end)

    it("gives the answer of a server that refuses", function()
        local socket, err, answer = websocket.open(at("ws", "none"))
        assert_error("upgrade_refused", "403", socket, err)
        assert.equal(403, answer.status)
        assert.equal("", answer.body)
    end)

    it("answers pings, and sends its own", function()
        local socket = open("pings?count=3", { ping_ms = 0 })
        for i = 0, 2 do
            assert.equal("pong:ping " .. i, socket:read())
        end
        socket:close()
        -- Behind a message a pong may take as long as it likes.
        socket = open("pings?count=0", { ping_ms = 100 })
        local cancel = timer(60000, function()
            socket:cut()
        end)
        assert(socket:write("one"))
        assert.equal("ping:1", socket:read())
        assert(socket:write("two"))
        local last
        repeat
            last = socket:read()
        until last ~= "ping:1"
        assert.equal("ping:2", last)
        cancel()
        socket:close()
    end)

    it("tells the server's close", function()
        local socket = open("close?code=4001&reason=enough")
        local message, err = socket:read()
        assert.is_nil(message)
        assert.is_nil(err)
        assert.equal(4001, socket.code)
        assert.equal("enough", socket.reason)
        assert_error("closed", "closed", socket:write("x"))
        socket:close()

        socket = open("close")
        assert.is_nil(socket:read())
        assert.equal(1005, socket.code)
        socket:close()
    end)

    it("says how it closes", function()
        local socket = open("closed")
        socket:close(4002, "as agreed")
        assert.equal(4002, socket.code)
        socket = open("last")
        assert.equal("4002 as agreed", socket:read())
        assert.has_error(function()
            socket:close(1005)
        end)
        socket:close()
    end)

    it("closes within its bound when the server does not", function()
        sandbox.run(function()
            local socket = assert(websocket.open(at("raw", "mute", { close_ms = 50 })))
            socket:close()
            assert.is_nil(socket.code)
            -- The same with a task that reads.
            socket = assert(websocket.open(at("raw", "mute", { close_ms = 50 })))
            local reader = sandbox.spawn(function()
                return socket:read()
            end)
            sandbox.sleep(1)
            socket:close()
            assert_error("closed", "closed", reader:join())
            socket:close()
        end)
    end)

    it("lets a task read on while another closes", function()
        sandbox.run(function()
            local socket = open("echo")
            local reader = sandbox.spawn(function()
                return socket:read()
            end)
            sandbox.sleep(1)
            socket:close()
            assert.is_nil(reader:join())
            assert.equal(1000, socket.code)
        end)
    end)

    it("never takes an end without a close for one", function()
        for _, path in ipairs({ "eof", "half" }) do
            local socket = assert(websocket.open(at("raw", path)))
            assert_error("transport_lost", "without a close", socket:read())
            assert.is_nil(socket.code)
            socket:close()
        end
    end)

    it("gives up on what is no WebSocket", function()
        for _, path in ipairs({ "garbage", "masked" }) do
            local socket = assert(websocket.open(at("raw", path, { close_ms = 50 })))
            assert_error("transport_lost", "is no WebSocket: what comes is no valid frame", socket:read())
            assert_error("transport_lost", "no WebSocket", socket:write("x"))
            socket:close()
        end
        local socket = open("text")
        assert_error("transport_lost", "a text", socket:read())
        socket:close()
    end)

    it("bounds messages", function()
        local socket = open("long?length=1025", { max_message = 1024 })
        assert_error("transport_lost", "a message is too long", socket:read())
        socket:close()
        socket = open("long?length=1024", { max_message = 1024 })
        assert.equal(1024, #socket:read())
        assert_error("invalid_request", "1024 bytes at most", socket:write(("x"):rep(1025)))
        socket:close()
    end)

    it("gives up on a server that answers no pings", function()
        local socket = assert(websocket.open(at("raw", "mute", { ping_ms = 20 })))
        assert_error("transport_lost", "has answered no ping for 0.06 s", socket:read())
        socket:close()
    end)

    it("waits for one that may be busy with messages", function()
        sandbox.run(function()
            local socket = assert(websocket.open(at("raw", "mute", { ping_ms = 10 })))
            assert(socket:write("stdin"))
            local reader = sandbox.spawn(function()
                return socket:read()
            end)
            sandbox.sleep(300)
            assert.is_false(reader.done)
            socket:cut()
            assert_error("closed", "closed", reader:join())
        end)
    end)

    it("gives up on a server that only pings", function()
        local socket = assert(websocket.open(at("raw", "flood")))
        assert_error("transport_lost", "sends pings and reads no answers", socket:read())
        socket:close()
    end)

    it("is cut by its signal, and by cut, whoever waits", function()
        sandbox.run(function()
            local signal = sandbox.signal()
            local socket = open("echo", { signal = signal })
            local reader = sandbox.spawn(function()
                return socket:read()
            end)
            sandbox.sleep(1)
            signal:abort("enough")
            assert_error("aborted", "enough", reader:join())
            assert_error("aborted", "enough", socket:write("x"))
            socket:close()

            socket = assert(websocket.open(at("raw", "mute")))
            local writer = sandbox.spawn(function()
                local sent, err
                repeat
                    sent, err = socket:write(("x"):rep(100000))
                until not sent
                return sent, err
            end)
            reader = sandbox.spawn(function()
                return socket:read()
            end)
            sandbox.sleep(1)
            socket:cut()
            assert_error("closed", "closed", writer:join())
            assert_error("closed", "closed", reader:join())
            socket:cut()
        end)
    end)

    it("lets others have their turn while a quick server takes all that we write", function()
        local socket = assert(websocket.open(at("raw", "mute")))
        local turns = turns_during(function()
            for _ = 1, 2000 do
                assert(socket:write(("x"):rep(1000)))
            end
        end)
        assert.is_true(turns >= 4, turns)
        socket:cut()
    end)

    it("leaves no descriptor", function()
        local function once()
            local socket = open("echo")
            assert(socket:write("x"))
            assert.equal("x", socket:read())
            socket:close()
        end
        once()
        local before = descriptors()
        for _ = 1, 30 do
            once()
        end
        for _ = 1, 1500 do -- what earlier ones left to close may go meanwhile
            if descriptors() <= before then
                break
            end
            sandbox.sleep(20)
        end
        assert.is_true(descriptors() <= before)
    end)

    describe("of an exec", function()
        local function start(path, more)
            return assert(exec_stream.open(at("ws", "exec/" .. path, more)))
        end

        -- All output by name, and the error of the end.
        local function drain(stream)
            local out = { stdout = "", stderr = "" }
            while true do
                local name, bytes = stream:read()
                if not name then
                    return out, bytes
                end
                out[name] = out[name] .. bytes
            end
        end

        for version, protocol in pairs({ [4] = V4, [5] = V5 }) do
            describe(protocol, function()
                local speaks = "speaks=" .. protocol

                it("tells output and exit code", function()
                    for _, code in ipairs({ 0, 1, 255 }) do
                        local stream = start(("exit?code=%d&%s"):format(code, speaks))
                        assert.equal(version, stream.version)
                        local out, err = drain(stream)
                        assert.is_nil(err)
                        assert.same({ stdout = "out", stderr = "err" }, out)
                        assert.equal(code, stream:outcome())
                        stream:close()
                    end
                end)

                it("carries 5 MB of stdin there and back", function()
                    local sent = {}
                    for i = 1, 80 do
                        sent[i] = string.char(i):rep(65536)
                    end
                    sent = table.concat(sent)
                    local stream = start(("cat?%s%s"):format(speaks, version == 4 and "&length=" .. #sent or ""))
                    local parts, length = {}, 0
                    sandbox.run(function()
                        local writer = sandbox.spawn(function()
                            assert(stream:write(sent))
                            assert.equal(version == 5, stream:end_stdin())
                        end)
                        for name, bytes in function() return stream:read() end do
                            assert.equal("stdout", name)
                            table.insert(parts, bytes)
                            length = length + #bytes
                        end
                        writer:join()
                    end)
                    assert.equal(#sent, length)
                    assert.is_true(sent == table.concat(parts))
                    assert.equal(0, stream:outcome())
                    stream:close()
                end)

                it("ends an empty stdin", function()
                    local stream = start(("cat?%s%s"):format(speaks, version == 4 and "&length=0" or ""))
                    assert.equal(version == 5, stream:end_stdin())
                    assert.same({ stdout = "", stderr = "" }, drain(stream))
                    assert.equal(0, stream:outcome())
                    stream:close()
                end)

                it("reads a status in fragments and in messages", function()
                    for _, path in ipairs({ "fragments", "messages", "fragments?slow=1", "messages?slow=1" }) do
                        local stream = start(path .. (path:find("?", 1, true) and "&" or "?") .. "code=3&" .. speaks)
                        drain(stream)
                        assert.equal(3, stream:outcome(), path)
                        stream:close()
                    end
                end)

                it("knows no outcome without a status", function()
                    local stream = start("unknown?" .. speaks)
                    local out, err = drain(stream)
                    assert.is_nil(err)
                    assert.equal("out", out.stdout)
                    assert_error("transport_lost", "outcome of the command is unknown: there is no status",
                        stream:outcome())
                    stream:close()

                    stream = start("vanish?" .. speaks)
                    out, err = drain(stream)
                    assert.equal("out", out.stdout)
                    assert_error("transport_lost", "", nil, err)
                    assert_error("transport_lost", "unknown", stream:outcome())
                    stream:close()
                end)

                it("tells what the server says in the place of a code", function()
                    local stream = start("internal?" .. speaks)
                    drain(stream)
                    local code, err, reason = stream:outcome()
                    assert_error("transport_lost", "InternalError: error executing command: no such file", code, err)
                    assert.equal("InternalError", reason)
                    stream:close()
                end)

                it("breaks off at a message without a channel", function()
                    local stream = start("empty?" .. speaks)
                    local _, err = drain(stream)
                    assert_error("transport_lost", "names no channel", nil, err)
                    stream:close()
                end)
            end)
        end

        it("outlives a proxy that cuts what is idle, by its pings", function()
            local function order(what)
                local url = ("http://127.0.0.1:%d/%s"):format(server.ports.ws, what)
                return tonumber(assert(http.request({ url = url })).body)
            end
            -- Opens one, calls `act(is_over)` while it is read, ends it, and gives what came of it.
            local function read_while(ping_ms, act)
                local stream = assert(exec_stream.open(at("idle", "busy", { ping_ms = ping_ms })))
                assert(stream:write("stdin")) -- with which the server may be busy: it need not answer pings
                local ok, failure, err
                sandbox.run(function()
                    local reader = sandbox.spawn(drain, stream)
                    ok, failure = pcall(act, function()
                        return reader.done
                    end)
                    order("finish")
                    err = select(2, reader:join())
                end)
                assert(ok, failure)
                local code = stream:outcome()
                stream:close()
                return code, err
            end
            local code, err = read_while(0, function(is_over)
                support.wait_until(function()
                    order("cut_idle")
                    return is_over()
                end, "the cut of an idle connection")
            end)
            assert_error("transport_lost", "", code, err)
            code, err = read_while(20, function()
                for _ = 1, 3 do
                    local moved = order("moved")
                    support.wait_until(function()
                        return order("moved") > moved
                    end, "a ping")
                    order("cut_idle")
                end
            end)
            assert.is_nil(err)
            assert.equal(0, code)
        end)

        it("goes on beside others", function()
            sandbox.run(function()
                local streams = {}
                for i = 1, 50 do
                    streams[i] = sandbox.spawn(function()
                        local stream = start("exit?code=" .. i)
                        drain(stream)
                        local code = stream:outcome()
                        stream:close()
                        return code
                    end)
                end
                for i = 1, 50 do
                    assert.equal(i, streams[i]:join())
                end
            end)
        end)
    end)

    describe("in the core", function()
        it("refuses what can't be offered", function()
            local socket = core.websocket(10)
            for _, wrong in ipairs({ {}, { "" }, { 1 }, { "a\0b" }, { ("x"):rep(300) } }) do
                assert.has_error(function()
                    socket:request_headers(wrong)
                end)
            end
            assert.has_error(function()
                core.websocket(10):accept({})
            end)
            assert.has_error(function()
                core.websocket(0)
            end)
            assert.has_error(function()
                core.k8s_channel(3)
            end)
        end)

        it("gives what came before it broke", function()
            local events, answer = core.websocket(10):feed("\130\1a\137\0\130\1b\194\0")
            assert.same({ "message", "a", "message", "b", "broken", "what comes is no valid frame" }, events)
            assert.is_true(#answer > 0)
        end)

        it("answers as many pings as come at once", function()
            local events, answer = core.websocket(10):feed(("\137\0"):rep(100000) .. "\130\1a")
            assert.same({ "message", "a" }, events)
            assert.equal(600000, #answer)
        end)

        it("knows SHA-256", function()
            assert.equal("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", core.sha256(""))
        end)
    end)
end)
