-- What the behaviours share.

local support = {}

-- Calls `use(workspace)` with a new workspace, and disposes it.
function support.with_workspace(t, use)
    local workspace = assert(t.provider:create({ run_id = "behaviour" }))
    local ok, err = pcall(use, workspace)
    local disposed, failure = workspace:dispose()
    if not ok then
        error(err, 0)
    end
    assert(disposed, failure)
    return workspace
end

-- Waits by the host's own means, so that nobody waits for the library.
function support.wait_until(t, condition, what)
    for _ = 1, 3000 do
        if condition() then
            return
        end
        t.pause(10)
    end
    error("not within 30 s: " .. what, 2)
end

return support
