/* One source for Lua 5.4 and LuaJIT (the API of 5.1). */
#ifndef CV_LUA_COMPAT_H
#define CV_LUA_COMPAT_H

#include <lauxlib.h>
#include <lua.h>

#if LUA_VERSION_NUM < 502
#define cv_lua_rawlen(L, index) lua_objlen(L, index)
#define cv_lua_setfuncs(L, functions) luaL_register(L, NULL, functions)
#else
#define cv_lua_rawlen(L, index) lua_rawlen(L, index)
#define cv_lua_setfuncs(L, functions) luaL_setfuncs(L, functions, 0)
#endif

#endif
