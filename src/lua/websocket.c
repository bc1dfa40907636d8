#include "lua/websocket.h"

#include <limits.h>
#include <string.h>

#include "codec/k8s_status.h"
#include "lua/args.h"
#include "lua/compat.h"
#include "proto/k8s_channel.h"
#include "proto/websocket.h"
#include "proto/websocket_handshake.h"

#define WEBSOCKET_TYPE "chamvi.sandbox.websocket"
#define CHANNEL_TYPE "chamvi.sandbox.k8s_channel"
/* So much is fed at once: what it brings to be sent fits into the output. */
#define SLICE 16384
/* All protocols that are offered, each with its NUL. */
#define OFFER_MAX 256

struct socket {
    struct cv_websocket frames;
    char key[CV_WEBSOCKET_KEY_SIZE];
    char offer[OFFER_MAX];
    struct cv_strings offered;
};

static struct socket *check_socket(lua_State *L)
{
    return luaL_checkudata(L, 1, WEBSOCKET_TYPE);
}

static int new_websocket(lua_State *L)
{
    struct cv_err err;
    size_t max = (size_t)cv_lua_check_range(L, 1, 1, INT_MAX / 2);
    struct socket *socket = lua_newuserdata(L, sizeof *socket);
    memset(socket, 0, sizeof *socket);
    luaL_getmetatable(L, WEBSOCKET_TYPE);
    lua_setmetatable(L, -2);
    if (cv_websocket_init(&socket->frames, max, &err) != 0)
        return cv_lua_push_error(L, &err);
    return 1;
}

static int socket_gc(lua_State *L)
{
    cv_websocket_free(&check_socket(L)->frames);
    return 0;
}

/* ---- the handshake ------------------------------------------------------------------------ */

/* Keeps the protocols of the list at 2, and leaves them joined by commas on the stack. */
static void push_offer(lua_State *L, struct socket *socket)
{
    luaL_Buffer joined;
    luaL_checktype(L, 2, LUA_TTABLE);
    socket->offered = (struct cv_strings){.bytes = socket->offer};
    for (int i = 1; i <= (int)cv_lua_rawlen(L, 2); i++) {
        size_t length = 0;
        lua_rawgeti(L, 2, i);
        const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : NULL;
        luaL_argcheck(L, name != NULL && length > 0 && strlen(name) == length, 2,
                      "a protocol is no name");
        luaL_argcheck(L, length + 1 <= OFFER_MAX - socket->offered.length, 2,
                      "the protocols are too long");
        memcpy(socket->offer + socket->offered.length, name, length + 1);
        socket->offered.length += length + 1;
        socket->offered.count++;
        lua_pop(L, 1);
    }
    luaL_argcheck(L, socket->offered.count > 0, 2, "there is no protocol");
    luaL_buffinit(L, &joined);
    const char *name = socket->offer;
    for (uint32_t i = 0; i < socket->offered.count; i++, name = cv_strings_next(name)) {
        if (i > 0)
            luaL_addstring(&joined, ", ");
        luaL_addstring(&joined, name);
    }
    luaL_pushresult(&joined);
}

static int socket_request_headers(lua_State *L)
{
    struct socket *socket = check_socket(L);
    struct cv_err err;
    if (cv_websocket_key(socket->key, &err) != 0)
        return cv_lua_push_error(L, &err);
    lua_createtable(L, 0, 3);
    push_offer(L, socket);
    lua_setfield(L, -2, "Sec-WebSocket-Protocol");
    lua_pushstring(L, socket->key);
    lua_setfield(L, -2, "Sec-WebSocket-Key");
    lua_pushliteral(L, "13");
    lua_setfield(L, -2, "Sec-WebSocket-Version");
    return 1;
}

/* A field of the answer, left on the stack; NULL where there is none. */
static const char *push_answer_field(lua_State *L, const char *name)
{
    lua_getfield(L, 2, name);
    return lua_tostring(L, -1);
}

static int socket_accept(lua_State *L)
{
    struct socket *socket = check_socket(L);
    struct cv_err err;
    const char *chosen;
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_argcheck(L, socket->offered.count > 0, 1, "no request was made");
    const struct cv_websocket_answer answer = {
        .connection = push_answer_field(L, "connection"),
        .accept = push_answer_field(L, "sec-websocket-accept"),
        .protocol = push_answer_field(L, "sec-websocket-protocol"),
        .extensions = push_answer_field(L, "sec-websocket-extensions"),
    };
    if (cv_websocket_check(&answer, socket->key, &socket->offered, &chosen, &err) != 0)
        return cv_lua_push_error(L, &err);
    lua_pushstring(L, chosen);
    return 1;
}

/* ---- frames ------------------------------------------------------------------------------- */

/* Takes what is to be sent; the buffer is emptied once Lua has it. */
static void push_output(lua_State *L, struct socket *socket)
{
    struct cv_buf *out = &socket->frames.out;
    const size_t length = cv_buf_length(out);
    lua_pushlstring(L, length == 0 ? "" : (const char *)cv_buf_data(out), length);
    cv_buf_consume(out, length);
}

static void push_event(lua_State *L, const struct cv_websocket_event *event)
{
    static const char *const names[] = {"message", "text", "pong", "close"};
    lua_pushstring(L, names[event->type]);
    if (event->type != CV_WEBSOCKET_CLOSE) {
        lua_pushlstring(L, (const char *)event->bytes, event->length);
        return;
    }
    lua_createtable(L, 0, 2);
    lua_pushinteger(L, event->code);
    lua_setfield(L, -2, "code");
    lua_pushlstring(L, (const char *)event->bytes, event->length);
    lua_setfield(L, -2, "reason");
}

/* Adds the kind and the value on top of the stack to the list below them. */
static void add_event(lua_State *L, int list, int *count)
{
    lua_rawseti(L, list, *count + 2);
    lua_rawseti(L, list, *count + 1);
    *count += 2;
}

static int socket_feed(lua_State *L)
{
    struct socket *socket = check_socket(L);
    const struct cv_websocket_event *event;
    size_t length;
    const char *bytes = luaL_checklstring(L, 2, &length);
    int count = 0;
    int got = 0;
    lua_settop(L, 2);
    lua_newtable(L);
    lua_pushliteral(L, ""); /* the output so far */
    for (size_t at = 0; at < length && got == 0; at += SLICE) {
        cv_websocket_push(&socket->frames, bytes + at, length - at < SLICE ? length - at : SLICE);
        while ((got = cv_websocket_next(&socket->frames, &event)) > 0) {
            push_event(L, event);
            add_event(L, 3, &count);
        }
        push_output(L, socket);
        lua_concat(L, 2);
    }
    if (got < 0) {
        lua_pushliteral(L, "broken");
        lua_pushstring(L, socket->frames.problem);
        add_event(L, 3, &count);
    }
    return 2;
}

static int push_sent(lua_State *L, int result, struct socket *socket, const struct cv_err *err)
{
    if (result != 0)
        return cv_lua_push_error(L, err);
    push_output(L, socket);
    return 1;
}

static int socket_message(lua_State *L)
{
    struct socket *socket = check_socket(L);
    struct cv_err err;
    size_t length;
    const char *bytes = luaL_checklstring(L, 2, &length);
    return push_sent(L, cv_websocket_message(&socket->frames, bytes, length, &err), socket, &err);
}

static int socket_ping(lua_State *L)
{
    struct socket *socket = check_socket(L);
    struct cv_err err;
    size_t length;
    const char *bytes = luaL_optlstring(L, 2, "", &length);
    return push_sent(L, cv_websocket_ping(&socket->frames, bytes, length, &err), socket, &err);
}

static int socket_close(lua_State *L)
{
    struct socket *socket = check_socket(L);
    struct cv_err err;
    size_t length;
    int64_t code = cv_lua_check_range(L, 2, 0, INT_MAX);
    const char *reason = luaL_optlstring(L, 3, "", &length);
    return push_sent(L, cv_websocket_close(&socket->frames, code, reason, length, &err), socket,
                     &err);
}

/* ---- the channels of an exec -------------------------------------------------------------- */

static int new_channel(lua_State *L)
{
    int version = (int)cv_lua_check_range(L, 1, 4, 5);
    cv_k8s_channel_init(lua_newuserdata(L, sizeof(struct cv_k8s_channel)), version);
    luaL_getmetatable(L, CHANNEL_TYPE);
    lua_setmetatable(L, -2);
    return 1;
}

static int channel_gc(lua_State *L)
{
    cv_k8s_channel_free(luaL_checkudata(L, 1, CHANNEL_TYPE));
    return 0;
}

static int channel_take(lua_State *L)
{
    struct cv_k8s_channel *channel = luaL_checkudata(L, 1, CHANNEL_TYPE);
    struct cv_k8s_piece piece;
    struct cv_err err;
    size_t length;
    const char *message = luaL_checklstring(L, 2, &length);
    int got = cv_k8s_channel_take(channel, message, length, &piece);
    if (got < 0) {
        cv_err_set(&err, "transport_lost", "the server breaks the protocol of an exec: %s",
                   channel->problem);
        return cv_lua_push_error(L, &err);
    }
    if (got == 0) {
        lua_pushboolean(L, 0);
        return 1;
    }
    lua_pushstring(L, piece.channel == CV_K8S_STDOUT ? "stdout" : "stderr");
    lua_pushlstring(L, (const char *)piece.bytes, piece.length);
    return 2;
}

static int channel_outcome(lua_State *L)
{
    struct cv_k8s_channel *channel = luaL_checkudata(L, 1, CHANNEL_TYPE);
    struct cv_k8s_status status;
    cv_k8s_status_read((const char *)cv_buf_data(&channel->status), cv_buf_length(&channel->status),
                       &status);
    if (status.outcome == CV_K8S_EXITED) {
        lua_pushinteger(L, status.exit_code);
        return 1;
    }
    lua_pushnil(L);
    lua_pushstring(L, status.message);
    if (status.outcome == CV_K8S_FAILED)
        lua_pushstring(L, status.reason);
    else
        lua_pushnil(L);
    return 3;
}

/* ---- digests ------------------------------------------------------------------------------ */

static int sha256(lua_State *L)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[CV_SHA256_SIZE];
    char text[2 * CV_SHA256_SIZE];
    size_t length;
    const char *bytes = luaL_checklstring(L, 1, &length);
    if (cv_sha256(bytes, length, digest) != 0)
        return luaL_error(L, "OpenSSL gives no SHA-256");
    for (size_t i = 0; i < sizeof digest; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 0x0f];
    }
    lua_pushlstring(L, text, sizeof text);
    return 1;
}

static const luaL_Reg socket_methods[] = {
    {"request_headers", socket_request_headers},
    {"accept", socket_accept},
    {"feed", socket_feed},
    {"message", socket_message},
    {"ping", socket_ping},
    {"close", socket_close},
    {NULL, NULL},
};

static const luaL_Reg channel_methods[] = {
    {"take", channel_take},
    {"outcome", channel_outcome},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"websocket", new_websocket},
    {"k8s_channel", new_channel},
    {"sha256", sha256},
    {NULL, NULL},
};

static void add_type(lua_State *L, const char *type, const luaL_Reg *methods, lua_CFunction gc)
{
    luaL_newmetatable(L, type);
    lua_newtable(L);
    cv_lua_setfuncs(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pushstring(L, type);
    lua_setfield(L, -2, "__name");
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}

void cv_lua_add_websocket(lua_State *L)
{
    add_type(L, WEBSOCKET_TYPE, socket_methods, socket_gc);
    add_type(L, CHANNEL_TYPE, channel_methods, channel_gc);
    cv_lua_setfuncs(L, functions);
}
