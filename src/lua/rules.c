/*
 * The rules of src/rules and the collector of src/output, for one lua_State.
 *
 * A rule gets its input in any Lua type, since a model gives it, and answers with its results or
 * with `nil, code, message`. No message holds what was given.
 */
#include "lua/rules.h"

#include <stdint.h>

#include "lua/compat.h"
#include "output/collector.h"
#include "rules/env.h"
#include "rules/git_ref.h"
#include "rules/quantity.h"
#include "rules/repo_url.h"
#include "rules/workspace_path.h"

#define COLLECTOR_TYPE "chamvi.sandbox.collector"
/* The largest number up to which lua_Integer, or the lua_Number of LuaJIT, holds every integer. */
#if LUA_VERSION_NUM >= 503
#define LUA_COUNT_MAX INT64_MAX
#define LUA_COUNT_MAX_TEXT "2^63 - 1"
#else
#define LUA_COUNT_MAX (INT64_C(1) << 53)
#define LUA_COUNT_MAX_TEXT "2^53"
#endif

static int refuse(lua_State *L, const char *code, const char *message)
{
    lua_pushnil(L);
    lua_pushstring(L, code);
    lua_pushstring(L, message);
    return 3;
}

static int refuse_err(lua_State *L, const struct cv_err *err)
{
    return refuse(L, err->code, err->message);
}

/* For what is no string: `subject` is what the message begins with. */
static int refuse_type(lua_State *L, int arg, const char *code, const char *subject)
{
    const char *type = luaL_typename(L, arg);
    lua_pushnil(L);
    lua_pushstring(L, code);
    lua_pushfstring(L, "%smust be a string, got a %s", subject,
                    lua_isnoneornil(L, arg) ? "nil" : type);
    return 3;
}

/* The string at `arg`; NULL for any other type, numbers too. */
static const char *string_at(lua_State *L, int arg, size_t *length)
{
    return lua_type(L, arg) == LUA_TSTRING ? lua_tolstring(L, arg, length) : NULL;
}

/* core.normalize_repo(input, allow_file) -> url | nil, code, message */
static int rules_normalize_repo(lua_State *L)
{
    char url[CV_REPO_URL_MAX + 1];
    size_t length;
    struct cv_err err;
    const char *input = string_at(L, 1, &length);
    if (input == NULL)
        return refuse_type(L, 1, "invalid_repo", "the repository ");
    if (cv_repo_url(input, length, lua_toboolean(L, 2) != 0, url, &length, &err) != 0)
        return refuse_err(L, &err);
    lua_pushlstring(L, url, length);
    return 1;
}

/* core.check_git_ref(ref) -> ref | nil, code, message */
static int rules_check_git_ref(lua_State *L)
{
    size_t length;
    struct cv_err err;
    const char *ref = string_at(L, 1, &length);
    if (ref == NULL)
        return refuse_type(L, 1, "invalid_ref", "the ref ");
    if (cv_git_ref_check(ref, length, &err) != 0)
        return refuse_err(L, &err);
    lua_settop(L, 1);
    return 1;
}

/* core.workspace_path(path) -> absolute, relative to the root ("" for it) | nil, code, message */
static int rules_workspace_path(lua_State *L)
{
    char absolute[CV_WORKSPACE_PATH_SIZE];
    size_t length;
    struct cv_err err;
    const char *path = string_at(L, 1, &length);
    if (path == NULL)
        return refuse_type(L, 1, "invalid_path", "the path ");
    if (cv_workspace_path(path, length, absolute, &length, &err) != 0)
        return refuse_err(L, &err);
    lua_pushlstring(L, absolute, length);
    lua_pushstring(L, cv_workspace_path_relative(absolute));
    return 2;
}

/* core.parse_cpu(text) -> cores | nil, code, message */
static int rules_parse_cpu(lua_State *L)
{
    size_t length;
    double cores;
    struct cv_err err;
    const char *text = string_at(L, 1, &length);
    if (text == NULL)
        return refuse_type(L, 1, "invalid_option", "");
    if (cv_parse_cpu(text, length, &cores, &err) != 0)
        return refuse_err(L, &err);
    if (cores > (double)LUA_COUNT_MAX)
        return refuse(L, "invalid_option",
                      "is too large: at most " LUA_COUNT_MAX_TEXT " is possible");
    lua_pushnumber(L, (lua_Number)cores);
    return 1;
}

/* core.parse_memory(text) -> bytes | nil, code, message */
static int rules_parse_memory(lua_State *L)
{
    size_t length;
    int64_t bytes;
    struct cv_err err;
    const char *text = string_at(L, 1, &length);
    if (text == NULL)
        return refuse_type(L, 1, "invalid_option", "");
    if (cv_parse_memory(text, length, &bytes, &err) != 0)
        return refuse_err(L, &err);
    if (bytes > LUA_COUNT_MAX)
        return refuse(L, "invalid_option",
                      "is too large: at most " LUA_COUNT_MAX_TEXT " is possible");
#if LUA_VERSION_NUM >= 503
    lua_pushinteger(L, (lua_Integer)bytes);
#else
    lua_pushnumber(L, (lua_Number)bytes);
#endif
    return 1;
}

/* core.check_env(name, value) -> true | nil, code, message; both strings */
static int rules_check_env(lua_State *L)
{
    size_t name_length;
    size_t value_length;
    struct cv_err err;
    const char *name = luaL_checklstring(L, 1, &name_length);
    const char *value = luaL_checklstring(L, 2, &value_length);
    if (cv_env_check(name, name_length, value, value_length, &err) != 0)
        return refuse_err(L, &err);
    lua_pushboolean(L, 1);
    return 1;
}

/* ---- the collector -------------------------------------------------------------------------- */

static struct cv_collector *check_collector(lua_State *L)
{
    return luaL_checkudata(L, 1, COLLECTOR_TYPE);
}

/* core.create_output_collector(max_bytes) -> collector */
static int rules_create_output_collector(lua_State *L)
{
    lua_Number max = luaL_checknumber(L, 1);
    luaL_argcheck(L,
                  max >= 0 && max <= (lua_Number)(SIZE_MAX / 4) && max == (lua_Number)(size_t)max,
                  1, "a whole number of bytes, at least 0, expected");
    struct cv_collector *collector = lua_newuserdata(L, sizeof *collector);
    cv_collector_init(collector, (size_t)max);
    luaL_getmetatable(L, COLLECTOR_TYPE);
    lua_setmetatable(L, -2);
    return 1;
}

/* collector:write(chunk) */
static int collector_write(lua_State *L)
{
    size_t length;
    struct cv_collector *collector = check_collector(L);
    const char *chunk = luaL_checklstring(L, 2, &length);
    if (cv_collector_write(collector, chunk, length) != 0)
        return luaL_error(L, "not enough memory");
    return 0;
}

/* collector:text() -> string */
static int collector_text(lua_State *L)
{
    const char *text;
    size_t length;
    if (cv_collector_text(check_collector(L), &text, &length) != 0)
        return luaL_error(L, "not enough memory");
    lua_pushlstring(L, text, length);
    return 1;
}

/* The methods are the upvalue; `truncated` is the one field. */
static int collector_index(lua_State *L)
{
    struct cv_collector *collector = check_collector(L);
    lua_settop(L, 2);
    lua_pushliteral(L, "truncated");
    if (lua_rawequal(L, 2, 3)) {
        lua_pushboolean(L, cv_collector_incomplete(collector));
        return 1;
    }
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    return 1;
}

static int collector_gc(lua_State *L)
{
    cv_collector_free(check_collector(L));
    return 0;
}

static const luaL_Reg collector_methods[] = {
    {"write", collector_write},
    {"text", collector_text},
    {NULL, NULL},
};

static void make_collector_type(lua_State *L)
{
    luaL_newmetatable(L, COLLECTOR_TYPE);
    lua_newtable(L);
    cv_lua_setfuncs(L, collector_methods);
    lua_pushcclosure(L, collector_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, collector_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, COLLECTOR_TYPE);
    lua_setfield(L, -2, "__name");
    lua_pop(L, 1);
}

static const luaL_Reg functions[] = {
    {"normalize_repo", rules_normalize_repo},
    {"check_git_ref", rules_check_git_ref},
    {"workspace_path", rules_workspace_path},
    {"parse_cpu", rules_parse_cpu},
    {"parse_memory", rules_parse_memory},
    {"check_env", rules_check_env},
    {"create_output_collector", rules_create_output_collector},
    {NULL, NULL},
};

void cv_lua_add_rules(lua_State *L)
{
    make_collector_type(L);
    cv_lua_setfuncs(L, functions);
}
