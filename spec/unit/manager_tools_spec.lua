-- The tools of a real manager, called as a model calls them.

local native = require "chamvi.sandbox.core"
local sandbox = require "chamvi.sandbox"

local function new_manager(options)
    local given = {
        gc_interval_ms = 0,
        provider = {
            name = "plain",
            create = function(_, request)
                return {
                    id = sandbox.uuid(),
                    info = { run_id = request.run_id, repo = request.repo, ref = request.ref, expires_at = 2 ^ 50 },
                    disposed = false,
                    dispose = function(self)
                        self.disposed = true
                        return true
                    end,
                }
            end,
            collect_garbage = function()
                return 0
            end,
        },
    }
    for name, value in pairs(options or {}) do
        given[name] = value
    end
    return sandbox.create_workspace_manager(given)
end

describe("a manager's tools", function()
    local function caller(tools, context)
        return function(name, input)
            local text, is_error = sandbox.tools.call(tools, name, input, context)
            local answer = native.json_decode(text)
            assert.equal(is_error, answer.error ~= nil)
            return answer.error and answer.error.code or answer
        end
    end

    it("create and dispose workspaces of the run in the context", function()
        local manager = new_manager()
        local call = caller(manager:tools(), { run_id = "run" })
        local made = call("create_workspace", '{"repo":"owner/name","ref":"main"}')
        assert.equal(manager:get("run").id, made.workspace)
        assert.equal("https://github.com/owner/name.git", made.repo)
        assert.equal("main", made.ref)
        assert.equal(native.null, made.commit)
        assert.is_false(made.reused)
        local again = call("create_workspace", '{"repo":"owner/name"}')
        assert.is_true(again.reused)
        assert.equal(made.workspace, again.workspace)
        local dispose = ('{"workspace":"%s"}'):format(made.workspace)
        assert.equal("workspace_not_found", caller(manager:tools(), { run_id = "other" })("dispose_workspace", dispose))
        assert.same({ workspace = made.workspace, disposed = true }, call("dispose_workspace", dispose))
        assert.equal("no_workspace", select(2, manager:get("run")).code)
        assert.equal("workspace_not_found", call("dispose_workspace", dispose))
        manager:close()
    end)

    it("answer with the codes that their descriptions name", function()
        local manager = new_manager({
            max_workspaces_per_run = 1,
            allow_repo = function(url)
                return not url:find("secret")
            end,
        })
        local signal = sandbox.signal()
        local call = caller(manager:tools(), { run_id = "run", signal = signal })
        local function create(input)
            return call("create_workspace", input)
        end
        assert.equal("invalid_repo", create('{"repo":""}'))
        assert.equal("invalid_ref", create('{"repo":"owner/name","ref":"-x"}'))
        assert.equal("invalid_input", create('{"ref":"main"}'))
        assert.equal("repo_not_allowed", create('{"repo":"owner/secret"}'))
        assert.is_false(create('{"repo":"owner/name","ref":"main"}').reused)
        assert.equal("ref_conflict", create('{"repo":"owner/name","ref":"other"}'))
        assert.equal("cap_reached", create("{}"))
        assert.equal("workspace_not_found", call("dispose_workspace", '{"workspace":""}'))
        signal:abort("enough")
        assert.equal("aborted", create("{}"))
        manager:close()
        assert.equal("closed", caller(manager:tools(), { run_id = "run" })("create_workspace", "{}"))
    end)

    it("of a bound run work in that run without a context, whatever it says", function()
        local manager = new_manager()
        manager:with_run("bound", function(run)
            local made = caller(run:tools(), { run_id = "other" })("create_workspace", "")
            assert.equal(run:get().id, made.workspace)
            assert.equal("no_workspace", select(2, manager:get("other")).code)
            local disposed = caller(run:tools())("dispose_workspace", { workspace = made.workspace })
            assert.is_true(disposed.disposed)
            assert.are_not.equal(run:tools().create_workspace, run:tools().create_workspace)
        end)
        manager:close()
    end)

    it("need a manager", function()
        local manager = new_manager()
        assert.has_error(function()
            manager.tools()
        end, "bad argument #1 to 'tools' (manager expected, got nil)")
        manager:close()
    end)
end)
