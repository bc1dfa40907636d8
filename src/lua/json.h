/* JSON text and Lua values. */
#ifndef CV_LUA_JSON_H
#define CV_LUA_JSON_H

#include <lua.h>

/*
 * Adds json_encode and json_decode to the table on top of the stack.
 *
 * A JSON null is the light userdata NULL, equal to cjson.null and ngx.null. A table with an element
 * 1 is an array, any other an object.
 */
void cv_lua_add_json(lua_State *L);

#endif
