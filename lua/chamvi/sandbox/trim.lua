-- A text without the white space around it.
--
-- Here as in every pattern for a text that a stranger wrote: no repetition that a match can begin anywhere in and that
-- something else must follow. "%s+$" tries each blank of a run in turn, to the end of the run.

---@param text string
---@return string
return function(text)
    local first = text:find("%S")
    return first and text:match("^.*%S", first) or ""
end
