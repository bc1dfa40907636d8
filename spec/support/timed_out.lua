local assert = require "luassert"

--- The result of a shell script whose time is over, which was not before it had printed: a busy machine gets more.
---@param workspace chamvi.Workspace
---@param script string
---@param timeout_ms integer milliseconds
---@param stdin string?
---@return chamvi.ExecResult
return function(workspace, script, timeout_ms, stdin)
    local result
    for _, factor in ipairs({ 1, 10, 100 }) do
        result = assert(workspace:exec({ "sh", "-c", script }, { timeout_ms = factor * timeout_ms, stdin = stdin }))
        if result.stdout ~= "" then
            break
        end
    end
    return result
end
