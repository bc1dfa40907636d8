-- Takes secrets out of the words of servers and programs, which may repeat what they were given.

--- A text without them. Longer ones go first, since a shorter one may be a part of them.
---@param text string
---@param secrets string[] empty ones count for nothing
---@return string
return function(text, secrets)
    local sorted = {}
    for _, secret in ipairs(secrets) do
        if secret ~= "" then
            table.insert(sorted, secret)
        end
    end
    table.sort(sorted, function(left, right)
        return #left > #right
    end)
    for _, secret in ipairs(sorted) do
        text = text:gsub((secret:gsub("%p", "%%%0")), "***")
    end
    return text
end
