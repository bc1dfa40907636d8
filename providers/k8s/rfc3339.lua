-- Times of the Kubernetes API: RFC 3339.

local compat = require "chamvi.sandbox.compat"

local rfc3339 = {}

local MONTH_DAYS = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 }

-- Days from 1970-01-01, in the Gregorian calendar.
local function days(year, month, day)
    local before = year - 1
    local count = before * 365 + math.floor(before / 4) - math.floor(before / 100) + math.floor(before / 400) - 719162
    for earlier = 1, month - 1 do
        count = count + MONTH_DAYS[earlier]
    end
    if month > 2 and (year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)) then
        count = count + 1
    end
    return count + day - 1
end

-- Seconds east of UTC.
local function offset(text)
    if text == "Z" or text == "z" then
        return 0
    end
    local sign, hours, minutes = text:match("^([+-])(%d%d):(%d%d)$")
    if not sign then
        return nil
    end
    return (sign == "-" and -1 or 1) * (hours * 3600 + minutes * 60)
end

--- Epoch milliseconds; nil when the text is no time. A fraction of a second is dropped.
---@param text any
---@return integer?
function rfc3339.parse(text)
    if type(text) ~= "string" then
        return nil
    end
    local year, month, day, hour, minute, second, rest =
        text:match("^(%d%d%d%d)%-(%d%d)%-(%d%d)[Tt](%d%d):(%d%d):(%d%d)(.+)$")
    if not year then
        return nil
    end
    local east = offset((rest:gsub("^%.%d+", "")))
    year, month, day = tonumber(year), tonumber(month), tonumber(day)
    hour, minute, second = tonumber(hour), tonumber(minute), tonumber(second)
    if not east or month < 1 or month > 12 or day < 1 or day > 31 or hour > 23 or minute > 59 or second > 60 then
        return nil
    end
    return compat.integer((days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - east) * 1000)
end

return rfc3339
