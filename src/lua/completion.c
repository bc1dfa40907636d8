/* What a completion brings, as Lua values. */
#include "lua/completion.h"

#include "lua/compat.h"

static const char *const stream_names[] = {[CV_STDOUT] = "stdout", [CV_STDERR] = "stderr"};

static void set_number(lua_State *L, const char *name, lua_Number value)
{
#if LUA_VERSION_NUM >= 503
    lua_pushinteger(L, (lua_Integer)value);
#else
    lua_pushnumber(L, value);
#endif
    lua_setfield(L, -2, name);
}

static void set_boolean(lua_State *L, const char *name, bool value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, name);
}

/* Sets what was kept of both streams. The collectors own the memory, so a raise here leaks none. */
static void set_output(lua_State *L, struct cv_op *op)
{
    static const char *const truncated[] = {"stdout_truncated", "stderr_truncated"};
    for (int i = CV_STDOUT; i <= CV_STDERR; i++) {
        const char *text;
        size_t length;
        if (cv_collector_text(&op->output[i], &text, &length) != 0)
            luaL_error(L, "not enough memory");
        lua_pushlstring(L, length == 0 ? "" : text, length);
        lua_setfield(L, -2, stream_names[i]);
        set_boolean(L, truncated[i], cv_op_truncated(op, (enum cv_stream_name)i));
    }
}

static void push_result(lua_State *L, struct cv_op *op)
{
    const struct cv_ended *ended = &op->ended;
    bool timed_out = (ended->flags & CV_ENDED_TIMED_OUT) != 0;
    bool signaled = ended->how == CV_ENDED_SIGNALED;
    lua_createtable(L, 0, 13);
    lua_pushstring(L, timed_out ? "timed_out" : signaled ? "signaled" : "exited");
    lua_setfield(L, -2, "status");
    /* Codes as a shell reports them: 128+n for a signal; 124 as timeout(1) says it. */
    set_number(L, "exit_code", timed_out ? 124 : ended->value + (signaled ? 128 : 0));
    if (signaled)
        set_number(L, "term_signal", ended->value);
    set_boolean(L, "timed_out", timed_out);
    set_output(L, op);
    set_number(L, "duration_ms", (lua_Number)(ended->duration_us / 1000));
    set_number(L, "stdout_bytes", (lua_Number)ended->stdout_bytes);
    set_number(L, "stderr_bytes", (lua_Number)ended->stderr_bytes);
    set_boolean(L, "streams_held", (ended->flags & CV_ENDED_STREAMS_HELD) != 0);
}

/* The operation owns the memory, so a raise here leaks none. */
static void push_content(lua_State *L, const struct cv_op *op)
{
    size_t length = cv_buf_length(&op->content);
    lua_pushlstring(L, length == 0 ? "" : (const char *)cv_buf_data(&op->content), length);
}

static void push_failure(lua_State *L, struct cv_op *op)
{
    lua_pushliteral(L, "error");
    lua_pushstring(L, op->err.code);
    lua_pushstring(L, op->err.message);
    lua_pushnil(L);
    if (op->kind == CV_OP_EXEC) {
        lua_createtable(L, 0, 4);
        set_output(L, op);
    } else {
        lua_pushnil(L);
    }
}

int cv_lua_push_end(lua_State *L, struct cv_op *op)
{
    if (op->err.code != NULL) {
        push_failure(L, op);
        return 5;
    }
    switch (op->kind) {
    case CV_OP_TIMER:
        lua_pushliteral(L, "timer");
        return 1;
    case CV_OP_LAUNCH:
        lua_pushliteral(L, "ready");
        return 1;
    case CV_OP_REMOVE:
        lua_pushliteral(L, "removed");
        return 1;
    case CV_OP_END:
        lua_pushliteral(L, "ended");
        return 1;
    case CV_OP_WRITE_FILE:
        lua_pushliteral(L, "written");
        return 1;
    case CV_OP_READ_FILE:
        lua_pushliteral(L, "file");
        push_content(L, op);
        return 2;
    case CV_OP_EXEC:
        break;
    }
    lua_pushliteral(L, "exec");
    push_result(L, op);
    return 2;
}

int cv_lua_push_chunk(lua_State *L, const struct cv_chunk *chunk)
{
    lua_pushliteral(L, "output");
    lua_pushstring(L, stream_names[chunk->stream]);
    lua_pushlstring(L, (const char *)chunk->bytes, chunk->length);
    return 3;
}
