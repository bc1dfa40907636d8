/* YAML text as Lua values. */
#ifndef CV_LUA_YAML_H
#define CV_LUA_YAML_H

#include <lua.h>

/*
 * Adds yaml_decode to the table on top of the stack.
 *
 * yaml_decode(text [, null]) -> the first document of the text, or nil, "invalid_yaml" and a
 * message that holds nothing of the text; codec/yaml.h says what is refused. A null becomes `null`,
 * by default the light userdata NULL; of a key that comes twice the last value counts. A whole
 * number below 2^53 is an integer on Lua 5.4.
 */
void cv_lua_add_yaml(lua_State *L);

#endif
