-- For a checkout: luarocks make rockspec/chamvi-sandbox-scm-1.rockspec
--
-- Builds for the Lua that LuaRocks is told: 5.4, or 5.1, which means LuaJIT. The supervisor is installed
-- beside the C module, which finds it there.
rockspec_format = "3.0"
package = "chamvi-sandbox"
version = "scm-1"
-- The project has no public address yet, and `luarocks make` needs none: it builds where it is called.
source = { url = "git+file://." }
description = {
    summary = "Workspaces of git repositories in which a program runs commands",
    labels = { "sandbox", "process", "git", "async" },
}
supported_platforms = { "linux" }
-- Of these, CMake refuses 5.2 and 5.3.
dependencies = { "lua >= 5.1, < 5.5" }
-- The build finds its headers by pkg-config.
external_dependencies = { CJSON = { library = "cjson" } }
build = {
    type = "cmake",
    variables = {
        CMAKE_INSTALL_PREFIX = "$(PREFIX)",
        CHAMVI_LUA_INCLUDE_DIR = "$(LUA_INCDIR)",
        CHAMVI_INSTALL_LUADIR = "$(LUADIR)",
        CHAMVI_INSTALL_LIBDIR = "$(LIBDIR)",
        CHAMVI_INSTALL_DATADIR = "$(PREFIX)",
    },
}
