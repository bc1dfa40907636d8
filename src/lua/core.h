/* The core of one lua_State, for the files that bind its parts. */
#ifndef CV_LUA_CORE_H
#define CV_LUA_CORE_H

#include <lua.h>

#include <stdbool.h>

#include "bell/bell.h"
#include "net/net.h"
#include "process/host.h"

#define CV_CORE_TYPE "chamvi.sandbox.core"

struct cv_core {
    struct cv_host host;
    struct cv_net net;   /* made at the first request */
    struct cv_bell bell; /* for hosts that ask for one */
    bool open;
    bool net_open;
};

/* The core that is the first argument; raises when it is closed. */
struct cv_core *cv_lua_check_core(lua_State *L);

#endif
