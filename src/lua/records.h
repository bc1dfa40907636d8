/* The records of local workspaces. */
#ifndef CV_LUA_RECORDS_H
#define CV_LUA_RECORDS_H

#include <lua.h>

/* Adds `records`, `record_owned` and `record_drop` to the table on top of the stack. */
void cv_lua_add_records(lua_State *L);

#endif
