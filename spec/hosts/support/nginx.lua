-- Debian's nginx with lua-nginx-module, for specs: with a configuration, a folder and processes of its own.

local scratch = require "spec.support.scratch"

local nginx = {}

local CONFIGURATION = [[
daemon off;
pid %(folder)/nginx.pid;
error_log %(folder)/error.log notice;
worker_processes %(workers);
load_module %(modules)/ndk_http_module.so;
load_module %(modules)/ngx_http_lua_module.so;
%(main)
events { worker_connections %(connections); }
http {
    access_log off;
    client_body_temp_path %(folder)/temp/body;
    proxy_temp_path %(folder)/temp/proxy;
    fastcgi_temp_path %(folder)/temp/fastcgi;
    uwsgi_temp_path %(folder)/temp/uwsgi;
    scgi_temp_path %(folder)/temp/scgi;
    lua_package_path '%(library)/?.lua;%(library)/?/init.lua;%(project)/?.lua;;';
    lua_package_cpath '%(library)/?.so;;';
    %(http)
}
]]

--- The built library for nginx's Lua, of the same build as that of the spec's.
---@return string folder
function nginx.library()
    local core = assert(package.searchpath("chamvi.sandbox.core", package.cpath))
    local stages = assert(core:match("^(.*)/[^/]+/chamvi/sandbox/core%.so$"))
    return scratch.shell("cd " .. scratch.quote(stages) .. " && pwd -P"):gsub("\n$", "") .. "/luajit"
end

--- Writes the configuration of an nginx that keeps to a folder.
---@param folder string
---@param given { http: string, workers?: integer, connections?: integer, main?: string, library?: string } directives;
---   `library` is where the library lies, default: where it was built
function nginx.configure(folder, given)
    local values = {
        folder = folder,
        workers = given.workers or 1,
        connections = given.connections or 4096,
        modules = scratch.shell("/usr/sbin/nginx -V"):match("%-%-modules%-path=(%S+)"),
        main = given.main or "",
        library = given.library or nginx.library(),
        project = scratch.shell("pwd"):gsub("\n$", ""),
        http = given.http,
    }
    scratch.shell(("mkdir -p %s/temp && chmod 711 %s %s/temp"):format(folder, folder, folder))
    scratch.write(folder .. "/nginx.conf", (CONFIGURATION:gsub("%%%((%a+)%)", values)))
end

--- The shell's command that runs the nginx of a folder.
---@param folder string
---@return string
function nginx.command(folder)
    return ("/usr/sbin/nginx -p %s -e %s/error.log -c %s/nginx.conf"):format(folder, folder, folder)
end

--- Waits for at most 30 s until `condition()` gives something, which is returned; `what` names it in the error.
---@param condition fun(): any
---@param what string
---@return any
function nginx.wait_until(condition, what)
    for _ = 1, 1200 do
        local value = condition()
        if value then
            return value
        end
        scratch.shell("sleep 0.025")
    end
    error("not within 30 s: " .. what, 2)
end

--- What the log tells of problems: lines of level `warn` and above, and all that name the library.
---@param folder string
---@return string[]
function nginx.complaints(folder)
    local lines = {}
    for line in (scratch.read(folder .. "/error.log") or ""):gmatch("[^\n]+") do
        if line:find("chamvi", 1, true) or not line:find("^%S+ %S+ %[%l+%]") or line:find("%[warn%]")
            or line:find("%[error%]") or line:find("%[crit%]") or line:find("%[alert%]") or line:find("%[emerg%]") then
            table.insert(lines, line)
        end
    end
    return lines
end

return nginx
