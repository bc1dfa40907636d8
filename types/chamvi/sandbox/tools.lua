---@meta _

-- For LuaLS: tools for models, `require("chamvi.sandbox").tools`.

---@class chamvi.sandbox.tools
local tools = {}

---@class chamvi.ToolContext
---@field run_id? string the run that the call belongs to; not needed by the tools of `with_run`
---@field signal? chamvi.Signal aborts the call

---@class chamvi.Tool
---@field name string letters, digits, `_` and `-`, at most 64
---@field description? string for the model
---@field input_schema table a JSON Schema of type "object"
---@field execute fun(input: table, context?: chamvi.ToolContext): any, any the result, or nil and an error

---@class chamvi.WorkspaceToolResult
---@field workspace string the id
---@field root string where the workspace is, as its commands and files are named: "/workspace"
---@field repo string|userdata the normalized URL, or `sandbox.null`
---@field ref string|userdata the ref that was asked for, or `sandbox.null`
---@field commit string|userdata what was checked out, or `sandbox.null`
---@field expiresAt string UTC, as in "2026-01-31T12:00:00.000Z"
---@field reused boolean the run had it already

---@class chamvi.DisposeWorkspaceResult
---@field workspace string the id
---@field disposed boolean true

---@class chamvi.WorkspaceTools
---@field create_workspace chamvi.Tool
---@field dispose_workspace chamvi.Tool

---@class chamvi.OpenAIOptions
---@field api? "chat"|"responses" default "chat": chat completions
---@field strict? boolean ask for input that keeps to the schema exactly; default false

--- Calls a tool as a model asks for it, and gives what to answer the model. Waits as long as the tool does. Never
--- raises: what the tool raises is an answer too, and so is a wrong argument.
---@param given table<any, chamvi.Tool> tools under any keys; they are found by their `name`
---@param name any
---@param input any JSON text of at most 1 MiB, or a table; empty text, nil and null count as `{}`. A null in the text
---   becomes `sandbox.null`
---@param context? chamvi.ToolContext is passed on to the tool
---@return string text JSON: the tool's result, or `{"error":{"code":...,"message":...,"name":...}}`. Keys are in
---   the order of their bytes, an empty table is an object, bytes that are no UTF-8 become U+FFFD
---@return boolean is_error
function tools.call(given, name, input, context) end

--- The tools as OpenAI's APIs take them (`tools` of a request), ordered by name.
--- Chat completions: `{ type = "function", ["function"] = { name, description, parameters [, strict] } }`; responses:
--- `{ type = "function", name, description, parameters, strict }`. With `strict` every field of a schema is required,
--- one that was optional may be null, and no others are allowed; a tool then has to take a null for absence.
---@param given table<any, chamvi.Tool> a wrong tool, and one that can't be strict, raises an
---   InvalidAgentDefinitionError
---@param choice? chamvi.OpenAIOptions a wrong one raises an InvalidAgentDefinitionError
---@return table[] # copies
function tools.to_openai(given, choice) end

--- The tools as Anthropic's messages API takes them (`tools` of a request), ordered by name:
--- `{ name, description, input_schema }`.
---@param given table<any, chamvi.Tool> a wrong tool raises an InvalidAgentDefinitionError
---@return table[] # copies
function tools.to_anthropic(given) end

return tools
