-- A workspace of a git repository at its default branch, three commands in it, and its end. scripts/demo
-- sets everything up and runs this.
--
--   lua5.4 examples/demo.lua path-or-url

local sandbox = require "chamvi.sandbox"
local local_sandbox = require "chamvi.sandbox.local"

local COMMANDS = {
    { "git", "log", "-1", "--format=%h %s" },
    { "sh", "-c", "git ls-files | wc -l" },
    { "cat", "there-is-no-such-file" },
}

local function working_directory()
    local pipe = assert(io.popen("pwd"))
    local path = pipe:read("*l")
    pipe:close()
    return path
end

-- A folder as the URL that git clones it by; a URL as it is.
local function repository_url(argument)
    if argument:find("^%a[%w+.-]*://") then
        return sandbox.normalize_repo(argument, { allow_file_repos = true })
    end
    local folder = io.open(argument)
    if not folder then
        return nil, ("there is no folder %s; a repository elsewhere is given by its https URL"):format(argument)
    end
    folder:close()
    if argument:sub(1, 1) ~= "/" then
        argument = working_directory() .. "/" .. argument
    end
    return "file://" .. argument:gsub("[^%w/._~-]", function(byte)
        return ("%%%02X"):format(byte:byte())
    end)
end

local function indented(text)
    return (text:gsub("[^\n]+", "    %0"))
end

local function main(argument)
    local url, wrong = repository_url(argument)
    if not url then
        return nil, wrong
    end
    local provider = local_sandbox.create_local_sandbox()
    local workspace, err = provider:create({ run_id = "demo", repo = url })
    if not workspace then
        return nil, err
    end
    print("workspace " .. workspace.id)
    print("commit    " .. (workspace.info.commit or "none: the repository is empty"))

    for _, argv in ipairs(COMMANDS) do
        local result
        result, err = workspace:exec(argv)
        if not result then
            workspace:dispose()
            return nil, err
        end
        print("\n$ " .. table.concat(argv, " "))
        print(("  exit code %d after %d ms"):format(result.exit_code, result.duration_ms))
        io.write(indented(result.stdout), indented(result.stderr))
    end

    local disposed
    disposed, err = workspace:dispose()
    if disposed then
        print("\ndisposed: nothing of it runs, nothing of it is left")
    end
    return disposed, err
end

if not arg[1] or arg[2] or arg[1] == "" or arg[1]:sub(1, 1) == "-" then
    io.stderr:write("usage: demo.lua path-or-url\n")
    os.exit(2)
end
local ok, err = sandbox.run(main, arg[1])
if not ok then
    io.stderr:write(tostring(err), "\n")
    os.exit(1)
end
