/* Whether Lua runs a finalizer (`__gc`) now. */
#ifndef CV_LUA_FINALIZER_H
#define CV_LUA_FINALIZER_H

#include <lua.h>

/*
 * core.in_finalizer() -> boolean. Finalizers run between any two steps of other code, in its
 * coroutine, so nothing may be waited for in them. (LuaJIT: true inside a debug hook as well, where
 * the program has stopped the collector.)
 */
int cv_lua_in_finalizer(lua_State *L);

#endif
