-- What os.getenv says, for specs.

--- Calls `fn` with only these variables in the environment, as far as Lua code can see; raises what it raises.
---@param variables table<string, string>
---@param fn function
-- luacheck: globals os.getenv
return function(variables, fn)
    local original = os.getenv
    os.getenv = function(name)
        return variables[name]
    end
    local ok, err = pcall(fn)
    os.getenv = original
    if not ok then
        error(err, 0)
    end
end
