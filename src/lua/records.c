/* The records of local workspaces (src/record), for one lua_State. */
#include "lua/records.h"

#include <errno.h>

#include "base/fd.h"
#include "lua/compat.h"
#include "record/record.h"

#define RECORDS_TYPE "chamvi.sandbox.records"

static int records_free(lua_State *L)
{
    cv_records_free(luaL_checkudata(L, 1, RECORDS_TYPE));
    return 0;
}

/*
 * core.records(root) -> a list of { id =, text =, modified_ms = } | nil, code, message
 *
 * `text` is "" for a record that can't be read.
 */
static int records_read(lua_State *L)
{
    struct cv_err err;
    const char *root = luaL_checkstring(L, 1);
    struct cv_records *records = lua_newuserdata(L, sizeof *records);
    *records = (struct cv_records){0};
    luaL_getmetatable(L, RECORDS_TYPE);
    lua_setmetatable(L, -2);
    if (cv_records_read(root, records, &err) != 0) {
        lua_pushnil(L);
        lua_pushstring(L, err.code);
        lua_pushstring(L, err.message);
        return 3;
    }
    lua_newtable(L);
    for (size_t i = 0; i < records->count; i++) {
        const struct cv_record *record = &records->list[i];
        size_t length = cv_buf_length(&record->text);
        lua_createtable(L, 0, 3);
        lua_pushstring(L, record->id);
        lua_setfield(L, -2, "id");
        lua_pushlstring(L, length == 0 ? "" : (const char *)cv_buf_data(&record->text), length);
        lua_setfield(L, -2, "text");
        lua_pushnumber(L, (lua_Number)record->modified_ms);
        lua_setfield(L, -2, "modified_ms");
        lua_rawseti(L, -2, (int)i + 1);
    }
    return 1;
}

/* core.record_owned(root, id) -> whether a process looks after the record's workspace */
static int record_owned(lua_State *L)
{
    const char *root = luaL_checkstring(L, 1);
    const char *id = luaL_checkstring(L, 2);
    luaL_argcheck(L, cv_record_id_valid(id), 2, "UUID expected");
    pid_t holder;
    int owner = cv_record_owner(root, id, &holder);
    lua_pushboolean(L, owner >= 0 || errno != ESRCH);
    cv_fd_close(&owner);
    return 1;
}

/* core.record_drop(root, id): deletes the record of a workspace that could not be made */
static int record_drop(lua_State *L)
{
    const char *root = luaL_checkstring(L, 1);
    const char *id = luaL_checkstring(L, 2);
    luaL_argcheck(L, cv_record_id_valid(id), 2, "UUID expected");
    cv_record_drop(root, id);
    return 0;
}

void cv_lua_add_records(lua_State *L)
{
    luaL_newmetatable(L, RECORDS_TYPE);
    lua_pushcfunction(L, records_free);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    lua_pushcfunction(L, records_read);
    lua_setfield(L, -2, "records");
    lua_pushcfunction(L, record_owned);
    lua_setfield(L, -2, "record_owned");
    lua_pushcfunction(L, record_drop);
    lua_setfield(L, -2, "record_drop");
}
