/* The sans-I/O decoders of what Docker sends, as Lua objects. */
#include "lua/decoders.h"

#include <lauxlib.h>
#include <limits.h>

#include "lua/args.h"
#include "lua/compat.h"
#include "proto/docker_stream.h"
#include "proto/ndjson.h"

#define DOCKER_STREAM_TYPE "chamvi.sandbox.docker_stream"
#define NDJSON_TYPE "chamvi.sandbox.ndjson"

static int push_broken(lua_State *L, const char *message)
{
    struct cv_err err;
    cv_err_set(&err, "transport_lost", "%s", message);
    return cv_lua_push_error(L, &err);
}

/* ---- Docker's multiplexed stream ---------------------------------------------------------- */

static int new_docker_stream(lua_State *L)
{
    cv_docker_stream_init(lua_newuserdata(L, sizeof(struct cv_docker_stream)));
    luaL_getmetatable(L, DOCKER_STREAM_TYPE);
    lua_setmetatable(L, -2);
    return 1;
}

static int docker_stream_feed(lua_State *L)
{
    static const char *const names[] = {"stdin", "stdout", "stderr", "system"};
    struct cv_docker_stream *stream = luaL_checkudata(L, 1, DOCKER_STREAM_TYPE);
    struct cv_docker_piece piece;
    size_t length;
    const char *bytes = luaL_checklstring(L, 2, &length);
    int count = 0;
    int got;
    lua_newtable(L);
    cv_docker_stream_push(stream, bytes, length);
    while ((got = cv_docker_stream_next(stream, &piece)) > 0) {
        lua_pushstring(L, names[piece.type]);
        lua_rawseti(L, -2, ++count);
        lua_pushlstring(L, (const char *)piece.bytes, piece.length);
        lua_rawseti(L, -2, ++count);
    }
    return got < 0 ? push_broken(L, "what the engine sends is no multiplexed stream") : 1;
}

static int docker_stream_whole(lua_State *L)
{
    lua_pushboolean(L, cv_docker_stream_whole(luaL_checkudata(L, 1, DOCKER_STREAM_TYPE)));
    return 1;
}

/* ---- lines -------------------------------------------------------------------------------- */

static int new_ndjson(lua_State *L)
{
    size_t max = (size_t)cv_lua_check_range(L, 1, 1, INT_MAX - 1);
    cv_ndjson_init(lua_newuserdata(L, sizeof(struct cv_ndjson)), max);
    luaL_getmetatable(L, NDJSON_TYPE);
    lua_setmetatable(L, -2);
    return 1;
}

static int ndjson_feed(lua_State *L)
{
    struct cv_ndjson *splitter = luaL_checkudata(L, 1, NDJSON_TYPE);
    size_t length;
    const char *bytes = luaL_checklstring(L, 2, &length);
    const char *line;
    int count = 0;
    int got;
    lua_newtable(L);
    cv_ndjson_push(splitter, bytes, length);
    while ((got = cv_ndjson_next(splitter, &line, &length)) > 0) {
        lua_pushlstring(L, line, length);
        lua_rawseti(L, -2, ++count);
    }
    return got < 0 ? push_broken(L, "the engine sends a line that is too long") : 1;
}

static int ndjson_finish(lua_State *L)
{
    struct cv_ndjson *splitter = luaL_checkudata(L, 1, NDJSON_TYPE);
    const char *line;
    size_t length;
    int got = cv_ndjson_end(splitter, &line, &length);
    if (got < 0)
        return push_broken(L, "the engine sends a line that is too long");
    lua_pushlstring(L, got == 0 ? "" : line, got == 0 ? 0 : length);
    return 1;
}

static int ndjson_gc(lua_State *L)
{
    cv_ndjson_free(luaL_checkudata(L, 1, NDJSON_TYPE));
    return 0;
}

static const luaL_Reg docker_stream_methods[] = {
    {"feed", docker_stream_feed},
    {"whole", docker_stream_whole},
    {NULL, NULL},
};

static const luaL_Reg ndjson_methods[] = {
    {"feed", ndjson_feed},
    {"finish", ndjson_finish},
    {NULL, NULL},
};

static const luaL_Reg constructors[] = {
    {"docker_stream", new_docker_stream},
    {"ndjson", new_ndjson},
    {NULL, NULL},
};

static void add_type(lua_State *L, const char *type, const luaL_Reg *methods)
{
    luaL_newmetatable(L, type);
    lua_newtable(L);
    cv_lua_setfuncs(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pushstring(L, type);
    lua_setfield(L, -2, "__name");
}

void cv_lua_add_decoders(lua_State *L)
{
    add_type(L, DOCKER_STREAM_TYPE, docker_stream_methods);
    lua_pop(L, 1);
    add_type(L, NDJSON_TYPE, ndjson_methods);
    lua_pushcfunction(L, ndjson_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    cv_lua_setfuncs(L, constructors);
}
