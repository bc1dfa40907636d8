-- One source for Lua 5.4 and LuaJIT: what either has may be named, with a fallback for the other.
std = "lua54+luajit"
max_line_length = 120
self = false -- a method need not use it
exclude_files = { "build", "build-*" }

files["spec"] = { std = "+busted" }
-- Of hosts, which are there only inside them.
read_globals = { "vim" }
-- Definitions for the language server: functions without bodies.
files["types"] = { ignore = { "211", "212", "241" } }
