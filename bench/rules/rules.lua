--- Calls of each rule per second of CPU time, on one line each: `rule<TAB>calls`. A rule gets several inputs in turn.
--
--     rules.lua SECONDS        how long each rule is called

local sandbox = require "chamvi.sandbox"

local seconds = tonumber(arg[1])

local collector = sandbox.create_output_collector(sandbox.OUTPUT_MAX_BYTES)
local line = ("x"):rep(99) .. "\n"
local files = { allow_file_repos = true }
local layer = { cpu = "500m", timeout_ms = 60000 }

-- Each calls its rule once for input `i`, of 1 to 4.
local repos = {
    "owner/name", "https://github.com/owner/name", "https://git.example.com:8443/group/sub/project.git", "a/b.c",
}
local file_repos = { "file:///srv/git/repo", "owner/name", "file:///a/b/c.git/", "https://gitlab.com/group/project" }
local wrong_repos = {
    "name", "git@github.com:owner/name", "https://user:word@example.com/x", "https://example.com/../x",
}
local refs = { "main", "topic/one", "refs/tags/v1.0.0", "0123456789abcdef0123456789abcdef01234567" }
local wrong_refs = { "-x", "a..b", "a b", "refs/heads/x.lock" }
local paths = { ".", "src/main.c", "/workspace/a/b/c.txt", "./a/../b//c" }
local wrong_paths = { "..", "/etc/passwd", "", "a/../../b" }
local cpus = { "1", "500m", "0.25", "2" }
local sizes = { "2Gi", "512Mi", "1.5G", "1048576" }
local envs = { { A = "b" }, { TOKEN = "0123456789" }, {}, { CI = "true", HOME = "/tmp" } }

local rules = {
    { "normalize_repo", function(i) return sandbox.normalize_repo(repos[i]) end },
    { "normalize_repo, with options", function(i) return sandbox.normalize_repo(file_repos[i], files) end },
    { "normalize_repo, refused", function(i) return sandbox.normalize_repo(wrong_repos[i]) end },
    { "check_git_ref", function(i) return sandbox.check_git_ref(refs[i]) end },
    { "check_git_ref, refused", function(i) return sandbox.check_git_ref(wrong_refs[i]) end },
    { "resolve_workspace_path", function(i) return sandbox.resolve_workspace_path(paths[i]) end },
    { "resolve_workspace_path, refused", function(i) return sandbox.resolve_workspace_path(wrong_paths[i]) end },
    { "resolve_limits", function() return sandbox.resolve_limits(layer) end },
    { "parse_cpu", function(i) return sandbox.parse_cpu(cpus[i]) end },
    { "parse_memory", function(i) return sandbox.parse_memory(sizes[i]) end },
    { "assert_sandbox_env", function(i) return sandbox.assert_sandbox_env(envs[i]) end },
    { "create_output_collector", function() return sandbox.create_output_collector(65536) end },
    { "collector:write, 100 bytes", function() return collector:write(line) end },
    { "uuid", function() return sandbox.uuid() end },
}

local function measure(rule)
    local calls, start = 0, os.clock()
    local elapsed
    repeat
        for _ = 1, 2500 do
            rule(1)
            rule(2)
            rule(3)
            rule(4)
        end
        calls = calls + 10000
        elapsed = os.clock() - start
    until elapsed >= seconds
    return calls / elapsed
end

for _, rule in ipairs(rules) do
    collectgarbage()
    io.write(("%s\t%.0f\n"):format(rule[1], measure(rule[2])))
end
