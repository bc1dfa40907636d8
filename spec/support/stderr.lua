-- What a function writes to io.stderr.

--- Calls `fn` and gives the lines that it wrote there; raises what it raises.
---@param fn function
---@return string[] lines
-- luacheck: globals io.stderr
return function(fn)
    local original, written = io.stderr, {}
    io.stderr = {
        write = function(_, ...)
            table.insert(written, table.concat({ ... }))
        end,
    }
    local ok, err = pcall(fn)
    io.stderr = original
    if not ok then
        error(err, 0)
    end
    local lines = {}
    for line in table.concat(written):gmatch("[^\n]+") do
        table.insert(lines, line)
    end
    return lines
end
