local compat = require "chamvi.sandbox.compat"
local native = require "chamvi.sandbox.core"
local trim = require "chamvi.sandbox.trim"

local MAX_BYTES = 512

--- What an engine or an API server says in the body of a failure, or whatever a body is, in one line.
---@param answer chamvi.HttpResponse
---@param redact fun(text: string): string takes out what nobody may see
---@return string
return function(answer, redact)
    local body = answer.body or ""
    local decoded = native.json_decode_answer(body)
    local message = type(decoded) == "table" and type(decoded.message) == "string" and decoded.message or body
    local words = trim((redact(message):gsub("%s+", " ")))
    return words == "" and "it said nothing" or compat.cut(words, MAX_BYTES)
end
