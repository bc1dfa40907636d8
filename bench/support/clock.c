/*
 * The clock of the Lua participants: `require "bench_clock"` gives one function that returns
 * CLOCK_MONOTONIC in nanoseconds (an integer; on LuaJIT a number, exact below 2^53). Plain Lua has
 * no such clock, and loading luv for it would put a second event loop into what is measured.
 */
#include <stdint.h>
#include <time.h>

#include <lua.h>

#include <lauxlib.h>

static int clock_now(lua_State *L)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    lua_pushinteger(L, (lua_Integer)((int64_t)now.tv_sec * 1000000000 + now.tv_nsec));
    return 1;
}

int luaopen_bench_clock(lua_State *L);

int luaopen_bench_clock(lua_State *L)
{
    lua_pushcfunction(L, clock_now);
    return 1;
}
