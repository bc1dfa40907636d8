-- A client of the user's own: what it raises or returns instead of an answer becomes an error.

local errors = require "chamvi.sandbox.errors"
local printed = require "chamvi.sandbox.printed"

-- What one of its functions gave, as that of the library's own client.
local function answer_of(operation, called, value, err, more)
    if not called then
        local message = ("the client's `%s` raised: %s"):format(operation, printed(value))
        return nil, errors.sandbox("engine_failed", message, { cause = value })
    end
    if value then
        return value, nil, more
    end
    if errors.is_error(err) then
        return nil, err, more
    end
    local words = err == nil and "it answered with neither a result nor an error" or printed(err)
    return nil, errors.sandbox("engine_failed", ("the client's `%s` failed: %s"):format(operation, words),
        { cause = err }), more
end

-- The same, where a result has to be a table.
local function table_of(operation, called, value, ...)
    if called and value and type(value) ~= "table" then
        local message = ("the client's `%s` gave a %s, not a table"):format(operation, type(value))
        return nil, errors.sandbox("engine_failed", message)
    end
    return answer_of(operation, called, value, ...)
end

---@param client chamvi.PodClient
---@return chamvi.PodClient
return function(client)
    local guarded = {}
    for _, operation in ipairs({ "create", "read", "list" }) do
        guarded[operation] = function(_, ...)
            return table_of(operation, pcall(client[operation], client, ...))
        end
    end
    function guarded:delete(...)
        return answer_of("delete", pcall(client.delete, client, ...))
    end
    function guarded:exec(...) -- a transport's callers do the same with it, and know what then is unknown
        return client:exec(...)
    end
    return guarded
end
