-- Takes secrets out of the words of servers and programs, which may repeat what they were given: as it was, with some
-- of its characters or all of them escaped as JSON, URLs, Go and HTML do, also several times, or within Base64.

local base64 = require "chamvi.sandbox.base64"

local TEXT_MAX_BYTES = 65536 -- an error keeps much less
local LEVELS = 4 -- of escapes, JSON in JSON and the like; the text itself is the first
local BASE64_MIN_CHARACTERS = 6 -- of a secret within Base64: fewer are found in many a word

-- ---- Escapes -----------------------------------------------------------------------------------

local function utf8_char(digits, base)
    local code = tonumber(digits, base)
    if code < 0x80 then
        return string.char(code)
    elseif code < 0x800 then
        return string.char(0xC0 + math.floor(code / 64), 0x80 + code % 64)
    elseif code < 0x10000 then
        return string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
    end
end

local function byte(digits)
    return string.char(tonumber(digits, 16))
end

local LETTERS = { a = "\a", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", v = "\v" }
local ENTITIES = { lt = "<", gt = ">", amp = "&", quot = '"', apos = "'" }

-- What an escape looks like from its first character on, and what it means; nil when it is none.
local ESCAPES = {
    ["\\"] = {
        { "^\\u(%x%x%x%x)()", function(digits) return utf8_char(digits, 16) end },
        { "^\\x(%x%x)()", byte },
        { "^\\(%l)()", function(letter) return LETTERS[letter] end },
        { "^\\(%p)()", function(character) return character end },
    },
    ["%"] = { { "^%%(%x%x)()", byte } },
    ["+"] = { { "^(%+)()", function() return " " end } },
    ["&"] = {
        { "^&#(%d%d?%d?%d?%d?);()", function(digits) return utf8_char(digits, 10) end },
        { "^&#[xX](%x%x?%x?%x?);()", function(digits) return utf8_char(digits, 16) end },
        { "^&(%l+);()", function(name) return ENTITIES[name] end },
    },
}

-- The escape at a place: what it means, and where the text goes on.
local function read_escape(text, at)
    for _, escape in ipairs(ESCAPES[text:sub(at, at)]) do
        local found, after = text:match(escape[1], at)
        local meaning = found and escape[2](found)
        if meaning then
            return meaning, after
        end
    end
end

---@class chamvi.RedactorLevel
---@field text string
---@field first integer[] for each byte, where what it stands for begins in the original
---@field last integer[] and where that ends

---@param text string
---@return chamvi.RedactorLevel
local function original(text)
    local places = {}
    for at = 1, #text do
        places[at] = at
    end
    return { text = text, first = places, last = places }
end

-- The next level: without one layer of escapes. Nil when there are none.
local function unescape(level)
    local text, from, pieces, first, last = level.text, 1, {}, {}, {}
    local function add(piece, begin, stop)
        table.insert(pieces, piece)
        for index = 1, #piece do
            table.insert(first, level.first[begin or from + index - 1])
            table.insert(last, level.last[stop or from + index - 1])
        end
    end
    local at = text:find("[\\%%+&]")
    while at do
        local meaning, after = read_escape(text, at)
        if meaning then
            add(text:sub(from, at - 1))
            add(meaning, at, after - 1)
            from = after
        end
        at = text:find("[\\%%+&]", after or at + 1)
    end
    if from == 1 then
        return nil
    end
    add(text:sub(from))
    return { text = table.concat(pieces), first = first, last = last }
end

-- ---- Secrets -----------------------------------------------------------------------------------

-- What the Base64 of any text has in common that holds the secret at that offset, from a multiple of three.
local function within_base64(encode, secret, offset)
    local first, last = math.ceil(offset * 8 / 6), math.floor((offset + #secret) * 8 / 6)
    return encode(("\0"):rep(offset) .. secret):sub(first + 1, last)
end

-- All that gives a secret away.
local function forms_of(secrets)
    local forms, known = {}, { [""] = true }
    local function add(form)
        if not known[form] then
            known[form] = true
            table.insert(forms, form)
        end
    end
    for _, secret in ipairs(secrets) do
        add(secret)
        -- A secret that looks like escapes itself, of which a text has lost as many levels as it had.
        local level = original(secret)
        for _ = 2, LEVELS do
            level = unescape(level) or level
        end
        add(level.text)
        for offset = 0, 2 do
            for _, encode in pairs({ base64.encode, base64.encode_url }) do
                local form = within_base64(encode, secret, offset)
                if #form >= BASE64_MIN_CHARACTERS then
                    add(form)
                    add((form:gsub("%+", " "))) -- as `unescape` leaves it
                end
            end
        end
    end
    return forms
end

-- Marks the original's bytes that a form stands for.
local function mark(level, form, marked)
    local at, stop = level.text:find(form, 1, true)
    while at do
        for place = level.first[at], level.last[stop] do
            marked[place] = true
        end
        at, stop = level.text:find(form, at + 1, true)
    end
end

-- The text with *** for each run of marked bytes.
local function hide(text, marked)
    local pieces, from = {}, 1
    for at = 1, #text do
        if marked[at] and not marked[at - 1] then
            table.insert(pieces, text:sub(from, at - 1) .. "***")
        end
        if marked[at] then
            from = at + 1
        end
    end
    return table.concat(pieces) .. text:sub(from)
end

--- A function that gives a text without the secrets, and not more than the first 65,536 bytes of it.
---@param secrets string[] empty ones count for nothing
---@return fun(text: string): string
return function(secrets)
    local forms = forms_of(secrets)
    return function(text)
        text = text:sub(1, TEXT_MAX_BYTES)
        if #forms == 0 then
            return text
        end
        local marked = {}
        local level = original(text)
        for _ = 1, LEVELS do
            for _, form in ipairs(forms) do
                mark(level, form, marked)
            end
            level = unescape(level)
            if not level then
                break
            end
        end
        return next(marked) and hide(text, marked) or text
    end
end
