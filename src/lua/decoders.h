/* The sans-I/O decoders of what Docker sends, as Lua objects. */
#ifndef CV_LUA_DECODERS_H
#define CV_LUA_DECODERS_H

#include <lua.h>

/*
 * Adds `docker_stream` and `ndjson` to the table on top of the stack.
 *
 * docker_stream() -> decoder: `decoder:feed(bytes)` -> a list in which the name of a stream
 * ("stdin", "stdout", "stderr", "system") and bytes of it take turns, or nil, code, message;
 * `decoder:whole()` -> whether the stream may end here.
 *
 * ndjson(max_bytes) -> decoder of lines of at most so many bytes: `decoder:feed(bytes)` -> a list
 * of lines, or nil, code, message; `decoder:finish()` -> the last line when it had no line end, ""
 * when there is none, or nil, code, message.
 */
void cv_lua_add_decoders(lua_State *L);

#endif
