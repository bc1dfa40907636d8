/*
 * The module chamvi.sandbox.core: the host of src/process for one lua_State, and no protocol logic.
 *
 * Arguments are checked first, then the core is called, so that nothing that C has allocated is
 * alive while a Lua call may raise. No callback reaches Lua: completions wait in their queue until
 * core:next takes them, and each is only taken off once everything it brings lies on the stack.
 * Errors are returned as `nil, code, message`; lua/chamvi/sandbox/errors.lua makes them tables.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/uuid.h"
#include "lua/args.h"
#include "lua/bell.h"
#include "lua/compat.h"
#include "lua/completion.h"
#include "lua/core.h"
#include "lua/decoders.h"
#include "lua/finalizer.h"
#include "lua/json.h"
#include "lua/net.h"
#include "lua/process.h"
#include "lua/records.h"
#include "lua/rules.h"
#include "lua/websocket.h"
#include "lua/yaml.h"
#include "record/record.h"

#define SUPERVISOR_NAME "chamvi-supervisor"
/* MAX_ARG_STRLEN of the kernel less the NUL: execve(2). */
#define ARGUMENT_MAX 131071

static int push_id(lua_State *L, uint32_t id, const struct cv_err *err)
{
    if (id == 0)
        return cv_lua_push_error(L, err);
    lua_pushinteger(L, (lua_Integer)id);
    return 1;
}

static struct cv_core *check_core(lua_State *L)
{
    return luaL_checkudata(L, 1, CV_CORE_TYPE);
}

static uint32_t check_id(lua_State *L, int arg)
{
    return (uint32_t)cv_lua_check_range(L, arg, 0, UINT32_MAX);
}

/* ---- the module --------------------------------------------------------------------------- */

/* The supervisor lies beside this library. */
static bool supervisor_path(char *path, size_t size)
{
    static const char anchor;
    Dl_info info;
    if (dladdr(&anchor, &info) == 0 || info.dli_fname == NULL)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    size_t folder = slash == NULL ? 0 : (size_t)(slash - info.dli_fname) + 1;
    if (folder + sizeof SUPERVISOR_NAME > size)
        return false;
    memcpy(path, info.dli_fname, folder);
    memcpy(path + folder, SUPERVISOR_NAME, sizeof SUPERVISOR_NAME);
    return true;
}

/* core.open() -> core | nil, code, message */
static int module_open(lua_State *L)
{
    char path[PATH_MAX];
    struct cv_err err;
    struct cv_core *core = lua_newuserdata(L, sizeof *core);
    core->open = core->net_open = false;
    core->bell = CV_BELL_CLOSED;
    luaL_getmetatable(L, CV_CORE_TYPE);
    lua_setmetatable(L, -2);
    if (!supervisor_path(path, sizeof path)) {
        cv_err_set(&err, "create_failed", "can't tell where the library lies");
        return cv_lua_push_error(L, &err);
    }
    if (cv_host_open(&core->host, path, &err) != 0)
        return cv_lua_push_error(L, &err);
    core->open = true;
    return 1;
}

/* core.uuid() -> string | nil, code, message */
static int module_uuid(lua_State *L)
{
    char uuid[CV_UUID_SIZE];
    struct cv_err err;
    if (cv_uuid(uuid) != 0) {
        cv_err_set(&err, "create_failed", "the system gives no random bytes");
        return cv_lua_push_error(L, &err);
    }
    lua_pushstring(L, uuid);
    return 1;
}

/* core.monotonic_ms() -> milliseconds of a clock that nobody sets */
static int module_monotonic_ms(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)cv_clock_ms());
    return 1;
}

/* core.now_ms() -> epoch milliseconds */
static int module_now_ms(lua_State *L)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    lua_pushinteger(L, (lua_Integer)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    return 1;
}

/* core.is_yieldable() -> boolean: whether the running coroutine can yield here */
static int module_is_yieldable(lua_State *L)
{
    lua_pushboolean(L, lua_isyieldable(L));
    return 1;
}

/* ---- the loop ----------------------------------------------------------------------------- */

struct cv_core *cv_lua_check_core(lua_State *L)
{
    struct cv_core *core = check_core(L);
    if (!core->open)
        luaL_error(L, "the core is closed");
    return core;
}

/* core:check() -> true | nil, code, message: whether this process may use the core */
static int core_check(lua_State *L)
{
    struct cv_err err;
    if (!cv_host_usable(&check_core(L)->host, &err))
        return cv_lua_push_error(L, &err);
    lua_pushboolean(L, 1);
    return 1;
}

/* core:pollfd() -> the descriptor to watch for reading */
static int core_pollfd(lua_State *L)
{
    lua_pushinteger(L, cv_lua_check_core(L)->host.reactor.epoll);
    return 1;
}

/* core:events() -> "r" */
static int core_events(lua_State *L)
{
    cv_lua_check_core(L);
    lua_pushliteral(L, "r");
    return 1;
}

/* The first of what waits to be taken, or NULL; in a forked child always. */
static const struct cv_completion *first_completion(const struct cv_core *core)
{
    if (cv_reactor_foreign(&core->host.reactor))
        return NULL;
    return cv_reactor_first(&core->host.reactor);
}

/* core:timeout() -> 0 while completions wait, else nil: the timers are inside the descriptor */
static int core_timeout(lua_State *L)
{
    if (first_completion(cv_lua_check_core(L)) == NULL)
        lua_pushnil(L);
    else
        lua_pushinteger(L, 0);
    return 1;
}

/* core:step([timeout_ms]) -> true | nil, code, message */
static int core_step(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    int64_t timeout = lua_isnoneornil(L, 2) ? -1 : cv_lua_check_range(L, 2, 0, INT_MAX);
    struct cv_err err;
    if (cv_reactor_step(&core->host.reactor, timeout, &err) != 0)
        return cv_lua_push_error(L, &err);
    lua_pushboolean(L, 1);
    return 1;
}

/* core:close() */
static int core_close(lua_State *L)
{
    struct cv_core *core = check_core(L);
    if (core->open) {
        core->open = false;
        cv_bell_close(&core->bell, cv_reactor_foreign(&core->host.reactor));
        if (core->net_open)
            cv_net_close(&core->net);
        core->net_open = false;
        cv_host_close(&core->host);
    }
    return 0;
}

/* ---- operations --------------------------------------------------------------------------- */

/* core:timer(ms) -> id */
static int core_timer(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    int64_t delay = cv_lua_check_range(L, 2, 0, INT64_C(1) << 52);
    struct cv_err err;
    return push_id(L, cv_host_timer(&core->host, delay, &err), &err);
}

/*
 * Joins the strings of the list at `index`, each with its NUL, to one Lua string that is left on
 * the stack; *list borrows it. Returns 0, or the place of the first element that is no string or
 * holds a NUL.
 */
static int push_strings(lua_State *L, int index, struct cv_strings *list)
{
    luaL_Buffer joined;
    int count = (int)cv_lua_rawlen(L, index);
    for (int i = 1; i <= count; i++) {
        size_t length = 0;
        lua_rawgeti(L, index, i);
        const char *string = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : NULL;
        lua_pop(L, 1); /* the table keeps it */
        if (string == NULL || strlen(string) != length)
            return i;
    }
    luaL_buffinit(L, &joined);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, index, i);
        luaL_addvalue(&joined);
        luaL_addchar(&joined, '\0');
    }
    luaL_pushresult(&joined);
    list->bytes = lua_tolstring(L, -1, &list->length);
    list->count = (uint32_t)count;
    return 0;
}

static void check_string_field(lua_State *L, int table, const char *name, struct cv_strings *list)
{
    lua_getfield(L, table, name);
    if (!lua_istable(L, -1) || push_strings(L, lua_gettop(L), list) != 0)
        luaL_error(L, "field '%s' must be a list of strings without NUL", name);
}

static bool boolean_field(lua_State *L, int table, const char *name)
{
    lua_getfield(L, table, name);
    bool value = lua_toboolean(L, -1) != 0;
    lua_pop(L, 1);
    return value;
}

/*
 * The record that a launch is to lock, -1 for none: made from the field `record`, or with `locked`
 * an existing one, which with `listed` must still be there. False with `err`.
 */
static bool open_launch_record(lua_State *L, const struct cv_hello *hello, int *record,
                               struct cv_err *err)
{
    size_t length;
    const char *id = hello->names.count > 0 ? hello->names.bytes : "";
    lua_getfield(L, 2, "record");
    const char *text = lua_tolstring(L, -1, &length);
    bool locked = boolean_field(L, 2, "locked");
    bool listed = boolean_field(L, 2, "listed");
    *record = -1;
    if (text == NULL && !locked)
        return true;
    if (!cv_record_id_valid(id))
        luaL_error(L, "names[1] must be a UUID where there is a record");
    *record = text != NULL ? cv_record_create(hello->base, id, text, length, err)
                           : cv_record_open(hello->base, id);
    if (*record < 0 && text == NULL && listed && errno == ENOENT)
        return cv_err_set(err, "record_locked", "another process has removed the workspace") == 0;
    return *record >= 0 || text == NULL; /* without a record there is nothing to lock */
}

/*
 * core:launch{ base=, names=, env=, create=, remove_only=, record=, locked=, listed= } ->
 * workspace, id
 *
 * With `record` (its text, to be made) or `locked` (it exists) the last of the names is the record.
 * With `listed` too one that is not there any more is record_locked.
 */
static int core_launch(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    struct cv_hello hello = {0};
    struct cv_err err;
    uint32_t workspace;
    lua_getfield(L, 2, "base");
    hello.base = luaL_checkstring(L, -1);
    check_string_field(L, 2, "names", &hello.names);
    check_string_field(L, 2, "env", &hello.env);
    if (boolean_field(L, 2, "create"))
        hello.flags |= CV_HELLO_CREATE;
    if (boolean_field(L, 2, "remove_only"))
        hello.flags |= CV_HELLO_REMOVE_ONLY;
    int record;
    if (!open_launch_record(L, &hello, &record, &err))
        return cv_lua_push_error(L, &err);
    if (record >= 0)
        hello.flags |= CV_HELLO_RECORD;
    uint32_t id = cv_host_launch(&core->host, &hello, record, &workspace, &err);
    cv_fd_close(&record);
    if (id == 0)
        return cv_lua_push_error(L, &err);
    lua_pushinteger(L, (lua_Integer)workspace);
    lua_pushinteger(L, (lua_Integer)id);
    return 2;
}

static int refuse_argv(lua_State *L, int element, const char *why)
{
    lua_pushnil(L);
    lua_pushliteral(L, "invalid_argv");
    lua_pushfstring(L, "argv[%d] %s", element, why);
    return 3;
}

static bool arguments_short(const struct cv_strings *argv, int *element)
{
    const char *argument = argv->bytes;
    for (uint32_t i = 0; i < argv->count; i++, argument = cv_strings_next(argument)) {
        *element = (int)i + 1;
        if (strlen(argument) > ARGUMENT_MAX)
            return false;
    }
    return true;
}

/* core:exec(workspace, argv, cwd, timeout_ms, cap, stdin | nil, stream_all) -> id */
static int core_exec(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    struct cv_err err;
    uint32_t workspace = check_id(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    struct cv_exec_request request = {
        .cwd = luaL_checkstring(L, 4),
        .timeout_ms = (uint32_t)cv_lua_check_range(L, 5, 1, UINT32_MAX),
        .cap = (size_t)cv_lua_check_range(L, 6, 0, INT_MAX),
        .stream_all = lua_toboolean(L, 8) != 0,
    };
    request.stdin_bytes = luaL_optlstring(L, 7, "", &request.stdin_length);
    int element = push_strings(L, 3, &request.argv);
    if (element != 0)
        return refuse_argv(L, element, "is no string without NUL");
    if (request.argv.count == 0 || request.argv.bytes[0] == '\0')
        return refuse_argv(L, 1, "is empty or missing");
    if (!arguments_short(&request.argv, &element))
        return refuse_argv(L, element, "is longer than 131071 bytes");
    return push_id(L, cv_host_exec(&core->host, workspace, &request, &err), &err);
}

/* The string at `arg`, which must hold no NUL. */
static const char *check_path(lua_State *L, int arg)
{
    size_t length;
    const char *path = luaL_checklstring(L, arg, &length);
    luaL_argcheck(L, strlen(path) == length, arg, "a path without NUL expected");
    return path;
}

/* core:read_file(workspace, path, max) -> id */
static int core_read_file(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    struct cv_err err;
    uint32_t workspace = check_id(L, 2);
    const char *path = check_path(L, 3);
    uint32_t max = (uint32_t)cv_lua_check_range(L, 4, 0, CV_FILE_MAX);
    return push_id(L, cv_host_read_file(&core->host, workspace, path, max, &err), &err);
}

/* core:write_file(workspace, path, content) -> id */
static int core_write_file(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    struct cv_err err;
    uint32_t workspace = check_id(L, 2);
    const char *path = check_path(L, 3);
    size_t length;
    const char *content = luaL_checklstring(L, 4, &length);
    return push_id(L, cv_host_write_file(&core->host, workspace, path, content, length, &err),
                   &err);
}

/* core:abort(id [, code [, message]]) -> true */
static int core_abort(lua_State *L)
{
    /* The code is kept by the operation, so it must be one of these, not a Lua string. */
    static const char *const codes[] = {"aborted", "disposed", "released", "closed", NULL};
    struct cv_core *core = cv_lua_check_core(L);
    int64_t id = cv_lua_check_range(L, 2, 0, 2 * CV_LUA_NET_ID);
    const char *code = codes[luaL_checkoption(L, 3, "aborted", codes)];
    const char *message = luaL_optstring(L, 4, "aborted");
    if (id < CV_LUA_NET_ID)
        cv_host_abort(&core->host, (uint32_t)id, code, message);
    else
        cv_lua_net_abort(core, id, code, message);
    lua_pushboolean(L, 1);
    return 1;
}

/* core:remove(workspace) -> id */
static int core_remove(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    struct cv_err err;
    return push_id(L, cv_host_remove(&core->host, check_id(L, 2), &err), &err);
}

/*
 * For a system without pidfds: asks the holder by its number, which the lock has proven
 * to be its own a moment ago. 0 or an errno.
 */
static int ask_to_end(pid_t holder)
{
    bool asked = kill(holder, SIGCONT) == 0 && kill(holder, SIGTERM) == 0;
    return (asked || errno == ESRCH) ? 0 : errno;
}

/*
 * core:end_owner(root, id) -> an operation's id: "ended" when the process that holds the lock of
 * the record has ended after being asked to; true when it was asked and only the record tells when
 * it has ended; false when nobody holds it
 */
static int core_end_owner(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    struct cv_err err;
    const char *root = luaL_checkstring(L, 2);
    const char *id = luaL_checkstring(L, 3);
    luaL_argcheck(L, cv_record_id_valid(id), 3, "UUID expected");
    pid_t holder;
    int owner = cv_record_owner(root, id, &holder);
    if (owner >= 0)
        return push_id(L, cv_host_end(&core->host, owner, &err), &err);
    int failed = errno;
    bool numbered = holder > 0 && (failed == ENOSYS || failed == EPERM);
    if (numbered)
        failed = ask_to_end(holder);
    if (failed == ESRCH || failed == 0) {
        lua_pushboolean(L, numbered);
        return 1;
    }
    cv_err_system(&err, "gc_failed", failed, "can't end what looks after the workspace");
    return cv_lua_push_error(L, &err);
}

/* core:lost(workspace) -> boolean */
static int core_lost(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    lua_pushboolean(L, cv_host_lost(&core->host, check_id(L, 2)));
    return 1;
}

/* ---- completions -------------------------------------------------------------------------- */

/* core:next() -> nothing | id, what, ... */
static int core_next(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    const struct cv_completion *first = first_completion(core);
    if (first == NULL)
        return 0;
    luaL_checkstack(L, 16, NULL);
    if (first->owner == &core->net)
        return cv_lua_net_next(L, core);
    struct cv_op *op = cv_host_next(&core->host);
    lua_pushinteger(L, (lua_Integer)op->by_id.id);
    const struct cv_chunk *chunk = cv_op_chunk(op);
    if (chunk != NULL) {
        int values = 1 + cv_lua_push_chunk(L, chunk);
        cv_host_take_chunk(&core->host, op);
        return values;
    }
    int values = 1 + cv_lua_push_end(L, op);
    cv_host_take(&core->host, op);
    return values;
}

static const luaL_Reg core_methods[] = {
    {"check", core_check},
    {"pollfd", core_pollfd},
    {"events", core_events},
    {"timeout", core_timeout},
    {"step", core_step},
    {"next", core_next},
    {"timer", core_timer},
    {"launch", core_launch},
    {"exec", core_exec},
    {"read_file", core_read_file},
    {"write_file", core_write_file},
    {"abort", core_abort},
    {"remove", core_remove},
    {"end_owner", core_end_owner},
    {"lost", core_lost},
    {"http", cv_lua_net_http},
    {"stream", cv_lua_net_stream},
    {"stream_write", cv_lua_net_write},
    {"stream_shutdown", cv_lua_net_shutdown},
    {"stream_close", cv_lua_net_shut},
    {"used", cv_lua_net_used},
    {"bell", cv_lua_bell},
    {"bell_answer", cv_lua_bell_answer},
    {"bell_close", cv_lua_bell_close},
    {"close", core_close},
    {NULL, NULL},
};

static const luaL_Reg module_functions[] = {
    {"open", module_open},
    {"uuid", module_uuid},
    {"now_ms", module_now_ms},
    {"monotonic_ms", module_monotonic_ms},
    {"is_yieldable", module_is_yieldable},
    {"in_finalizer", cv_lua_in_finalizer},
    {NULL, NULL},
};

__attribute__((visibility("default"))) int luaopen_chamvi_sandbox_core(lua_State *L);

int luaopen_chamvi_sandbox_core(lua_State *L)
{
    luaL_newmetatable(L, CV_CORE_TYPE);
    lua_newtable(L);
    cv_lua_setfuncs(L, core_methods);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, core_close);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, CV_CORE_TYPE);
    lua_setfield(L, -2, "__name");
    lua_pop(L, 1);
    lua_newtable(L);
    cv_lua_setfuncs(L, module_functions);
    cv_lua_add_decoders(L);
    cv_lua_add_json(L);
    cv_lua_add_process(L);
    cv_lua_add_records(L);
    cv_lua_add_rules(L);
    cv_lua_add_websocket(L);
    cv_lua_add_yaml(L);
    lua_pushliteral(L, CV_VERSION);
    lua_setfield(L, -2, "version");
    lua_pushlightuserdata(L, NULL); /* as cjson.null and ngx.null are */
    lua_setfield(L, -2, "null");
    return 1;
}
