local hosts = require "spec.hosts.support.hosts"

-- The shell command of a headless editor without anybody's configuration.
local function nvim(commands)
    local quoted = {}
    for index, command in ipairs(commands) do
        quoted[index] = ('-c "%s"'):format(command)
    end
    return ("%s; exec nvim --headless --clean -n %s"):format(hosts.settings("luajit"), table.concat(quoted, " "))
end

describe("Neovim as a host:", function()
    hosts.behave({ it = it, setup = setup, teardown = teardown }, function(folder)
        return nvim({ ("let g:folder = '%s'"):format(folder), "luafile spec/hosts/support/neovim_host.lua" })
    end)
end)
