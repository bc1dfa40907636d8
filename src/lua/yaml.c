/* A tree belongs to a userdata from the moment it exists, so that a raise at any point leaks none.
 */
#include "lua/yaml.h"

#include <math.h>

#include "codec/yaml.h"
#include "lua/args.h"
#include "lua/compat.h"

#define TREE_TYPE "chamvi.sandbox.yaml"

static int tree_free(lua_State *L)
{
    struct cv_yaml **root = luaL_checkudata(L, 1, TREE_TYPE);
    cv_yaml_free(*root);
    *root = NULL;
    return 0;
}

static void push_value(lua_State *L, const struct cv_yaml *value);

static void push_elements(lua_State *L, const struct cv_yaml *value)
{
    int place = 0;
    luaL_checkstack(L, 8, "YAML");
    lua_newtable(L);
    for (const struct cv_yaml *element = value->first; element != NULL; element = element->next) {
        if (value->type == CV_YAML_MAP)
            lua_pushlstring(L, element->key.bytes, element->key.length);
        push_value(L, element);
        if (value->type == CV_YAML_MAP)
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
static void push_value(lua_State *L, const struct cv_yaml *value)
{
    switch (value->type) {
    case CV_YAML_FALSE:
    case CV_YAML_TRUE:
        lua_pushboolean(L, value->type == CV_YAML_TRUE);
        break;
    case CV_YAML_NUMBER:
        push_number(L, value->number);
        break;
    case CV_YAML_STRING:
        lua_pushlstring(L, value->text.bytes, value->text.length);
        break;
    case CV_YAML_LIST:
    case CV_YAML_MAP:
        push_elements(L, value);
        break;
    case CV_YAML_NULL:
        lua_pushvalue(L, 2);
        break;
    }
}

static int yaml_decode(lua_State *L)
{
    struct cv_err err;
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) {
        lua_pushlightuserdata(L, NULL);
        lua_replace(L, 2);
    }
    struct cv_yaml **root = lua_newuserdata(L, sizeof *root);
    *root = NULL;
    luaL_getmetatable(L, TREE_TYPE);
    lua_setmetatable(L, -2);
    *root = cv_yaml_parse(text, length, &err);
    if (*root == NULL)
        return cv_lua_push_error(L, &err);
    push_value(L, *root);
    return 1;
}

void cv_lua_add_yaml(lua_State *L)
{
    luaL_newmetatable(L, TREE_TYPE);
    lua_pushcfunction(L, tree_free);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    lua_pushcfunction(L, yaml_decode);
    lua_setfield(L, -2, "yaml_decode");
}
