-- That the benchmarks of local workspaces still run. What they measure here means nothing.

local native = require "chamvi.sandbox.core"
local scratch = require "spec.support.scratch"

describe("bench/local/run", function()
    local folder, docs

    setup(function()
        folder = scratch.folder()
    end)

    teardown(function()
        scratch.remove(folder)
    end)

    -- Runs it with those arguments and returns its exit code and what it printed.
    local function run(arguments)
        local line = "TMPDIR=%s timeout -k 10 900 bench/local/run --quick %s && code=0 || code=$?; echo code $code"
        local output = scratch.shell(line:format(folder, arguments))
        return tonumber(output:match("code (%d+)\n$")), output
    end

    local function bench_folders()
        return scratch.shell("ls " .. folder .. " | grep chamvi-bench || true")
    end

    it("runs every part and writes its report", function()
        local code, output = run(("--docs %s/docs/report.md --json %s/report.json"):format(folder, folder))
        assert.equal(0, code, output)
        assert.equal("", bench_folders())

        docs = scratch.read(folder .. "/docs/report.md")
        for _, title in ipairs({
            "Measures and bars",
            "exec of `true`; ratio to: bare C loop",
            "exec of `true`, on one CPU; ratio to: bare C loop",
            "1 MiB of output by `head -c`; ratio to: pipe into cat",
            "1 MiB of output by `dd bs=64k`; ratio to: pipe into cat",
            "1 MiB of output by `head -c`, on one CPU; ratio to: pipe into cat",
            "1 MiB of output by `dd bs=64k`, on one CPU; ratio to: pipe into cat",
            "1 MiB through `on_output`, by `head -c`; ratio to: pipe into cat",
            "1 MiB through `on_output`, by `dd bs=64k`; ratio to: pipe into cat",
            "61,000 bytes in one write, then exit; ratio to: bare C loop",
            "20 execs of `true` at once; ratio to: bare C loop",
            "a workspace acquired and released; ratio to: bare C floor",
            "3 workspaces acquired and released, 2 at once; ratio to: bare C floor",
            "20 execs in flight at once, each has printed 0 bytes",
            "20 execs in flight at once, each has printed 40,000 bytes",
            "An idle host with 10 live workspaces, for 1 seconds",
        }) do
            local section = docs:match("\n## " .. title:gsub("%p", "%%%0") .. "\n(.-)\n\n%f[#\0]")
            assert.is_truthy(section, title)
            assert.is_truthy(section:find("| chamvi, Lua 5.4 |", 1, true), title)
            assert.is_truthy(section:find("| chamvi, LuaJIT |", 1, true), title)
        end
        assert.is_truthy(docs:find("the slowest rule (", 1, true))

        local json = scratch.read(folder .. "/report.json")
        local report = native.json_decode(json)
        assert.equal("table", type(report), json)
        for _, bar in ipairs(report.bars) do
            if bar.bar == "no byte lost" or bar.bar == "no failure" then
                assert.is_true(bar.pass, bar.what)
            end
        end
    end)

    it("has measured beside every peer", function()
        if docs:find("not installed", 1, true) then
            pending("a peer is not installed: scripts/packages bench")
            return
        end
        assert.is_nil(docs:find("NOT MEASURED", 1, true))
        for _, peer in ipairs({ "luv, Lua 5.4", "luv, LuaJIT", "Node child_process" }) do
            assert.is_truthy(docs:find(("\n| %s |"):format(peer), 1, true), peer)
        end
    end)

    it("says which peer is missing", function()
        local code, output = run("--only true --without node,luv-lua5.4,luv-luajit --strict")
        assert.equal(2, code, output)
        assert.is_truthy(output:find("NOT MEASURED: Node child_process, left out.", 1, true), output)
        assert.is_truthy(output:find("NOT MEASURED: luv, Lua 5.4, left out.", 1, true), output)
        assert.matches("ahead of luv +chamvi, Lua 5.4 .- NOT MEASURED", output)
    end)
end)
