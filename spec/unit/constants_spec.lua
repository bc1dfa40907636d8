local sandbox = require "chamvi.sandbox"

describe("the constants", function()
    it("have the values of the reference", function()
        local expected = {
            MAX_WORKSPACES_PER_RUN = 3,
            GC_INTERVAL_MS = 600000,
            CLOSE_TIMEOUT_MS = 30000,
            WORKSPACE_ROOT = "/workspace",
            OUTPUT_MAX_BYTES = 65536,
            FILE_MAX_BYTES = 1048576,
            EXEC_TIMEOUT_MS = 300000,
            EXEC_TIMEOUT_MAX_MS = 1800000,
            SANDBOX_ENV = {
                HOME = "/tmp",
                GIT_TERMINAL_PROMPT = "0",
                GIT_CONFIG_NOSYSTEM = "1",
                GIT_CONFIG_COUNT = "1",
                GIT_CONFIG_KEY_0 = "safe.directory",
                GIT_CONFIG_VALUE_0 = "/workspace",
                NPM_CONFIG_UPDATE_NOTIFIER = "false",
                CI = "true",
            },
            DEFAULT_LIMITS = { cpu = "1", memory = "2Gi", storage = "4Gi", pids = 512, timeout_ms = 1800000 },
            DEFAULT_SANDBOX_IMAGE = "ghcr.io/chamvi/sandbox-node:24",
            TMP_SIZE = "512Mi",
            SANDBOX_LABELS = {
                ["app.kubernetes.io/managed-by"] = "chamvi",
                ["app.kubernetes.io/component"] = "sandbox",
            },
            SANDBOX_LABEL_SELECTORS = {
                "app.kubernetes.io/managed-by=chamvi",
                "app.kubernetes.io/component=sandbox",
            },
            RUN_LABEL = "chamvi.dev/run",
            WORKSPACE_LABEL = "chamvi.dev/workspace",
            EXPIRES_AT_KEY = "chamvi.dev/expires-at",
            TIMEOUT_KILL_AFTER_SECONDS = 5,
            EXEC_GRACE_MS = 15000,
            ALIVE_PROBE_TIMEOUT_MS = 5000,
        }
        local found = {}
        for name, value in pairs(sandbox) do
            if name:find("^[A-Z_]+$") then
                found[name] = value
            end
        end
        assert.same(expected, found)
    end)

    it("hold for the rules", function()
        assert.equal(sandbox.WORKSPACE_ROOT, sandbox.resolve_workspace_path("."))
        assert.same(sandbox.DEFAULT_LIMITS, sandbox.resolve_limits(sandbox.DEFAULT_LIMITS))
        assert.equal(536870912, sandbox.parse_memory(sandbox.TMP_SIZE))
        sandbox.assert_sandbox_env(sandbox.SANDBOX_ENV)
    end)

    it("are plain tables", function()
        for _, name in ipairs({ "SANDBOX_ENV", "DEFAULT_LIMITS", "SANDBOX_LABELS", "SANDBOX_LABEL_SELECTORS" }) do
            assert.is_nil(getmetatable(sandbox[name]))
            assert.is_truthy(next(sandbox[name]))
        end
    end)
end)

describe("sandbox.null", function()
    local function reload()
        package.loaded["chamvi.sandbox.null"] = nil
        return require "chamvi.sandbox.null"
    end

    after_each(function()
        rawset(_G, "vim", nil)
        reload()
    end)

    it("is the NULL light userdata", function()
        assert.equal("userdata", type(sandbox.null))
        local printed = tostring(sandbox.null)
        assert.is_truthy(printed:find("nil", 1, true) or printed:find("NULL", 1, true), printed)
        assert.equal(sandbox.null, reload())
    end)

    it("is vim.NIL in Neovim", function()
        local vim_nil = newproxy and newproxy() or io.stdout -- a userdata
        rawset(_G, "vim", { NIL = vim_nil })
        assert.equal(vim_nil, reload())
        rawset(_G, "vim", {})
        assert.equal(sandbox.null, reload())
        rawset(_G, "vim", "something else")
        assert.equal(sandbox.null, reload())
    end)
end)
