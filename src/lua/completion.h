/* What a completion brings, as Lua values. */
#ifndef CV_LUA_COMPLETION_H
#define CV_LUA_COMPLETION_H

#include <lua.h>

#include "process/op.h"

/*
 * Pushes what the operation, which has ended, brings: what it was, then its values. Returns their
 * number. May raise for want of memory; the operation keeps all that it owns.
 */
int cv_lua_push_end(lua_State *L, struct cv_op *op);
/* Pushes the oldest chunk of the operation's output: "output", the stream's name, the bytes. */
int cv_lua_push_chunk(lua_State *L, const struct cv_chunk *chunk);

#endif
