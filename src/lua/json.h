/* JSON text and Lua values. */
#ifndef CV_LUA_JSON_H
#define CV_LUA_JSON_H

#include <lua.h>

/*
 * Adds json_encode and json_decode to the table on top of the stack; both return nil,
 * "invalid_json" and a message for what they refuse. Metamethods are never called.
 *
 * json_encode(value [, null]) -> text. A table with an element 1 is an array, and so is an empty
 * one whose metatable has __jsontype = "array" (as in dkjson); any other is an object, with its
 * keys in the order of their bytes, so that equal values give equal text. Whole numbers are printed
 * as such on both Luas. Null is the light userdata NULL, which cjson.null and ngx.null are too, and
 * what `null` is. Refused: gaps in a list, lists with other keys, keys that are no UTF-8 strings or
 * hold a NUL, numbers that are not finite, functions and the like, and (codec/json.h) what is
 * nested too deeply, as a table that holds itself, or takes too much memory.
 *
 * json_decode(text [, null]) -> value. A null becomes `null`, by default the light userdata NULL. A
 * whole number below 2^53 is an integer on Lua 5.4.
 */
void cv_lua_add_json(lua_State *L);

#endif
