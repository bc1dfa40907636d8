#include "lua/bell.h"

#include "lua/args.h"
#include "lua/compat.h"
#include "lua/core.h"

/* The core, in a process that may use it; NULL with `err`. */
static struct cv_core *usable_core(lua_State *L, struct cv_err *err)
{
    struct cv_core *core = cv_lua_check_core(L);
    return cv_host_usable(&core->host, err) ? core : NULL;
}

int cv_lua_bell(lua_State *L)
{
    struct cv_err err;
    const char *folder = luaL_checkstring(L, 2);
    struct cv_core *core = usable_core(L, &err);
    if (core == NULL)
        return cv_lua_push_error(L, &err);
    cv_bell_close(&core->bell, false);
    if (cv_bell_open(&core->bell, core->host.reactor.epoll, folder, &err) != 0)
        return cv_lua_push_error(L, &err);
    lua_pushstring(L, core->bell.path);
    return 1;
}

int cv_lua_bell_answer(lua_State *L)
{
    struct cv_err err;
    struct cv_core *core = usable_core(L, &err);
    if (core == NULL || cv_bell_answer(&core->bell, &err) != 0)
        return cv_lua_push_error(L, &err);
    lua_pushboolean(L, 1);
    return 1;
}

int cv_lua_bell_close(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    cv_bell_close(&core->bell, cv_reactor_foreign(&core->host.reactor));
    return 0;
}
