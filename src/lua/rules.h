/* The rules and the output collector, as functions of the module. */
#ifndef CV_LUA_RULES_H
#define CV_LUA_RULES_H

#include <lua.h>

/* Adds the functions to the table on top of the stack. */
void cv_lua_add_rules(lua_State *L);

#endif
