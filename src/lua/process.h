/* What Lua can't ask about its own process. */
#ifndef CV_LUA_PROCESS_H
#define CV_LUA_PROCESS_H

#include <lua.h>

/*
 * Adds to the table on top of the stack:
 *
 * - `environment()` -> the whole environment, a table by name;
 * - `current_folder()` -> the path of the working directory, or nil, code, message.
 */
void cv_lua_add_process(lua_State *L);

#endif
