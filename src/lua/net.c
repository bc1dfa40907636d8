/*
 * HTTP requests and upgraded streams. The fields of a request are borrowed from its table, which
 * lies on the stack; the fields of its header are joined to one string there first.
 */
#include "lua/net.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "lua/args.h"
#include "lua/compat.h"

#define TIME_MAX_MS (INT64_C(1) << 31)
#define CONNECT_MS 10000
#define TIMEOUT_MS 60000
#define BODY_MAX (INT64_C(1) << 30)
#define MAX_BYTES (8 * 1024 * 1024)

/* ---- fields of the table at 2 ------------------------------------------------------------- */

/* The table keeps a string alive, so it may leave the stack. */
static const char *string_field(lua_State *L, const char *name, size_t *length)
{
    lua_getfield(L, 2, name);
    const char *text = NULL;
    if (lua_type(L, -1) == LUA_TSTRING)
        text = lua_tolstring(L, -1, length);
    else if (!lua_isnil(L, -1))
        luaL_error(L, "field '%s' must be a string", name);
    lua_pop(L, 1);
    return text;
}

static const char *text_field(lua_State *L, const char *name)
{
    size_t length = 0;
    const char *text = string_field(L, name, &length);
    if (text != NULL && strlen(text) != length)
        luaL_error(L, "field '%s' must hold no NUL", name);
    return text;
}

static int64_t integer_field(lua_State *L, const char *name, int64_t least, int64_t most,
                             int64_t otherwise)
{
    lua_getfield(L, 2, name);
    lua_Number number = lua_isnil(L, -1) ? (lua_Number)otherwise : lua_tonumber(L, -1);
    if (!lua_isnil(L, -1) && (lua_type(L, -1) != LUA_TNUMBER || number != floor(number) ||
                              number < (lua_Number)least || number > (lua_Number)most))
        luaL_error(L, "field '%s' must be an integer in its range", name);
    lua_pop(L, 1);
    return (int64_t)number;
}

static bool boolean_field(lua_State *L, const char *name)
{
    lua_getfield(L, 2, name);
    bool value = lua_toboolean(L, -1) != 0;
    lua_pop(L, 1);
    return value;
}

/* Whether the value on top is a string without NUL. */
static bool is_text(lua_State *L, int index)
{
    size_t length = 0;
    return lua_type(L, index) == LUA_TSTRING && strlen(lua_tolstring(L, index, &length)) == length;
}

/*
 * Joins names and values of the table `headers` to one string, which is left on the stack; *list
 * borrows it.
 */
static void push_headers(lua_State *L, struct cv_strings *list)
{
    luaL_Buffer joined;
    *list = (struct cv_strings){0};
    lua_getfield(L, 2, "headers");
    if (lua_isnil(L, -1))
        return;
    if (!lua_istable(L, -1))
        luaL_error(L, "field 'headers' must be a table");
    int table = lua_gettop(L);
    /* A buffer in the making must stay on top of the stack, so the parts are gathered first. */
    lua_newtable(L);
    int parts = lua_gettop(L);
    int count = 0;
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_pop(L, 1)) {
        if (!is_text(L, -2) || !is_text(L, -1))
            luaL_error(L, "field 'headers' must hold strings without NUL, by name");
        lua_pushvalue(L, -2);
        lua_rawseti(L, parts, ++count);
        lua_pushvalue(L, -1);
        lua_rawseti(L, parts, ++count);
    }
    luaL_buffinit(L, &joined);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, parts, i);
        luaL_addvalue(&joined);
        luaL_addchar(&joined, '\0');
    }
    luaL_pushresult(&joined);
    if (count > 0)
        list->bytes = lua_tolstring(L, -1, &list->length);
    list->count = (uint32_t)count;
}

static void read_pem(lua_State *L, struct cv_pem *pem, const char *path_name, const char *name)
{
    pem->path = text_field(L, path_name);
    pem->bytes = string_field(L, name, &pem->length);
}

static void read_target(lua_State *L, struct cv_target *target)
{
    luaL_checktype(L, 2, LUA_TTABLE);
    target->url = text_field(L, "url");
    if (target->url == NULL)
        luaL_error(L, "field 'url' must be a string");
    target->unix_socket = text_field(L, "socket");
    read_pem(L, &target->ca, "ca_file", "ca");
    read_pem(L, &target->cert, "cert_file", "cert");
    read_pem(L, &target->key, "key_file", "key");
    target->server_name = text_field(L, "server_name");
    target->insecure = boolean_field(L, "insecure");
    target->proxy = text_field(L, "proxy");
    target->proxy_env = boolean_field(L, "proxy_env");
    target->connect_ms = integer_field(L, "connect_ms", 1, TIME_MAX_MS, CONNECT_MS);
}

static const char *method_field(lua_State *L, const char *otherwise)
{
    const char *method = text_field(L, "method");
    return method == NULL ? otherwise : method;
}

/* ---- starting ----------------------------------------------------------------------------- */

/* The core with its net; NULL with `err`. */
static struct cv_net *open_net(struct cv_core *core, struct cv_err *err)
{
    if (!cv_host_usable(&core->host, err))
        return NULL;
    if (!core->net_open && cv_net_open(&core->net, &core->host.reactor, err) != 0)
        return NULL;
    core->net_open = true;
    return &core->net;
}

static int push_net_id(lua_State *L, uint32_t id, const struct cv_err *err)
{
    if (id == 0)
        return cv_lua_push_error(L, err);
    lua_pushinteger(L, (lua_Integer)(CV_LUA_NET_ID + id));
    return 1;
}

int cv_lua_net_http(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    struct cv_http_request request = {0};
    struct cv_err err;
    read_target(L, &request.target);
    request.method = method_field(L, "GET");
    request.body = string_field(L, "body", &request.body_length);
    request.max_body = (size_t)integer_field(L, "max_bytes", 0, BODY_MAX, MAX_BYTES);
    request.stream = boolean_field(L, "stream");
    request.timeout_ms = integer_field(L, "timeout_ms", 0, TIME_MAX_MS, TIMEOUT_MS);
    request.idle_ms = integer_field(L, "idle_ms", 0, TIME_MAX_MS, 0);
    push_headers(L, &request.headers);
    struct cv_net *net = open_net(core, &err);
    return push_net_id(L, net == NULL ? 0 : cv_net_http(net, &request, &err), &err);
}

int cv_lua_net_stream(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    struct cv_stream_request request = {0};
    struct cv_err err;
    read_target(L, &request.target);
    request.method = method_field(L, "POST");
    request.upgrade = text_field(L, "upgrade");
    if (request.upgrade == NULL)
        luaL_error(L, "field 'upgrade' must be a string");
    request.body = string_field(L, "body", &request.body_length);
    request.timeout_ms = integer_field(L, "timeout_ms", 1, TIME_MAX_MS, TIMEOUT_MS);
    push_headers(L, &request.headers);
    struct cv_net *net = open_net(core, &err);
    return push_net_id(L, net == NULL ? 0 : cv_net_stream(net, &request, &err), &err);
}

/* ---- what is under way -------------------------------------------------------------------- */

/* The net's own id of the argument. */
static uint32_t check_id(lua_State *L)
{
    return (uint32_t)(cv_lua_check_range(L, 2, CV_LUA_NET_ID, 2 * CV_LUA_NET_ID - 1) -
                      CV_LUA_NET_ID);
}

/* Raises where no net was made, since then there is no id either; false with `err` in a child. */
static bool usable(lua_State *L, struct cv_core *core, struct cv_err *err)
{
    if (!core->net_open)
        luaL_error(L, "no request was made");
    return cv_host_usable(&core->host, err);
}

int cv_lua_net_write(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    struct cv_err err;
    size_t length;
    uint32_t id = check_id(L);
    const char *bytes = luaL_checklstring(L, 3, &length);
    int64_t from = 1;
    if (!lua_isnoneornil(L, 4))
        from = cv_lua_check_range(L, 4, 1, (int64_t)length + 1);
    if (!usable(L, core, &err))
        return cv_lua_push_error(L, &err);
    ssize_t count =
        cv_net_write(&core->net, id, bytes + (from - 1), length - (size_t)(from - 1), &err);
    if (count < 0)
        return cv_lua_push_error(L, &err);
    lua_pushinteger(L, (lua_Integer)count);
    return 1;
}

int cv_lua_net_shutdown(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    struct cv_err err;
    uint32_t id = check_id(L);
    if (!usable(L, core, &err))
        return cv_lua_push_error(L, &err);
    cv_net_shutdown(&core->net, id);
    lua_pushboolean(L, 1);
    return 1;
}

int cv_lua_net_shut(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    struct cv_err err;
    uint32_t id = check_id(L);
    if (!usable(L, core, &err))
        return cv_lua_push_error(L, &err);
    cv_net_shut(&core->net, id);
    lua_pushboolean(L, 1);
    return 1;
}

int cv_lua_net_used(lua_State *L)
{
    struct cv_core *core = cv_lua_check_core(L);
    struct cv_err err;
    uint32_t id = check_id(L);
    int64_t count = cv_lua_check_range(L, 3, 0, INT_MAX);
    if (!usable(L, core, &err))
        return cv_lua_push_error(L, &err);
    cv_net_used(&core->net, id, (size_t)count);
    lua_pushboolean(L, 1);
    return 1;
}

void cv_lua_net_abort(struct cv_core *core, int64_t id, const char *code, const char *message)
{
    struct cv_err err;
    if (core->net_open && cv_host_usable(&core->host, &err))
        cv_net_abort(&core->net, (uint32_t)(id - CV_LUA_NET_ID), code, message);
}

/* ---- completions -------------------------------------------------------------------------- */

/* Several fields of one name become one, their values joined: RFC 9110, section 5.3. */
static void push_answer_headers(lua_State *L, const struct cv_headers *headers)
{
    const struct cv_strings list = cv_headers_list(headers);
    const char *name = list.bytes;
    lua_createtable(L, 0, (int)headers->count);
    for (uint32_t i = 0; i < list.count; i += 2) {
        const char *value = cv_strings_next(name);
        lua_getfield(L, -1, name);
        if (lua_isnil(L, -1)) {
            lua_pop(L, 1);
            lua_pushstring(L, value);
        } else {
            lua_pushliteral(L, ", ");
            lua_pushstring(L, value);
            lua_concat(L, 3);
        }
        lua_setfield(L, -2, name);
        name = cv_strings_next(value);
    }
}

/* The operation owns the memory, so a raise here leaks none. */
static void push_answer(lua_State *L, const struct cv_net_op *op, bool with_body)
{
    const struct cv_buf *body = cv_net_op_body(op);
    lua_createtable(L, 0, 3);
    lua_pushinteger(L, cv_net_op_status(op));
    lua_setfield(L, -2, "status");
    push_answer_headers(L, cv_net_op_headers(op));
    lua_setfield(L, -2, "headers");
    if (with_body) {
        size_t length = cv_buf_length(body);
        lua_pushlstring(L, length == 0 ? "" : (const char *)cv_buf_data(body), length);
        lua_setfield(L, -2, "body");
    }
}

/* What the news are, and their values; returns their number. */
static int push_news(lua_State *L, const struct cv_net_op *op)
{
    const struct cv_net_chunk *chunk;
    switch (cv_net_op_news(op)) {
    case CV_NET_HEAD:
        lua_pushstring(L, op->is_stream ? "open" : "head");
        push_answer(L, op, false);
        return 2;
    case CV_NET_CHUNK:
        chunk = cv_net_op_chunk(op);
        lua_pushliteral(L, "chunk");
        lua_pushlstring(L, (const char *)chunk->bytes, chunk->length);
        return 2;
    case CV_NET_DRAINED:
        lua_pushliteral(L, "drained");
        return 1;
    case CV_NET_ENDED:
        lua_pushliteral(L, "eof");
        return 1;
    case CV_NET_CLOSED:
        lua_pushliteral(L, "closed");
        return 1;
    case CV_NET_DONE:
        lua_pushliteral(L, "response");
        push_answer(L, op, true);
        return 2;
    case CV_NET_REFUSED:
        lua_pushliteral(L, "refused");
        push_answer(L, op, true);
        return 2;
    case CV_NET_FAILED:
        break;
    }
    lua_pushliteral(L, "error");
    lua_pushstring(L, op->err.code);
    lua_pushstring(L, op->err.message);
    return 3;
}

int cv_lua_net_next(lua_State *L, struct cv_core *core)
{
    struct cv_net_op *op = cv_net_next(&core->net);
    struct cv_err none;
    int values = push_net_id(L, op->by_id.id, &none);
    values += push_news(L, op);
    cv_net_take(&core->net, op);
    return values;
}
