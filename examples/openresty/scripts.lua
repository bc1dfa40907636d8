-- What nginx.conf calls. The module is loaded once in each worker, and so is the manager.

local local_sandbox = require "chamvi.sandbox.local" -- no isolation: see the README
local ngx = require "ngx"
local sandbox = require "chamvi.sandbox"

local scripts = {}

local manager = sandbox.create_workspace_manager({
    provider = local_sandbox.create_local_sandbox(),
})
local hooks = manager:hooks()

local function refuse(status, err)
    ngx.status = status
    ngx.say(err.code, ": ", err.message)
    return ngx.exit(ngx.OK)
end

--- Runs the script in the request's body and answers with what it printed. The worker serves others meanwhile.
function scripts.run()
    local signal = sandbox.signal()
    assert(ngx.on_abort(function()
        signal:abort("the client has gone")
    end))

    ngx.req.read_body()
    ngx.ctx.run_id = sandbox.uuid()
    local workspace, err = manager:acquire(ngx.ctx.run_id, { signal = signal })
    if not workspace then
        return refuse(ngx.HTTP_SERVICE_UNAVAILABLE, err)
    end
    local result
    result, err = workspace:exec({ "sh", "-c", ngx.req.get_body_data() or "" }, {
        signal = signal,
        timeout_ms = 30000,
    })
    if err and err.code == "aborted" then
        return ngx.exit(499)
    elseif not result then
        return refuse(ngx.HTTP_INTERNAL_SERVER_ERROR, err)
    end

    ngx.header["X-Exit-Code"] = result.exit_code
    ngx.print(result.stdout, result.stderr)
end

--- The request is over, however it ended: its workspace is removed in the background.
function scripts.over()
    if ngx.ctx.run_id then
        hooks.completed(ngx.ctx.run_id)
    end
end

return scripts
