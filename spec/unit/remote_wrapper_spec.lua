-- The wrapper in real shells, without any transport.

local filters = require "chamvi.sandbox.remote.filter"
local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"
local wrapper = require "chamvi.sandbox.remote.wrapper"

local SHELLS = { "dash", "bash --posix", "busybox sh" }

describe("the wrapper", function()
    local folder

    setup(function()
        folder = scratch.folder()
    end)

    teardown(function()
        scratch.remove(folder)
    end)

    -- Runs argv; gives what it printed and what was reported.
    local function run(shell, argv, options)
        options = options or {}
        local wrapped = wrapper.wrap("mabc1", {
            argv = argv,
            cwd = options.cwd or "",
            timeout_ms = options.timeout_ms or 60000,
        })
        local words = {}
        for index, argument in ipairs(wrapped) do
            words[index] = index == 1 and shell or scratch.quote(argument)
        end
        scratch.write(folder .. "/stdin", options.stdin or "")
        scratch.shell(("cd %s && %s %s < stdin > stdout 2> stderr"):format(
            folder, options.before or "", table.concat(words, " ")))
        local seen = { stdout = {}, stderr = {} }
        for _, stream in ipairs({ "stdout", "stderr" }) do
            local filter = filters.new("mabc1", function(bytes)
                table.insert(seen[stream], bytes)
            end, function(text)
                local what, value = wrapper.read(text)
                assert.is_truthy(what, text)
                assert.is_nil(seen[what])
                seen[what] = value or true
            end)
            filter:write(scratch.read(folder .. "/" .. stream))
            filter:finish()
            seen[stream] = table.concat(seen[stream])
        end
        return seen
    end

    for _, shell in ipairs(SHELLS) do
        local program = shell:match("^%S+")
        local function with_shell(name, prove)
            it(("in %s %s"):format(program, name), function()
                if not os.execute("command -v " .. program .. " >/dev/null") then
                    return pending(program .. " is not installed")
                end
                prove()
            end)
        end

        with_shell("reports exits", function()
            for _, code in ipairs({ 0, 1, 3, 124, 125, 126, 127, 128, 129, 130, 137, 141, 143, 145, 255 }) do
                local seen = run(shell, { "sh", "-c", "echo out; echo err >&2; exit " .. code })
                assert.equal("out\n", seen.stdout)
                assert.equal("err\n", seen.stderr)
                assert.is_true(seen["end"])
                assert.matches("^%d+$", seen.start)
                assert.equal(code, seen.exit.code)
                assert.is_nil(seen.exit.term_signal, code)
                assert.is_false(seen.exit.timed_out)
            end
        end)

        with_shell("reports into pipes that are full and don't block", function()
            local seen = run(shell, { "perl", "-e", [[
                use Fcntl;
                for my $stream (*STDOUT, *STDERR) {
                    fcntl($stream, F_SETFL, fcntl($stream, F_GETFL, 0) | O_NONBLOCK);
                    1 while defined syswrite($stream, "x" x 4096);
                }
                exit 5
            ]] }, {
                before = "sh -c " .. scratch.quote([[
                    rm -f out err
                    mkfifo out err
                    (sleep 0.5; cat) <out &
                    (sleep 0.5; cat) <err >&2 &
                    "$@" >out 2>err
                    wait
                ]]) .. " sh",
            })
            assert.equal(5, seen.exit.code)
            assert.is_true(seen["end"])
            assert.equal("", (seen.stdout:gsub("x", "")))
        end)

        with_shell("reports signals", function()
            for _, number in ipairs({ 1, 2, 3, 9, 10, 13, 14, 15, 17, 35, 64 }) do
                local seen = run(shell, { "sh", "-c", ("sleep 0.05; kill -%d $$; sleep 1"):format(number) })
                if number == 17 then
                    assert.equal(0, seen.exit.code) -- SIGCHLD is ignored
                else
                    assert.equal(128 + number, seen.exit.code)
                    assert.equal(number, seen.exit.term_signal)
                end
                assert.equal("", seen.stderr)
                assert.is_false(seen.exit.timed_out)
            end
        end)

        -- A stand-in for the counts of a control group, of either version.
        for file, text in pairs({
            ["memory.events"] = "low 0\nhigh 0\nmax 7\noom 2\noom_kill %d\noom_group_kill 0\n",
            ["memory/memory.oom_control"] = "oom_kill_disable 0\nunder_oom 0\noom_kill %d\n",
        }) do
            with_shell("tells kills for want of memory by " .. file, function()
                if scratch.shell("id -u") ~= "0\n" then
                    return pending("only root can mount the stand-in")
                end
                local path = "/sys/fs/cgroup/" .. file
                local options = {
                    before = ("unshare --mount sh -c %s sh"):format(scratch.quote(([[
                        mount -t tmpfs none /sys/fs/cgroup && mkdir -p %s && printf %s >%s && exec "$@"
                    ]]):format(path:match("^(.*)/"), scratch.quote(text:format(1):gsub("\n", "\\n")), path))),
                }
                local kill = ("printf %s >%s; "):format(scratch.quote(text:format(2):gsub("\n", "\\n")), path)
                local function exit_of(script)
                    return run(shell, { "sh", "-c", script }, options).exit
                end
                local exit = exit_of(kill .. "kill -KILL $$")
                assert.same({ true, 137, 9 }, { exit.oom_killed, exit.code, exit.term_signal })
                exit = exit_of(kill .. "exit 137")
                assert.same({ true, 137 }, { exit.oom_killed, exit.code, exit.term_signal })
                assert.is_false(exit_of(kill .. "exit 1").oom_killed)
                assert.is_false(exit_of("kill -KILL $$").oom_killed)
                assert.is_false(exit_of("exit 137").oom_killed)
            end)
        end

        with_shell("tells a time-out", function()
            local seen = run(shell, { "sleep", "30" }, { timeout_ms = 100 })
            assert.equal(124, seen.exit.code)
            assert.is_true(seen.exit.timed_out)
            assert.is_nil(seen.exit.term_signal)
            assert.equal("", seen.stderr)
            -- The parent is `timeout`, which takes this for the end of the time, once it waits.
            local is_over = "; until grep -q '^State:.S' /proc/$PPID/status; do sleep 0.01; done"
                .. "; kill -ALRM $PPID; sleep 30 & wait"
            seen = run(shell, { "sh", "-c", "trap 'exit 3' TERM" .. is_over })
            assert.is_true(seen.exit.timed_out)
            assert.is_nil(seen.exit.term_signal)
            seen = run(shell, { "sh", "-c", "trap 'kill -9 $$' TERM" .. is_over })
            assert.is_true(seen.exit.timed_out)
            assert.equal(9, seen.exit.term_signal)
        end)

        with_shell("starts what there is, and says what there is not", function()
            scratch.shell("cd " .. folder .. [[;
                mkdir -p folder; echo text > plain
                echo 'echo "script $1"' > script; chmod +x script
            ]])
            assert.equal("script x\n", run(shell, { "./script", "x" }).stdout)
            for name, code in pairs({ ["no-such"] = 127, ["./none"] = 127, ["./plain"] = 126, ["./folder"] = 126,
                ["-x"] = 127 }) do
                local seen = run(shell, { name })
                assert.equal(code, seen.exit.code)
                assert.matches("^[^\n]+\n$", seen.stderr)
            end
        end)

        with_shell("leaves stdin, environment and descriptors alone", function()
            local script = "cat; env | grep -v '^_=\\|^SHLVL=\\|^PWD=' | sort; umask; for fd in 3 4 5 7; do"
                .. " [ ! -e /proc/$$/fd/$fd ] || echo $fd; done"
            local before = "umask 0; exec 7<stdin; env -i PATH=\"$PATH\" chamvi=1 note=2 root=3"
            local seen = run(shell, { "/bin/sh", "-c", script }, { stdin = "a\0b\n", before = before })
            local path = scratch.shell("printf %s \"$PATH\"")
            assert.equal(("a\0b\nPATH=%s\nchamvi=1\nnote=2\nroot=3\n0022\n"):format(path), seen.stdout)
        end)

        with_shell("says that there is no GNU timeout", function()
            local path = folder .. "/path"
            scratch.shell(("mkdir -p %s; ln -sf $(command -v %s) %s/"):format(path, program, path))
            local seen = run(shell, { "true" }, { before = "env PATH=" .. path })
            assert.equal(127, seen.exit.code)
            assert.is_nil(seen.start)
            assert.matches("timeout", seen.exit.words)
        end)

        with_shell("finds no program where a name is an option, or a variable to `env`", function()
            for _, name in ipairs({ "-a", "--", "-a=b", "--help=x", "A=b" }) do
                local seen = run(shell, { name, "echo", "hi" })
                assert.equal(127, seen.exit.code, name)
                assert.equal("", seen.stdout)
                assert.matches("not found", seen.stderr:gsub("No such file or directory", "not found"), 1, true)
            end
        end)

        with_shell("says that a folder is missing", function()
            local seen = run(shell, { "echo", "x" }, { cwd = "/workspace/no-such-folder" })
            assert.equal("missing", seen.cwd)
            assert.is_true(seen["end"])
            assert.equal("", seen.stdout .. seen.stderr)
        end)

        with_shell("kills a group by its id and by its mark", function()
            local mark = "m" .. sandbox.uuid():gsub("-", "") -- a kill by it looks at all processes of this machine
            local argv = wrapper.wrap(mark, { argv = { "sleep", "1234" }, cwd = "", timeout_ms = 60000 })
            local function words(list)
                local quoted = { shell }
                for index = 2, #list do
                    table.insert(quoted, scratch.quote(list[index]))
                end
                return table.concat(quoted, " ")
            end
            for _, by_id in ipairs({ true, false }) do
                scratch.shell(words(argv) .. " </dev/null >/dev/null 2>" .. folder .. "/reports & echo")
                local id
                repeat
                    id = scratch.read(folder .. "/reports"):match("start (%d+)")
                until id
                scratch.shell(words(wrapper.kill({ by_id and id or mark })))
                for _ = 1, 1500 do
                    if scratch.read(folder .. "/reports"):find("exit", 1, true) then
                        break
                    end
                    scratch.shell("sleep 0.02")
                end
                assert.is_false(scratch.is_alive(id))
                assert.matches("exit .*|137|", scratch.read(folder .. "/reports"))
            end
        end)
    end

    it("takes no sense from reports that are forged badly", function()
        for _, text in ipairs({ "", "start", "start 0", "start 1", "start -1", "start x", "start 99999999999", "cwd",
            "cwd there", "exit |256|", "ending" }) do
            assert.is_nil((wrapper.read(text)), text)
        end
        local _, exit = wrapper.read("exit sh: cannot fork")
        assert.is_nil(exit.code)
        assert.equal("sh: cannot fork", exit.words)
    end)
end)
