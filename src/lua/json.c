/*
 * JSON text and Lua values, over src/codec/json.
 *
 * A tree belongs to a userdata from the moment it exists, and every new value is added to the tree
 * before Lua is called again, so that a raise at any point leaks nothing.
 */
#include "lua/json.h"

#include <math.h>
#include <string.h>

#include "codec/json.h"
#include "lua/compat.h"

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

/* Where a new value goes: the root of the tree, or an element of `parent`. */
struct place {
    struct tree *tree;
    struct cJSON *parent;
    const char *key;
};

static const char no_memory[] = "not enough memory";

/* Puts the value into its place. NULL, or what is wrong. */
static const char *put(const struct place *place, struct cJSON *value)
{
    if (value == NULL)
        return no_memory;
    if (place->parent != NULL)
        return cv_json_add(place->parent, place->key, value) ? NULL : no_memory;
    place->tree->root = value;
    return NULL;
}

static const char *encode(lua_State *L, int index, const struct place *place, int depth);

/* The string at `index`; NULL when it is none or holds a NUL, which cJSON can't carry. */
static const char *plain_string(lua_State *L, int index)
{
    size_t length;
    if (lua_type(L, index) != LUA_TSTRING)
        return NULL;
    const char *string = lua_tolstring(L, index, &length);
    return strlen(string) == length ? string : NULL;
}

static const char *encode_array(lua_State *L, int index, struct cJSON *array, int depth)
{
    struct place element = {.parent = array};
    size_t count = cv_lua_rawlen(L, index);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(L, index, (int)i);
        const char *wrong = encode(L, lua_gettop(L), &element, depth + 1);
        lua_pop(L, 1);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

static const char *encode_object(lua_State *L, int index, struct cJSON *object, int depth)
{
    struct place element = {.parent = object};
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        element.key = plain_string(L, -2);
        const char *wrong = element.key == NULL ? "a key of an object must be a string without NUL"
                                                : encode(L, lua_gettop(L), &element, depth + 1);
        if (wrong != NULL) {
            lua_pop(L, 2);
            return wrong;
        }
        lua_pop(L, 1);
    }
    return NULL;
}

static const char *encode_table(lua_State *L, int index, const struct place *place, int depth)
{
    if (depth > CV_JSON_DEPTH_MAX)
        return "the value is nested too deeply";
    luaL_checkstack(L, 8, NULL);
    bool array = cv_lua_rawlen(L, index) > 0;
    struct cJSON *value = cv_json_new(array ? CV_JSON_ARRAY : CV_JSON_OBJECT);
    const char *wrong = put(place, value);
    if (wrong != NULL)
        return wrong;
    return array ? encode_array(L, index, value, depth) : encode_object(L, index, value, depth);
}

static const char *encode(lua_State *L, int index, const struct place *place, int depth)
{
    const char *string;
    switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
        return put(place, cv_json_new(lua_toboolean(L, index) ? CV_JSON_TRUE : CV_JSON_FALSE));
    case LUA_TNUMBER:
        if (!isfinite(lua_tonumber(L, index)))
            return "a number must be finite";
        return put(place, cv_json_new_number(lua_tonumber(L, index)));
    case LUA_TSTRING:
        string = plain_string(L, index);
        return string == NULL ? "a string must not hold a NUL"
                              : put(place, cv_json_new_string(string));
    case LUA_TTABLE:
        return encode_table(L, index, place, depth);
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, index) == NULL)
            return put(place, cv_json_new(CV_JSON_NULL));
        return "a userdata has no JSON form";
    default:
        return "a function, userdata or nil has no JSON form";
    }
}

/* core.json_encode(value) -> text | nil, code, message */
static int json_encode(lua_State *L)
{
    luaL_checkany(L, 1);
    struct place place = {.tree = push_tree(L)};
    const char *wrong = encode(L, 1, &place, 0);
    if (wrong != NULL)
        return refuse(L, wrong);
    place.tree->text = cv_json_print(place.tree->root);
    if (place.tree->text == NULL)
        return refuse(L, no_memory);
    lua_pushstring(L, place.tree->text);
    return 1;
}

/* ---- text to Lua -------------------------------------------------------------------------- */

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
    if (number == floor(number) && fabs(number) <= 9007199254740992.0) {
        lua_pushinteger(L, (lua_Integer)number);
        return;
    }
#endif
    lua_pushnumber(L, number);
}

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
        lua_pushlightuserdata(L, NULL);
        break;
    }
}

/* core.json_decode(text) -> value | nil, code, message */
static int json_decode(lua_State *L)
{
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    struct tree *tree = push_tree(L);
    tree->root = cv_json_parse(text, length);
    if (tree->root == NULL)
        return refuse(L, "the text is no JSON, nested too deeply, or holds a NUL");
    push_value(L, tree->root);
    return 1;
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
}
