-- For a checkout: luarocks make rockspec/chamvi-sandbox-scm-1.rockspec
-- Builds for the Lua of LuaRocks: 5.4, or LuaJIT (luarocks --lua-version 5.1 with LuaJIT's headers).
rockspec_format = "3.0"
package = "chamvi-sandbox"
version = "scm-1"
source = { url = "git+file://." }
description = {
    summary = "Workspaces of git repositories in which a program runs commands",
    labels = { "sandbox", "process", "git", "async" },
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.1, < 5.5" }
build = {
    type = "cmake",
    variables = {
        CHAMVI_LUA_INCLUDE_DIR = "$(LUA_INCDIR)",
        CHAMVI_INSTALL_LUADIR = "$(LUADIR)",
        CHAMVI_INSTALL_LIBDIR = "$(LIBDIR)",
    },
}
