#include "lua/process.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "lua/args.h"
#include "lua/compat.h"

static int environment(lua_State *L)
{
    lua_newtable(L);
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        if (equals == NULL || equals == *entry)
            continue;
        lua_pushlstring(L, *entry, (size_t)(equals - *entry));
        lua_pushstring(L, equals + 1);
        lua_rawset(L, -3);
    }
    return 1;
}

static int current_folder(lua_State *L)
{
    char path[PATH_MAX];
    struct cv_err err;
    if (getcwd(path, sizeof path) == NULL) {
        cv_err_system(&err, "file_failed", errno, "the working directory has no path");
        return cv_lua_push_error(L, &err);
    }
    lua_pushstring(L, path);
    return 1;
}

static const luaL_Reg functions[] = {
    {"environment", environment},
    {"current_folder", current_folder},
    {NULL, NULL},
};

void cv_lua_add_process(lua_State *L)
{
    cv_lua_setfuncs(L, functions);
}
