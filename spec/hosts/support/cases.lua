-- What only one host can show, as specs: each case is a program of its own, and what it has to print.

local hosts = require "spec.hosts.support.hosts"
local scratch = require "spec.support.scratch"

local BOUND_S = 120 -- for a host that hangs; a case takes less than a second

local cases = {}

--- One that hosts with tasks of their own share. Only LuaJIT has an FFI to fork with.
cases.FORKED = {
    case = "forked",
    says = "what waits in a forked child is told that it can't",
    prints = "child: false SandboxError: used in a forked process: start anew in the child\nparent: true true\n",
}

--- Writes the program of a section of the README into a file.
---@param heading string
---@param path string
function cases.write_readme_program(heading, path)
    local section = assert(scratch.read("README.md"):match("\n### " .. heading .. "\n(.*)$"), heading)
    scratch.write(path, assert(section:match("```lua\n(.-)```"), heading))
end

--- To be called in a `describe`, with busted's own functions, since a required file does not see them.
---@param busted { it: function }
---@param command fun(case: string, folder: string): string the shell command, which runs in the project's folder
---@param list { case: string, says: string, prints: string, readme?: string }[] `readme`: the heading of the section
---   whose program is put into the folder's readme.lua
function cases.describe(busted, command, list)
    for _, case in ipairs(list) do
        busted.it(case.says, function()
            local folder = scratch.folder()
            if case.readme then
                cases.write_readme_program(case.readme, folder .. "/readme.lua")
            end
            scratch.shell(("mkdir -m 700 %s/workspaces"):format(folder))
            local ok, output = pcall(scratch.shell, ("TMPDIR=%s timeout -k 5 %d sh -c %s </dev/null"):format(folder,
                BOUND_S, scratch.quote(command(case.case, folder))))
            local left = hosts.processes_left(folder) .. hosts.files_left(folder)
            scratch.remove(folder)
            assert(ok, output)
            assert(output == case.prints, output)
            assert(left == "", left)
        end)
    end
end

return cases
