/* The core's bell, for hosts that can't watch its descriptor; see bell/bell.h. */
#ifndef CV_LUA_BELL_H
#define CV_LUA_BELL_H

#include <lua.h>

/* core:bell(folder) -> path of a unix socket | nil, code, message; an earlier bell is closed */
int cv_lua_bell(lua_State *L);
/* core:bell_answer() -> true | nil, code, message: rings from here on */
int cv_lua_bell_answer(lua_State *L);
/* core:bell_close() */
int cv_lua_bell_close(lua_State *L);

#endif
