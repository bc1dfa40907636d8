-- JSON's null as the host at hand has it: `vim.NIL` in Neovim, else the NULL light userdata, which is equal to
-- `cjson.null` and `ngx.null`.

local native = require "chamvi.sandbox.core"

local vim = rawget(_G, "vim")

return type(vim) == "table" and vim.NIL or native.null
