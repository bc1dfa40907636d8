-- The rock, by LuaRocks, and the installation, by CMake: both built from a copy of the project that is gone when
-- they are used.

local scratch = require "spec.support.scratch"

local quote = scratch.quote

local LUAS = {
    { version = "5.4", program = "lua5.4" },
    { version = "5.1", program = "luajit" },
}

-- Neither a path of this shell's Lua nor any server of rocks is seen; spaces are everywhere.
local TOOLS = [[
    set -e
    umask 022
    clean() {
        env -i PATH="$PATH" HOME="$place/home" LUAROCKS_CONFIG="$place/home/config.lua" \
            CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" "$@"
    }
    rocks() { # tree, Lua version, command...
        local tree=$1 version=$2
        shift 2
        clean luarocks --tree "$tree" --lua-version "$version" "$@"
    }
]]
local BUILD = [[
    mkdir "$place/the source" "$place/home" "$place/path" "$place/packed 5.4" "$place/packed 5.1"
    tar -c --exclude=./.git --exclude='./build*' --exclude=./.cache . | tar -C "$place/the source" -x
    echo 'rocks_servers = {}' > "$place/home/config.lua"
    printf '#!/bin/sh\ntouch %s/used\n' "$place" > "$place/path/chamvi-supervisor"
    chmod 755 "$place/path/chamvi-supervisor"

    cd "$place/the source"
    # LuaRocks knows the headers of Lua 5.1, or is told LuaJIT's.
    rocks "$place/a tree" 5.1 make LUA_INCDIR="$(pkg-config --variable=includedir luajit)"
    rocks "$place/a tree" 5.1 remove chamvi-sandbox
    for version in 5.4 5.1; do
        rocks "$place/a tree" "$version" make
        (cd "$place/packed $version" && rocks "$place/a tree" "$version" pack chamvi-sandbox)
    done

    cd /
    # As where there is no musl, and with all optimizations.
    clean cmake -S "$place/the source" -B "$place/the build" -DCHAMVI_MUSL_CC=OFF -DCMAKE_BUILD_TYPE=Release
    clean cmake --build "$place/the build"
    clean cmake --install "$place/the build" --prefix "$place/a prefix"

    rm -rf "$place/the source" "$place/the build"
]]

-- The files below a folder of the checkout as a table of installed path to path in the checkout.
local function add_files(files, folder, prefix, name)
    local command = ("find %s -type f -name %s -printf '%%P\\n'"):format(quote(folder), quote(name))
    for path in scratch.shell(command):gmatch("[^\n]+") do
        files[prefix .. path] = folder .. "/" .. path
    end
end

-- The Lua files and, without a source, what is built.
local function modules_of(lua)
    local files = {}
    local sources = ("share/lua/%s/"):format(lua.version)
    add_files(files, "lua", sources, "*.lua")
    for _, provider in ipairs(scratch.list("providers")) do
        add_files(files, "providers/" .. provider, sources .. "chamvi/sandbox/" .. provider .. "/", "*.lua")
    end
    local binaries = ("lib/lua/%s/chamvi/sandbox/"):format(lua.version)
    files[binaries .. "core.so"] = false
    files[binaries .. "chamvi-supervisor"] = false
    return files
end

local function add_all(files, more)
    for path, source in pairs(more) do
        files[path] = source
    end
end

local function data(folder)
    local files = {}
    add_files(files, "types", folder .. "/types/", "*.lua")
    add_files(files, "examples", folder .. "/examples/", "*")
    return files
end

local function add_documents(files, folder)
    files[folder .. "/README.md"] = "README.md"
    files[folder .. "/CHANGELOG.md"] = "CHANGELOG.md"
end

local function files_of_rock(lua)
    local files = modules_of(lua)
    local rocks = ("lib/luarocks/rocks-%s/"):format(lua.version)
    local rock = rocks .. "chamvi-sandbox/scm-1"
    add_all(files, data(rock))
    add_documents(files, rock .. "/doc")
    files[rock .. "/chamvi-sandbox-scm-1.rockspec"] = "rockspec/chamvi-sandbox-scm-1.rockspec"
    files[rock .. "/rock_manifest"] = false
    files[rocks .. "manifest"] = false
    return files
end

local function files_of_rocks()
    local files = {}
    for _, lua in ipairs(LUAS) do
        add_all(files, files_of_rock(lua))
    end
    return files
end

-- What is no folder, as a table of path to mode. Whether libraries are executable is the installer's choice.
local function modes_in(folder)
    local modes = {}
    local listing = scratch.shell(("cd %s && find . ! -type d -printf '%%M %%P\\n'"):format(quote(folder)))
    for mode, path in listing:gmatch("(%S+) ([^\n]+)\n") do
        modes[path] = path:find("%.so$") and mode:gsub("x", "-") or mode
    end
    return modes
end

-- A folder holds these files and no more; those with a source are the same.
local function assert_holds(folder, files)
    local differences = {}
    local modes = modes_in(folder)
    for path, source in pairs(files) do
        local expected = path:find("/chamvi%-supervisor$") and "-rwxr-xr-x" or "-rw-r--r--"
        if modes[path] ~= expected then
            differences[path] = ("is %s, should be %s"):format(modes[path] or "missing", expected)
        elseif source and scratch.read(folder .. "/" .. path) ~= scratch.read(source) then
            differences[path] = "differs from " .. source
        end
    end
    for path in pairs(modes) do
        if files[path] == nil then
            differences[path] = "should not be there"
        end
    end
    assert.same({}, differences)
end

describe("an installed library", function()
    local place

    -- Runs the program with the folder's library alone; a wrong supervisor is first on the PATH.
    local function run(folder, lua)
        local sources = ("%s/share/lua/%s/"):format(folder, lua.version)
        local libraries = ("%s/lib/lua/%s/"):format(folder, lua.version)
        return scratch.shell(([[
            cd / && lua=$(command -v %s) && timeout 300 env -i PATH=%s LUA_PATH=%s LUA_CPATH=%s "$lua" %s %s
        ]]):format(
            lua.program,
            quote(place .. "/path"),
            quote(sources .. "?.lua;" .. sources .. "?/init.lua"),
            quote(libraries .. "?.so"),
            quote(place .. "/program.lua"),
            quote(place .. "/workspaces")
        ))
    end

    local function assert_works(folder, lua)
        assert.equal("from a file, exit code 3, from a file\n", run(folder, lua))
        assert.same({}, scratch.list(place .. "/workspaces"))
        assert.is_nil(scratch.read(place .. "/used"))
    end

    local function shell(script)
        return scratch.shell(("place=%s\n"):format(quote(place)) .. TOOLS .. script)
    end

    local function rocks(tree, lua, command)
        shell(('cd / && rocks %s %s %s'):format(quote(tree), lua.version, command))
    end

    if scratch.shell("command -v luarocks || true") == "" then
        pending("can't be built: luarocks is not installed")
        return
    end

    setup(function()
        place = scratch.folder()
        scratch.write(place .. "/program.lua", scratch.read("spec/support/installed_program.lua"))
        shell(BUILD)
    end)

    teardown(function()
        scratch.remove(place)
    end)

    it("is a rock for each Lua, side by side in one tree", function()
        assert_holds(place .. "/a tree", files_of_rocks())
        for _, lua in ipairs(LUAS) do
            assert_works(place .. "/a tree", lua)
        end
    end)

    it("can be packed, installed into another tree, and removed without a trace", function()
        local tree = place .. "/another tree"
        for _, lua in ipairs(LUAS) do
            rocks(tree, lua, ("install %s/*.rock"):format(quote(place .. "/packed " .. lua.version)))
        end
        assert_holds(tree, files_of_rocks())

        rocks(tree, LUAS[1], "remove chamvi-sandbox")
        local left = files_of_rock(LUAS[2])
        left["lib/luarocks/rocks-5.4/manifest"] = false
        assert_holds(tree, left)
        assert_works(tree, LUAS[2])

        rocks(tree, LUAS[2], "remove chamvi-sandbox")
        assert_holds(tree, {
            ["lib/luarocks/rocks-5.4/manifest"] = false,
            ["lib/luarocks/rocks-5.1/manifest"] = false,
        })
        assert.equal("", scratch.shell(("find %s -name 'chamvi*'"):format(quote(tree))))
    end)

    it("is installed by CMake for both Luas, with a supervisor of glibc too", function()
        local prefix = place .. "/a prefix"
        local files = data("share/chamvi-sandbox")
        add_documents(files, "share/doc/chamvi-sandbox")
        for _, lua in ipairs(LUAS) do
            add_all(files, modules_of(lua))
        end
        assert_holds(prefix, files)
        for _, lua in ipairs(LUAS) do
            assert_works(prefix, lua)
        end
    end)

    for _, lua in ipairs(LUAS) do
        it("uses the supervisor beside the module and no other, " .. lua.program, function()
            local supervisor = ("%s/a tree/lib/lua/%s/chamvi/sandbox/chamvi-supervisor"):format(place, lua.version)
            finally(function()
                assert(os.rename(place .. "/moved", supervisor))
            end)
            assert(os.rename(supervisor, place .. "/moved"))
            local output = run(place .. "/a tree", lua)
            assert.matches("^SandboxError: ", output)
            assert.is_truthy(output:find("can't start " .. supervisor, 1, true), output)
            assert.is_nil(scratch.read(place .. "/used"))
        end)
    end
end)
