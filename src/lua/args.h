/* Arguments and errors, as every function of the module takes and gives them. */
#ifndef CV_LUA_ARGS_H
#define CV_LUA_ARGS_H

#include <lua.h>

#include <stdint.h>

#include "base/err.h"

/* An integer from `least` to `most`, given as any Lua number without a fraction; raises. */
int64_t cv_lua_check_range(lua_State *L, int arg, int64_t least, int64_t most);
/* Pushes nil, the code and the message; returns 3. */
int cv_lua_push_error(lua_State *L, const struct cv_err *err);

#endif
