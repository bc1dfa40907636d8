#include "lua/finalizer.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

#if LUA_VERSION_NUM >= 504

/* Before Lua 5.4.4 a collector that a finalizer stops looks like one that the program has stopped.
 */
static bool is_below_finalizer(lua_State *L)
{
    lua_Debug frame;
    for (int level = 0; lua_getstack(L, level, &frame) == 1; level++) {
        if (lua_getinfo(L, "n", &frame) != 0 && strcmp(frame.namewhat, "metamethod") == 0 &&
            frame.name != NULL && strcmp(frame.name, "__gc") == 0)
            return true;
    }
    return false;
}

static bool in_finalizer(lua_State *L)
{
    const int running = lua_gc(L, LUA_GCISRUNNING); /* negative: "called by a finalizer" (5.4.4) */
    return running < 0 || (running == 0 && is_below_finalizer(L));
}

#else

static char hook_ran; /* its address: the key in the registry */

static void note(lua_State *L, bool ran)
{
    lua_pushlightuserdata(L, &hook_ran);
    lua_pushboolean(L, ran);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

static void note_hook(lua_State *L, lua_Debug *event)
{
    (void)event;
    note(L, true);
}

static bool has_run(lua_State *L)
{
    lua_pushlightuserdata(L, &hook_ran);
    lua_rawget(L, LUA_REGISTRYINDEX);
    bool ran = lua_toboolean(L, -1) != 0;
    lua_pop(L, 1);
    return ran;
}

static int nothing(lua_State *L)
{
    (void)L;
    return 0;
}

/* LuaJIT stops the collector during a finalizer, as the program may have, and calls no hooks there.
 */
static bool in_finalizer(lua_State *L)
{
    if (lua_gc(L, LUA_GCISRUNNING, 0) != 0)
        return false;
    lua_Hook hook = lua_gethook(L);
    const int mask = lua_gethookmask(L), count = lua_gethookcount(L);
    note(L, false);
    lua_sethook(L, note_hook, LUA_MASKCALL, 0);
    lua_pushcfunction(L, nothing);
    lua_call(L, 0, 0);
    lua_sethook(L, hook, mask, count);
    return !has_run(L);
}

#endif

int cv_lua_in_finalizer(lua_State *L)
{
    lua_pushboolean(L, in_finalizer(L));
    return 1;
}
