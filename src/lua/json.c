/*
 * JSON text and Lua values, over src/codec/json.
 *
 * A tree belongs to a userdata from the moment it exists, and every new value is added to the tree
 * before Lua is called again, so that a raise at any point leaks nothing.
 */
#include "lua/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/json.h"
#include "lua/compat.h"
#include "output/utf8.h"

#define TREE_TYPE "chamvi.sandbox.json"

struct tree {
    struct cJSON *root;
    char *text; /* what it was printed as */
};

static int tree_free(lua_State *L)
{
    struct tree *tree = luaL_checkudata(L, 1, TREE_TYPE);
    cv_json_free(tree->root);
    cv_json_free_text(tree->text);
    *tree = (struct tree){0};
    return 0;
}

static struct tree *push_tree(lua_State *L)
{
    struct tree *tree = lua_newuserdata(L, sizeof *tree);
    *tree = (struct tree){0};
    luaL_getmetatable(L, TREE_TYPE);
    lua_setmetatable(L, -2);
    return tree;
}

static int refuse(lua_State *L, const char *message)
{
    lua_pushnil(L);
    lua_pushliteral(L, "invalid_json");
    lua_pushstring(L, message);
    return 3;
}

/* ---- Lua to text -------------------------------------------------------------------------- */

struct encoder {
    lua_State *L;
    struct tree *tree;
    size_t cost;    /* see CV_JSON_COST_MAX */
    char wrong[96]; /* what is, once something is */
    char path[128]; /* where: ".key[2]", filled from its end when the recursion returns */
    size_t path_start;
};

static bool fail(struct encoder *e, const char *wrong)
{
    snprintf(e->wrong, sizeof e->wrong, "%s", wrong);
    return false;
}

/* Puts a step before the path, unless there is no more room. */
static bool fail_below(struct encoder *e, const char *format, ...)
{
    char step[64];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(step, sizeof step, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof step && (size_t)length <= e->path_start) {
        e->path_start -= (size_t)length;
        memcpy(e->path + e->path_start, step, (size_t)length);
    }
    return false;
}

/* Puts a new value into its place: an element of `parent`, or the root. */
static bool put(struct encoder *e, struct cJSON *parent, const char *key, struct cJSON *value)
{
    if (parent != NULL && value != NULL)
        return cv_json_add(parent, key, value) || fail(e, "not enough memory");
    e->tree->root = value;
    return value != NULL || fail(e, "not enough memory");
}

static bool spend(struct encoder *e, size_t bytes)
{
    size_t left = CV_JSON_COST_MAX - e->cost;
    if (left < CV_JSON_VALUE_COST || bytes > left - CV_JSON_VALUE_COST)
        return fail(e, "the whole is too large");
    e->cost += CV_JSON_VALUE_COST + bytes;
    return true;
}

static bool encode(struct encoder *e, int index, struct cJSON *parent, const char *key, int depth);

static bool encode_array(struct encoder *e, int index, struct cJSON *array, int depth)
{
    lua_State *L = e->L;
    size_t count = cv_lua_rawlen(L, index), keys = 0;
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TNUMBER) {
            lua_pop(L, 2);
            return fail(e, "a list has other keys too");
        }
        keys++;
    }
    if (keys != count)
        return fail(e, "a list has gaps");
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(L, index, (int)i);
        bool encoded = encode(e, lua_gettop(L), array, NULL, depth + 1);
        lua_pop(L, 1);
        if (!encoded)
            return fail_below(e, "[%zu]", i);
    }
    return true;
}

/* The string at `index`; NULL when it can't be a key. */
static const char *key_at(lua_State *L, int index)
{
    size_t length;
    if (lua_type(L, index) != LUA_TSTRING)
        return NULL;
    const char *key = lua_tolstring(L, index, &length);
    bool plain = strlen(key) == length &&
                 (length == 0 || cv_utf8_run((const uint8_t *)key, length) == length);
    return plain ? key : NULL;
}

static int by_bytes(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/*
 * Pushes a table that keeps the keys of the one at `index` alive (a finalizer may change that one),
 * and a userdata with pointers to them, sorted. NULL, with nothing pushed, when a key is none.
 */
static const char **push_keys(struct encoder *e, int index, size_t *count)
{
    lua_State *L = e->L;
    lua_newtable(L);
    int kept = lua_gettop(L), last = 0;
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        const char *key = key_at(L, -2);
        if (key == NULL || !spend(e, strlen(key))) {
            if (key == NULL)
                fail(e, "a key must be a UTF-8 string without NUL");
            lua_settop(L, kept - 1);
            return NULL;
        }
        lua_pushvalue(L, -2);
        lua_rawseti(L, kept, ++last);
    }
    const char **keys = lua_newuserdata(L, ((size_t)last + 1) * sizeof *keys);
    for (int i = 0; i < last; i++) {
        lua_rawgeti(L, kept, i + 1);
        keys[i] = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    qsort(keys, (size_t)last, sizeof *keys, by_bytes);
    *count = (size_t)last;
    return keys;
}

static bool encode_object(struct encoder *e, int index, struct cJSON *object, int depth)
{
    lua_State *L = e->L;
    size_t count;
    const char **keys = push_keys(e, index, &count);
    if (keys == NULL)
        return false;
    bool encoded = true;
    for (size_t i = 0; i < count && encoded; i++) {
        lua_pushstring(L, keys[i]);
        lua_rawget(L, index);
        encoded =
            encode(e, lua_gettop(L), object, keys[i], depth + 1) || fail_below(e, ".%s", keys[i]);
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
    return encoded;
}

/* Whether an empty table says that it is an array. */
static bool is_marked_array(lua_State *L, int index)
{
    if (!luaL_getmetafield(L, index, "__jsontype"))
        return false;
    bool marked = lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "array") == 0;
    lua_pop(L, 1);
    return marked;
}

static bool encode_table(struct encoder *e, int index, struct cJSON *parent, const char *key,
                         int depth)
{
    if (depth == CV_JSON_DEPTH_MAX)
        return fail(e, "the whole is nested too deeply, or a table holds itself");
    luaL_checkstack(e->L, 12, "JSON");
    lua_pushnil(e->L);
    bool empty = lua_next(e->L, index) == 0;
    if (!empty)
        lua_pop(e->L, 2);
    bool array = empty ? is_marked_array(e->L, index) : cv_lua_rawlen(e->L, index) > 0;
    struct cJSON *value = cv_json_new(array ? CV_JSON_ARRAY : CV_JSON_OBJECT);
    if (!put(e, parent, key, value))
        return false;
    return array ? encode_array(e, index, value, depth) : encode_object(e, index, value, depth);
}

static struct cJSON *new_number(lua_State *L, int index)
{
#if LUA_VERSION_NUM >= 503
    if (lua_isinteger(L, index))
        return cv_json_new_integer(lua_tointeger(L, index));
#endif
    return cv_json_new_number(lua_tonumber(L, index));
}

/* The value at `index`, which is absolute; the second argument is what counts as null. */
static bool encode(struct encoder *e, int index, struct cJSON *parent, const char *key, int depth)
{
    lua_State *L = e->L;
    size_t length = 0;
    const char *string =
        lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, &length) : NULL;
    if (!spend(e, length))
        return false;
    switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
        return put(e, parent, key,
                   cv_json_new(lua_toboolean(L, index) ? CV_JSON_TRUE : CV_JSON_FALSE));
    case LUA_TNUMBER:
        if (!isfinite(lua_tonumber(L, index)))
            return fail(e, "a number is not finite");
        return put(e, parent, key, new_number(L, index));
    case LUA_TSTRING:
        return put(e, parent, key, cv_json_new_string(string, length));
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, index) == NULL)
            return put(e, parent, key, cv_json_new(CV_JSON_NULL));
        break;
    case LUA_TTABLE:
        if (!lua_rawequal(L, index, 2))
            return encode_table(e, index, parent, key, depth);
        break;
    default:
        break;
    }
    if (lua_type(L, index) != LUA_TNIL && lua_rawequal(L, index, 2))
        return put(e, parent, key, cv_json_new(CV_JSON_NULL));
    snprintf(e->wrong, sizeof e->wrong, "a %s is no value of JSON", luaL_typename(L, index));
    return false;
}

/* core.json_encode(value [, null]) -> text | nil, code, message */
static int json_encode(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_settop(L, 2);
    struct encoder e = {.L = L, .tree = push_tree(L), .path_start = sizeof e.path};
    if (!encode(&e, 1, NULL, NULL, 0)) {
        int length = (int)(sizeof e.path - e.path_start);
        char message[256];
        snprintf(message, sizeof message, "%s%.*s%s%s", length > 0 ? "at " : "", length,
                 e.path + e.path_start, length > 0 ? ": " : "", e.wrong);
        return refuse(L, message);
    }
    e.tree->text = cv_json_print(e.tree->root);
    if (e.tree->text == NULL)
        return refuse(L, "not enough memory");
    lua_pushstring(L, e.tree->text);
    return 1;
}

/* ---- Text to Lua -------------------------------------------------------------------------- */

static void push_value(lua_State *L, const struct cJSON *value);

static void push_elements(lua_State *L, const struct cJSON *value, bool object)
{
    int place = 0;
    luaL_checkstack(L, 8, "JSON");
    lua_newtable(L);
    for (const struct cJSON *element = cv_json_first(value); element != NULL;
         element = cv_json_next(element)) {
        if (object)
            lua_pushstring(L, cv_json_key(element));
        push_value(L, element);
        if (object)
            lua_rawset(L, -3);
        else
            lua_rawseti(L, -2, ++place);
    }
}

static void push_number(lua_State *L, double number)
{
#if LUA_VERSION_NUM >= 503
    if (number == floor(number) && fabs(number) < 9007199254740992.0) {
        lua_pushinteger(L, (lua_Integer)number);
        return;
    }
#endif
    lua_pushnumber(L, number);
}

/* The second argument is what a null becomes. */
static void push_value(lua_State *L, const struct cJSON *value)
{
    switch (cv_json_type(value)) {
    case CV_JSON_FALSE:
    case CV_JSON_TRUE:
        lua_pushboolean(L, cv_json_type(value) == CV_JSON_TRUE);
        break;
    case CV_JSON_NUMBER:
        push_number(L, cv_json_number(value));
        break;
    case CV_JSON_STRING:
        lua_pushstring(L, cv_json_string(value));
        break;
    case CV_JSON_ARRAY:
        push_elements(L, value, false);
        break;
    case CV_JSON_OBJECT:
        push_elements(L, value, true);
        break;
    case CV_JSON_NULL:
        lua_pushvalue(L, 2);
        break;
    }
}

/* The value, or nil, code, message. What a null becomes is at index 2. */
static int decode(lua_State *L, const char *text, size_t length)
{
    struct tree *tree = push_tree(L);
    struct cv_err err;
    tree->root = cv_json_parse(text, length, &err);
    if (tree->root == NULL)
        return refuse(L, err.message);
    push_value(L, tree->root);
    return 1;
}

/* core.json_decode(text [, null]) -> value | nil, code, message */
static int json_decode(lua_State *L)
{
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) {
        lua_pushlightuserdata(L, NULL);
        lua_replace(L, 2);
    }
    return decode(L, text, length);
}

/*
 * core.json_decode_answer(text) -> value | nil, code, message
 * As json_decode, for what a server says: in it may be words of a command, and an escaped NUL among
 * them is U+FFFD.
 */
static int json_decode_answer(lua_State *L)
{
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    lua_settop(L, 1);
    lua_pushlightuserdata(L, NULL);
    if (memmem(text, length, "\\u0000", 6) == NULL)
        return decode(L, text, length);
    char *copy = lua_newuserdata(L, length);
    memcpy(copy, text, length);
    cv_json_replace_nuls(copy, length);
    return decode(L, copy, length);
}

void cv_lua_add_json(lua_State *L)
{
    luaL_newmetatable(L, TREE_TYPE);
    lua_pushcfunction(L, tree_free);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    lua_pushcfunction(L, json_encode);
    lua_setfield(L, -2, "json_encode");
    lua_pushcfunction(L, json_decode);
    lua_setfield(L, -2, "json_decode");
    lua_pushcfunction(L, json_decode_answer);
    lua_setfield(L, -2, "json_decode_answer");
}
