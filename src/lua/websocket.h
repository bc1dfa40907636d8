/* WebSockets and the channels of a Kubernetes exec, sans-I/O, as Lua objects. */
#ifndef CV_LUA_WEBSOCKET_H
#define CV_LUA_WEBSOCKET_H

#include <lua.h>

/*
 * Adds `websocket`, `k8s_channel` and `sha256` to the table on top of the stack. Where a call can
 * fail it returns nil, code, message.
 *
 * websocket(max_message) -> socket, for one connection:
 *
 * - `socket:request_headers(protocols)` -> the fields of the request, with a new key, that offer
 *   these protocols, a list of one or more;
 * - `socket:accept(headers)` -> the protocol that the fields of the answer choose (names in lower
 *   case);
 * - `socket:feed(bytes)` -> a list in which the kind of an event and its value take turns, and the
 *   bytes that are to be sent now: "message", "text" and "pong" with their bytes; "close", the
 *   last, with { code =, reason = }; "broken", the last, with what is wrong;
 * - `socket:message(bytes)`, `socket:ping(bytes)`, `socket:close(code, reason)` -> the bytes that
 *   are to be sent.
 *
 * k8s_channel(version) -> demultiplexer, version 4 or 5: `channel:take(message)` -> "stdout" or
 * "stderr", bytes; or false when there is nothing to hand out; `channel:outcome()` -> the exit code
 * that the status reports, or nil, message and the reason that the server gives, nil when it gives
 * none or there is no valid status.
 *
 * sha256(bytes) -> the digest in hexadecimal digits.
 */
void cv_lua_add_websocket(lua_State *L);

#endif
