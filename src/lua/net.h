/* HTTP requests and upgraded streams, as methods of the core. */
#ifndef CV_LUA_NET_H
#define CV_LUA_NET_H

#include <lua.h>

#include "lua/core.h"

/* The ids that Lua sees are this plus the net's own; those below are the host's. */
#define CV_LUA_NET_ID (INT64_C(1) << 32)

/*
 * core:http{ ... } -> id | nil, code, message
 *
 * Fields: url, method ("GET"), headers (name -> value), body, socket (path of a unix socket),
 * timeout_ms, idle_ms, connect_ms, max_bytes, stream (hand out the body of a 2xx answer), ca, cert,
 * key (PEM text), ca_file, cert_file, key_file, server_name, insecure, proxy, proxy_env.
 *
 * News: id, "head", answer (streamed only), id, "chunk", bytes, and last id, "response", answer or
 * id, "error", code, message. An answer is { status=, headers= (names in lower case), body= }.
 */
int cv_lua_net_http(lua_State *L);
/*
 * core:stream{ ... } -> id | nil, code, message
 *
 * Fields as above but for idle_ms, max_bytes and stream; method ("POST"), upgrade (the protocol).
 *
 * News: id, "open", answer, then id, "chunk", bytes, id, "drained", id, "eof" (the other side sends
 * nothing more), and last id, "closed", id, "refused", answer or id, "error", code, message.
 */
int cv_lua_net_stream(lua_State *L);
/* core:stream_write(id, bytes [, from]) -> count of the bytes taken | nil, code, message */
int cv_lua_net_write(lua_State *L);
/* core:stream_shutdown(id): no more bytes from here */
int cv_lua_net_shutdown(lua_State *L);
/* core:stream_close(id): ends the stream now; "closed" follows */
int cv_lua_net_shut(lua_State *L);
/* core:used(id, count): chunks of so many bytes have been used, so that others may come */
int cv_lua_net_used(lua_State *L);

/* Takes the first completion, which is the net's, and pushes it. */
int cv_lua_net_next(lua_State *L, struct cv_core *core);
/* Aborts the operation of an id that is the net's; harmless when there is none. */
void cv_lua_net_abort(struct cv_core *core, int64_t id, const char *code, const char *message);

#endif
