-- The public constants. The library reads this table; users get a copy, so that nothing they change
-- reaches a limit or an environment.

return {
    -- Workspaces
    WORKSPACE_ROOT = "/workspace", -- the root as a model sees it, on every provider
    OUTPUT_MAX_BYTES = 65536, -- kept of each output stream of an exec
    FILE_MAX_BYTES = 1048576, -- largest file to read or write
    EXEC_TIMEOUT_MS = 300000, -- when an exec names none
    EXEC_TIMEOUT_MAX_MS = 1800000,
    -- All of the environment that a workspace starts with, before the configured `env`. `safe.directory`
    -- because in a container the root folder is a volume of another user.
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

    -- The manager
    MAX_WORKSPACES_PER_RUN = 3,
    GC_INTERVAL_MS = 600000, -- between the collections that `acquire` starts
    CLOSE_TIMEOUT_MS = 30000, -- how long `close` waits for disposals

    -- Workspaces behind a transport
    TIMEOUT_KILL_AFTER_SECONDS = 5, -- from SIGTERM to SIGKILL
    EXEC_GRACE_MS = 15000, -- beyond an exec's own time limit, until the host gives it up
    ALIVE_PROBE_TIMEOUT_MS = 5000,

    -- Providers
    DEFAULT_LIMITS = {
        cpu = "1",
        memory = "2Gi",
        storage = "4Gi",
        pids = 512,
        timeout_ms = 1800000, -- lifetime of a workspace
    },
    DEFAULT_SANDBOX_IMAGE = "ghcr.io/chamvi/sandbox-node:24",
    TMP_SIZE = "512Mi", -- of the /tmp in a container or pod
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
    EXPIRES_AT_KEY = "chamvi.dev/expires-at", -- epoch milliseconds
}
