-- How git is called in a workspace.

-- git asks nobody, runs no hook, uses no stored credentials and no transport but these two. Both askpass
-- variables must be empty too: the option alone leaves the variables in force.
local GIT = {
    "env",
    "GIT_TERMINAL_PROMPT=0",
    "GIT_ASKPASS=",
    "SSH_ASKPASS=",
    "GIT_ALLOW_PROTOCOL=https:file",
    "git",
    "-c",
    "core.askPass=",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "credential.helper=",
    "-c",
    "init.defaultBranch=main",
    "-c",
    "advice.detachedHead=false",
    -- A transfer that crawls for a minute is given up.
    "-c",
    "http.lowSpeedLimit=1000",
    "-c",
    "http.lowSpeedTime=60",
}

local git_argv = {}

--- The arguments that make a folder a repository. Without a template there are no hooks.
git_argv.INIT = { "init", "--quiet", "--template=" }

--- The whole argv.
---@param arguments string[]
---@return string[]
local function whole(_, arguments)
    local argv = {}
    for _, list in ipairs({ GIT, arguments }) do
        for _, argument in ipairs(list) do
            table.insert(argv, argument)
        end
    end
    return argv
end

return setmetatable(git_argv, { __call = whole })
