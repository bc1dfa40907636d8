#include "lua/args.h"

#include <math.h>

#include "lua/compat.h"

int cv_lua_push_error(lua_State *L, const struct cv_err *err)
{
    lua_pushnil(L);
    lua_pushstring(L, err->code);
    lua_pushstring(L, err->message);
    return 3;
}

int64_t cv_lua_check_range(lua_State *L, int arg, int64_t least, int64_t most)
{
    lua_Number number = luaL_checknumber(L, arg);
    luaL_argcheck(
        L, number == floor(number) && number >= (lua_Number)least && number <= (lua_Number)most,
        arg, "integer out of range");
    return (int64_t)number;
}
