---@meta chamvi.sandbox

-- For LuaLS: what `require "chamvi.sandbox"` gives. The words are those of the sources; spec/unit/types_spec.lua
-- holds the two together, and both to what is there at run time.

--- Disposable workspaces in which an agent runs commands.
---@class chamvi.sandbox
local sandbox = {}

-- Errors -----------------------------------------------------------------------------------------

---@alias chamvi.ErrorCode
---| "invalid_argv" # ValidationError
---| "invalid_input" # ValidationError
---| "invalid_json" # ValidationError: a tool's input is no JSON text
---| "invalid_path" # ValidationError
---| "invalid_ref" # ValidationError
---| "invalid_repo" # ValidationError
---| "invalid_stdin" # ValidationError
---| "invalid_timeout" # ValidationError
---| "unknown_tool" # ValidationError
---| "repo_not_allowed" # ValidationError: the manager's `allow_repo` refused it
---| "workspace_required" # ValidationError: the run has several, and no id was given
---| "aborted" # SandboxError: the call's signal was aborted, or its `on_output` failed
---| "cap_reached" # SandboxError: the run may not have more workspaces
---| "checkout_failed" # SandboxError: `detail` has git's words
---| "closed" # SandboxError: the manager is closed; or the core can't be used, as in a forked child
---| "credentials_failed" # SandboxError: no credential for a cluster: a token file or a plugin gave none
---| "conflict" # SandboxError: there is a pod of that name
---| "create_failed" # SandboxError: `cause` has the reason
---| "cwd_not_found" # SandboxError
---| "deleted" # SandboxError, as a cause: the pod was deleted
---| "disposed" # SandboxError
---| "ended" # SandboxError, as a cause: the pod's main program ended
---| "evicted" # SandboxError, as a cause: the pod was evicted or preempted
---| "expired" # SandboxError, as a cause: the pod has reached its deadline
---| "engine_unreachable" # SandboxError: no connection, so nothing was done
---| "engine_failed" # SandboxError: the engine answered with an error, which the message has
---| "file_failed" # SandboxError: `detail` says what the system refused
---| "file_not_found" # SandboxError
---| "file_too_large" # SandboxError
---| "forbidden" # SandboxError: the engine does not let this program do that
---| "gc_failed" # SandboxError: `count` tells how many workspaces went all the same
---| "gone" # SandboxError: the folder, supervisor, container or pod of the workspace no longer exists
---| "image_unavailable" # SandboxError: it is not there, and can't be pulled
---| "invalid_kube_config" # SandboxError: the kubeconfig; the message has file and field
---| "invalid_request" # SandboxError: a malformed URL or header field
---| "kill_failed" # SandboxError: what the workspace ran may still run; disposing again can't change that
---| "network_none" # SandboxError: containers without a network can't clone a repository
---| "no_shell" # SandboxError: the image has no `sh`, or no GNU `timeout`
---| "no_space" # SandboxError
---| "no_workspace" # SandboxError: the run has none
---| "not_a_file" # SandboxError
---| "not_utf8" # SandboxError
---| "node_lost" # SandboxError, as a cause: the pod's node is lost, or does not report
---| "not_found" # SandboxError: there is no pod of that name, or no such namespace
---| "not_ready" # SandboxError: the container is paused; nothing ran. The pod does not start; the message says why
---| "oom_killed" # SandboxError, as a cause: the pod ran out of memory
---| "outside_workspace" # SandboxError: a link leads out
---| "permission_denied" # SandboxError
---| "ref_conflict" # SandboxError: the run's workspace of that repository is at another ref
---| "refused" # SandboxError: a quota or admission does not take the pod, or it is wrong
---| "released" # SandboxError: the run was released while the workspace was being made
---| "remove_failed" # SandboxError: something could not be deleted; dispose again
---| "replaced" # SandboxError, as a cause: the pod is another one of its name
---| "response_too_large" # SandboxError
---| "restarted" # SandboxError, as a cause: the pod's container was started again
---| "start_failed" # SandboxError: the system refused a process, a pipe or memory
---| "tool_failed" # SandboxError: a tool raised, or its result has no JSON form
---| "transport_lost" # SandboxError: the outcome is unknown; `partial` has the output so far
---| "timed_out" # SandboxError: an engine gave no whole answer in time
---| "upgrade_refused" # SandboxError: an engine answered a request for a stream with something else
---| "workspace_expired" # SandboxError
---| "workspace_not_found" # SandboxError: the run has none with that id
---| "invalid_option" # InvalidAgentDefinitionError: a wrong value
---| "unknown_option" # InvalidAgentDefinitionError

---@class chamvi.PartialOutput
---@field stdout string UTF-8, at most OUTPUT_MAX_BYTES
---@field stderr string
---@field stdout_truncated boolean
---@field stderr_truncated boolean

---@class chamvi.Error
---@field name "ValidationError"|"SandboxError"|"InvalidAgentDefinitionError"
---@field code chamvi.ErrorCode stable, snake_case
---@field message string one line for a person or a model
---@field detail? string what the outside world said, at most 4,096 bytes
---@field cause? any the error or the abort reason behind this one
---@field partial? chamvi.PartialOutput `transport_lost`: the output that had arrived
---@field count? integer `gc_failed`: how many workspaces went
---@field where? string `InvalidAgentDefinitionError`: the caller's file and line

--- Whether a value is an error of this library, and of the given name if there is one.
---@param value any
---@param name? string
---@return boolean
function sandbox.is_error(value, name) end

-- Workspaces -------------------------------------------------------------------------------------

---@class chamvi.WorkspaceInfo
---@field run_id string
---@field provider string name of the provider that made it
---@field repo? string
---@field ref? string
---@field commit? string what HEAD was after the checkout
---@field created_at integer epoch milliseconds
---@field expires_at integer epoch milliseconds

---@class chamvi.ExecOptions
---@field cwd? string relative to the root or under /workspace; default the root
---@field timeout_ms? integer default EXEC_TIMEOUT_MS, clamped to EXEC_TIMEOUT_MAX_MS
---@field stdin? string default: end of file at once
---@field signal? chamvi.Signal aborts the command
---@field on_output? fun(stream: "stdout"|"stderr", chunk: string) gets every raw chunk, beyond the cap too; must
---   not wait; a command that outruns it is slowed down; what it raises aborts the command

---@class chamvi.ExecResult
---@field status "exited"|"signaled"|"timed_out"|"oom_killed" the last where the kernel's count of such kills can be
---   read; of commands at the same time it may be another's
---@field exit_code integer as a shell reports it: 127 not found, 126 not executable, 128+n signal n, 124 timeout
---@field term_signal? integer
---@field stdout string UTF-8, at most OUTPUT_MAX_BYTES
---@field stderr string
---@field stdout_truncated boolean
---@field stderr_truncated boolean
---@field stdout_bytes integer all that was printed, kept or not
---@field stderr_bytes integer
---@field streams_held boolean a background job still holds the output
---@field timed_out boolean
---@field duration_ms integer

---@class chamvi.Workspace
---@field id string a UUID
---@field info chamvi.WorkspaceInfo
---@field disposed boolean true after `dispose`, and once it was found gone
local Workspace = {}

--- Runs a command; no shell is involved. Waits until it has ended. A non-zero exit is a result, no error.
---@param argv string[] the program and its arguments, without NUL, each at most 131,071 bytes
---@param given? chamvi.ExecOptions
---@return chamvi.ExecResult|nil
---@return chamvi.Error? err ValidationError for argv, cwd, timeout_ms, stdin; SandboxError `aborted`, `disposed`,
---   `gone`, `cwd_not_found`, `outside_workspace` (a link in cwd leads out), `start_failed`, `no_shell`,
---   `transport_lost` (the outcome is unknown; `err.partial` has the output so far)
function Workspace:exec(argv, given) end

--- Reads a whole file. Links are followed as long as they stay inside the workspace.
---@param path string relative to the root or under /workspace
---@return string|nil text valid UTF-8, at most FILE_MAX_BYTES
---@return chamvi.Error? err ValidationError `invalid_path`; SandboxError `file_not_found`, `not_a_file` (folders and
---   all but regular files), `file_too_large`, `not_utf8`, `outside_workspace`, `permission_denied`, `file_failed`,
---   `disposed`, `gone`, `transport_lost`
function Workspace:read_file(path) end

--- Writes a whole file in one step: who reads it meanwhile sees the old content or the new one. Makes missing
--- folders (0755). An existing file keeps its mode, a new one gets 0644. Of a link that stays inside the
--- workspace the target is written.
---@param path string relative to the root or under /workspace
---@param content string any bytes, at most FILE_MAX_BYTES
---@return true|nil
---@return chamvi.Error? err ValidationError `invalid_path`, `invalid_input` (content that is no string); SandboxError
---   `file_too_large`, `not_a_file`, `outside_workspace`, `permission_denied`, `no_space`, `file_failed`, `disposed`,
---   `gone`, `transport_lost` (it was written or not)
function Workspace:write_file(path, content) end

--- Kills everything that the workspace ran and deletes everything that it stored, and waits until that is
--- done. Commands under way end with `disposed`. May be called again, also by several at once; after a
--- failure the next call tries again.
---@return true|nil
---@return chamvi.Error? err
function Workspace:dispose() end

--- Makes the workspace's root a git repository and checks out `ref` of `repo` there, one commit deep, with
--- HEAD detached and `origin` set, so that more can be fetched later. Works through `workspace:exec` alone.
---@param workspace { exec: function } a workspace whose root is empty
---@param input? { repo?: string, ref?: string, signal?: chamvi.Signal }
---   `repo` a normalized URL (https or file); none: an empty repository. `ref` a branch, a tag, a full ref name
---   or a full commit id; default: the repository's default branch
---@return { commit?: string }|nil # the commit, none without a repo and for an empty one
---@return chamvi.Error? err ValidationError `invalid_repo`, `invalid_ref`, `invalid_input`; SandboxError
---   `checkout_failed` with git's stderr in `detail`, or what `exec` returned
function sandbox.prepare_workspace(workspace, input) end

--- A workspace on a transport. Contacts nothing. Where the transport runs programs there must be `sh`, GNU coreutils
--- and the folder /workspace.
---@param given chamvi.RemoteOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.Workspace
function sandbox.create_remote_workspace(given) end

---@class chamvi.Signal
---@field aborted boolean
---@field reason any what `abort` was given first
local Signal = {}

--- Aborts every call that was given this token; they return `nil, err` with code `aborted` and `cause` the
--- reason. Only the first call counts. Never yields, so it can be used where nothing may wait.
---@param reason? any
function Signal:abort(reason) end

--- Has `listener(reason)` called when the token is aborted; at once if it is already. The listener must
--- not wait; what it raises is reported on stderr.
---@param listener fun(reason: any)
---@return fun() remove forgets the listener
function Signal:on_abort(listener) end

--- A new token, not aborted.
---@return chamvi.Signal
function sandbox.signal() end

-- Tasks ------------------------------------------------------------------------------------------

---@class chamvi.Task
---@field done boolean it has ended
local Task = {}

--- Waits until the task has ended. Raises when that could never be: tasks that join each other.
---@return any ... what its function returned, or nil and what it raised
function Task:join() end

--- Runs `fn(...)` as a task, with every task that it spawns, to the end.
--- A task that failed and that nobody joined is reported on stderr, one line each.
---@param fn function
---@param ... any its arguments
---@return any ... the results of fn; what fn raised is raised again, a string with its traceback
function sandbox.run(fn, ...) end

--- Starts a task. In a task it begins when the others had their turn; elsewhere it runs at once up to its
--- first wait, and goes on while `run`, `all`, `join` or `loop():step()` run.
---@param fn function
---@param ... any its arguments
---@return chamvi.Task
function sandbox.spawn(fn, ...) end

--- Runs functions as tasks and waits for all of them.
---@param functions function[]
---@return table[] # for each function, in its place, a list with `n`: what it returned, or nil and what it raised
function sandbox.all(functions) end

--- Waits.
---@param ms integer milliseconds, 0 or more
---@return true|nil
---@return chamvi.Error? err
function sandbox.sleep(ms) end

--- Runs `fn()` as a task and calls `done` with its results, or with nil and what it raised. For programs
--- that work with callbacks; returns at once.
---@param fn function
---@param done function what it raises itself is reported on stderr
function sandbox.async(fn, done) end

---@class chamvi.Loop
local Loop = {}

--- The descriptor to watch. It stays the same.
---@return integer|nil fd
---@return chamvi.Error? err
function Loop:pollfd() end

--- What to watch the descriptor for: "r".
---@return string|nil events
---@return chamvi.Error? err
function Loop:events() end

--- 0 while there is something to do at once, else nil: then the descriptor tells.
---@return 0|nil
function Loop:timeout() end

--- Handles what is there and runs the tasks that can go on. To be called when the descriptor is readable or
--- the timeout is 0.
---@param timeout_ms? integer how long to wait for something to do; default 0
---@return true|nil
---@return chamvi.Error? err
function Loop:step(timeout_ms) end

--- The library's loop as an object that another loop can serve: the protocol of cqueues, with `step`.
---@return chamvi.Loop
function sandbox.loop() end

-- Manager ----------------------------------------------------------------------------------------

--- A manager without workspaces. Contacts nothing.
---@param given chamvi.WorkspaceManagerOptions a wrong or unknown one raises an InvalidAgentDefinitionError
---@return chamvi.WorkspaceManager
function sandbox.create_workspace_manager(given) end

--- Tools for models: calls by name, and the forms in which the APIs of models take them.
---@type chamvi.sandbox.tools
sandbox.tools = nil

-- Rules ------------------------------------------------------------------------------------------

---@class chamvi.NormalizeRepoOptions
---@field allow_file_repos? boolean accept file:///absolute/path; default false

--- The one URL of a repository: `owner/name` on GitHub, or an https URL, in a form that stays the same when it is
--- normalized again. Refuses other transports, user info, queries, fragments and whatever git could take for
--- something else. At most 2,048 bytes.
---@param input any
---@param given? chamvi.NormalizeRepoOptions a wrong one raises an InvalidAgentDefinitionError
---@return string|nil url
---@return chamvi.Error? err ValidationError `invalid_repo`
function sandbox.normalize_repo(input, given) end

--- Whether git would take it for the name of a branch or tag, a full ref name or a full commit id: what
--- `git check-ref-format refs/heads/<ref>` accepts, 1 to 255 bytes, not beginning with a dash.
---@param ref any
---@return string|nil ref the same
---@return chamvi.Error? err ValidationError `invalid_ref`
function sandbox.check_git_ref(ref) end

--- The normalized absolute path, /workspace or below, of a path that is relative to the root or absolute. Only by
--- its text: links are resolved where the file is opened. At most 4,096 bytes, no NUL.
---@param path any
---@return string|nil absolute
---@return chamvi.Error? err ValidationError `invalid_path`
function sandbox.resolve_workspace_path(path) end

---@class chamvi.Limits
---@field cpu? string cores, a Kubernetes quantity
---@field memory? string bytes, a Kubernetes quantity
---@field storage? string bytes of /workspace, a Kubernetes quantity
---@field pids? integer
---@field timeout_ms? integer lifetime of the workspace

--- All limits: DEFAULT_LIMITS with each layer over it, field by field, the last one winning.
---@param ... chamvi.Limits|nil nil is skipped; a wrong or unknown field raises an InvalidAgentDefinitionError
---@return chamvi.Limits limits a new table with every field
function sandbox.resolve_limits(...) end

--- CPU cores from a Kubernetes quantity without a sign: "2", "0.5", "500m". Finer than 10^-9 is rounded up.
---@param value string anything else than such a quantity above zero raises an InvalidAgentDefinitionError
---@return number cores
function sandbox.parse_cpu(value) end

--- Bytes from a Kubernetes quantity without a sign: "2Gi", "500M", "1e9". A fraction of a byte counts as one.
---@param value string anything else than such a quantity above zero raises an InvalidAgentDefinitionError, also one
---   past 2^63 - 1 (on LuaJIT past 2^53)
---@return integer bytes
function sandbox.parse_memory(value) end

--- Raises an InvalidAgentDefinitionError unless it is nil or a table of environment variables: names of letters,
--- digits and underscores, string values without NUL, at most 131,071 bytes for each as NAME=value.
---@param env table<string, string>|nil
function sandbox.assert_sandbox_env(env) end

---@class chamvi.OutputCollector
---@field truncated boolean something is missing in the text: it was dropped, or is unfinished and does not fit
---@field write fun(self: chamvi.OutputCollector, chunk: string) takes the next raw bytes
---@field text fun(self: chamvi.OutputCollector): string what is kept so far, as valid UTF-8; changes nothing

--- Keeps the first bytes of an output as valid UTF-8: invalid input becomes U+FFFD, a character that is split
--- between chunks is joined, and nothing is kept after the first character that does not fit. `max_bytes`, at least
--- 0, is for the text; anything else is a bad argument.
---@type fun(max_bytes: integer): chamvi.OutputCollector
sandbox.create_output_collector = nil

--- A random UUID, version 4.
---@return string|nil
---@return chamvi.Error? err SandboxError `create_failed`: the system gives no random bytes
function sandbox.uuid() end

-- Constants: copies, changing one changes nothing in the library -----------------------------------

--- The root as a model sees it, on every provider.
sandbox.WORKSPACE_ROOT = "/workspace"

--- Bytes kept of each output stream of an exec.
sandbox.OUTPUT_MAX_BYTES = 65536

--- Bytes of the largest file to read or write.
sandbox.FILE_MAX_BYTES = 1048576

--- The time limit of an exec that names none.
sandbox.EXEC_TIMEOUT_MS = 300000

--- The longest time limit of an exec.
sandbox.EXEC_TIMEOUT_MAX_MS = 1800000

--- All of the environment that a workspace starts with, before the configured `env`.
---@type table<string, string>
sandbox.SANDBOX_ENV = {}

--- The limits of a workspace where nothing else is configured; has every field.
---@type chamvi.Limits
sandbox.DEFAULT_LIMITS = {}

--- The image of containers and pods.
sandbox.DEFAULT_SANDBOX_IMAGE = "ghcr.io/chamvi/sandbox-node:24"

--- The size of /tmp in a container or pod.
sandbox.TMP_SIZE = "512Mi"

--- The labels of every container, volume and pod of the library.
---@type table<string, string>
sandbox.SANDBOX_LABELS = {}

--- The same as selectors.
---@type string[]
sandbox.SANDBOX_LABEL_SELECTORS = {}

--- The label of the run.
sandbox.RUN_LABEL = "chamvi.dev/run"

--- The label of the workspace.
sandbox.WORKSPACE_LABEL = "chamvi.dev/workspace"

--- The key of the time of expiry, epoch milliseconds.
sandbox.EXPIRES_AT_KEY = "chamvi.dev/expires-at"

--- How many workspaces a run may have at once.
sandbox.MAX_WORKSPACES_PER_RUN = 3

--- The least time between two collections that a manager starts.
sandbox.GC_INTERVAL_MS = 600000

--- How long a manager that is closed waits for disposals.
sandbox.CLOSE_TIMEOUT_MS = 30000

--- Remote workspaces: the time from SIGTERM to SIGKILL.
sandbox.TIMEOUT_KILL_AFTER_SECONDS = 5

--- Remote workspaces: beyond an exec's own time limit, until the host gives it up.
sandbox.EXEC_GRACE_MS = 15000

--- Remote workspaces: how long to wait for the answer whether one is alive.
sandbox.ALIVE_PROBE_TIMEOUT_MS = 5000

--- JSON null in what a model sees: `vim.NIL` in Neovim, else equal to `cjson.null` and `ngx.null`.
---@type lightuserdata|userdata
sandbox.null = nil

return sandbox
