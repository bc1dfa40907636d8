-- Checks a repository out into a workspace, by git inside the workspace, so that it serves every provider.

local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"
local git_argv = require "chamvi.sandbox.git_argv"
local options = require "chamvi.sandbox.options"
local redact_urls = require "chamvi.sandbox.redact_urls"
local rules = require "chamvi.sandbox.rules"
local trim = require "chamvi.sandbox.trim"

local INPUT = { repo = options.any, ref = options.any, signal = options.signal }

-- What git said, for others. Of a line that was cut off nobody knows whether a password begins in it.
local function words_of(result)
    local text = result.stderr_truncated and (result.stderr:match("^.*\n") or "") or result.stderr
    return trim(redact_urls(text))
end

-- Runs git; `doing` says what for. Returns its result when it exited with 0 or `accepted`.
local function git(workspace, signal, doing, arguments, accepted)
    local result, err = workspace:exec(git_argv(arguments), {
        timeout_ms = constants.EXEC_TIMEOUT_MAX_MS,
        signal = signal,
    })
    if not result then
        return nil, err
    end
    if result.exit_code == 0 or result.exit_code == accepted then
        return result
    end

    local words = words_of(result)
    local reason
    if result.timed_out then
        reason = ("it took longer than %d ms"):format(constants.EXEC_TIMEOUT_MAX_MS)
    elseif result.exit_code == 127 then
        reason = "the workspace has no git, or no env"
    elseif words == "" then
        reason = "git ended with exit code " .. result.exit_code
    else
        reason = words:match("fatal: ([^\n]*)") or words:match("error: ([^\n]*)") or words:match("^[^\n]*")
    end
    return nil, errors.sandbox("checkout_failed", ("%s failed: %s"):format(doing, reason), { detail = words })
end

-- The full id of the commit to check out, nil without an error when the repository is empty.
local function fetch(workspace, signal, ref)
    -- The plus ahead of the name, so that git takes no plus of the name's own for it.
    local arguments = { "fetch", "--quiet", "--depth", "1", "--no-tags", "--no-recurse-submodules", "--no-auto-gc" }
    table.insert(arguments, "--end-of-options")
    table.insert(arguments, "origin")
    table.insert(arguments, "+" .. (ref or "HEAD"))
    local doing = ref and ('fetching "%s"'):format(ref) or "fetching the default branch"
    local fetched, err = git(workspace, signal, doing, arguments)
    if not fetched then
        if ref or err.code ~= "checkout_failed" then
            return nil, err
        end
        -- An empty repository has no HEAD to fetch either; --exit-code makes that a 2.
        local listed = git(workspace, signal, doing, { "ls-remote", "--quiet", "--exit-code", "origin" }, 2)
        return nil, not (listed and listed.exit_code == 2) and err or nil
    end

    local resolved
    local resolving = { "rev-parse", "--verify", "--end-of-options", "FETCH_HEAD^{commit}" }
    resolved, err = git(workspace, signal, "resolving what was fetched", resolving)
    if not resolved then
        return nil, err
    end
    local id = trim(resolved.stdout)
    if not id:find("^%x+$") then
        return nil, errors.sandbox("checkout_failed", "git named no commit for what was fetched")
    end
    return id
end

--- Makes the workspace's root a git repository and checks out `ref` of `repo` there, one commit deep, with
--- HEAD detached and `origin` set, so that more can be fetched later. Works through `workspace:exec` alone.
---@param workspace { exec: function } a workspace whose root is empty
---@param input? { repo?: string, ref?: string, signal?: chamvi.Signal }
---   `repo` a normalized URL (https or file); none: an empty repository. `ref` a branch, a tag, a full ref name
---   or a full commit id; default: the repository's default branch
---@return { commit?: string }|nil # the commit, none without a repo and for an empty one
---@return chamvi.Error? err ValidationError `invalid_repo`, `invalid_ref`, `invalid_input`; SandboxError
---   `checkout_failed` with git's stderr in `detail`, or what `exec` returned
return function(workspace, input)
    if type(workspace) ~= "table" or type(workspace.exec) ~= "function" then
        error(("bad argument #1 to 'prepare_workspace' (workspace expected, got %s)"):format(type(workspace)), 2)
    end
    local given = options.check("prepare_workspace", input, INPUT)
    local repo, ref, signal = given.repo, given.ref, given.signal
    local ok, err
    if repo ~= nil then
        repo, err = rules.normalize_repo(repo, { allow_file_repos = true })
        if not repo then
            return nil, err
        end
    end
    if ref ~= nil then
        if repo == nil then
            return nil, errors.validation("invalid_input", "a ref without a repo makes no sense")
        end
        ok, err = rules.check_git_ref(ref)
        if not ok then
            return nil, err
        end
    end

    ok, err = git(workspace, signal, "git init", git_argv.INIT)
    if not ok then
        return nil, err
    end
    if repo == nil then
        return {}
    end
    -- Set rather than added, so that a call after a failed one works.
    for name, value in pairs({ url = repo, fetch = "+refs/heads/*:refs/remotes/origin/*" }) do
        local setting = { "config", "--replace-all", "remote.origin." .. name, value }
        ok, err = git(workspace, signal, "setting the remote", setting)
        if not ok then
            return nil, err
        end
    end
    local commit
    commit, err = fetch(workspace, signal, ref)
    if not commit then
        if err then
            return nil, err
        end
        return {}
    end
    ok, err = git(workspace, signal, "the checkout", { "checkout", "--quiet", "--detach", commit })
    if not ok then
        return nil, err
    end
    return { commit = commit }
end
