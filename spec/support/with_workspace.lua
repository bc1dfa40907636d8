--- Calls `use(workspace)` with a new workspace of the provider, and disposes it however that ends.
---@param provider { create: function }
---@param use fun(workspace: chamvi.Workspace)
---@param request? table of its create; `run_id` needs none
return function(provider, use, request)
    local given = { run_id = "spec" }
    for name, value in pairs(request or {}) do
        given[name] = value
    end
    local workspace = assert(provider:create(given))
    local ok, err = pcall(use, workspace)
    local disposed, failure = workspace:dispose()
    if not ok then
        error(disposed and err or ("%s\nand its disposal failed: %s"):format(tostring(err), tostring(failure)), 0)
    end
    assert(disposed, failure)
end
