-- What only one host can show, as specs: each case is a program of its own, and what it has to print.

local hosts = require "spec.hosts.support.hosts"
local scratch = require "spec.support.scratch"

local BOUND_S = 60 -- for a host that hangs; a case takes less than a second

--- To be called in a `describe`, with busted's own functions, since a required file does not see them.
---@param busted { it: function }
---@param command fun(case: string, folder: string): string the shell command, which runs in the project's folder
---@param cases { case: string, says: string, prints: string }[]
return function(busted, command, cases)
    for _, case in ipairs(cases) do
        busted.it(case.says, function()
            local folder = scratch.folder()
            local ok, output = pcall(scratch.shell, ("mkdir -m 700 %s/workspaces; timeout -k 5 %d sh -c %s </dev/null")
                :format(folder, BOUND_S, scratch.quote(command(case.case, folder))))
            local left = hosts.processes_left(folder) .. hosts.files_left(folder)
            scratch.remove(folder)
            assert(ok, output)
            assert(output == case.prints, output)
            assert(left == "", left)
        end)
    end
end
