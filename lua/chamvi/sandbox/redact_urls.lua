-- Takes out of git's words what may be a password in a URL. Rather too much than too little: git repeats URLs as they
-- were configured, so that a password may hold what no URL may.

--- The text with *** for user info and queries of URLs.
---@param text string
---@return string
return function(text)
    local taken_for_host = {} -- what libcurl then says a second time

    -- Of a part of the text, from its first URL on: user info, which goes up to the last @, and a query, but for the
    -- signs that end the sentence. Nil where there is no URL.
    local function redact(part)
        local _, last = part:find("://", 1, true)
        if not last then
            return nil
        end
        local rest = part:sub(last + 1)
        local user_info, address = rest:match("^(.*)@(.*)$")
        if user_info then
            rest = "***@" .. address
            local host = user_info:match("^([^/?#]*)[/?#]")
            for name in (host or ""):gmatch("[^:@]+") do
                taken_for_host[name] = "***"
            end
        end
        local before, after = rest:match("^([^?]*[?]).*[^'\":;,.)>]([':;,.)>\"]*)$")
        return part:sub(1, last) .. (before and before .. "***" .. after or rest)
    end

    text = text:gsub("'[^'\n]*'", redact) -- git's quotes; a password may have blanks
    text = text:gsub("%S+", redact) -- or a quote
    return (text:gsub("[^%s:']+", taken_for_host))
end
