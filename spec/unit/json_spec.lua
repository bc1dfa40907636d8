-- JSON text and Lua values, the same on both Luas. What text is valid, and where one is wrong: spec/c/json_test.c.

local memory = require "spec.support.memory"
local native = require "chamvi.sandbox.core"
local scratch = require "spec.support.scratch"

local LUA = jit and "luajit" or "lua5.4"

local encode, decode, null = native.json_encode, native.json_decode, native.null

describe("json_decode", function()
    it("gives tables, strings, numbers, booleans and nulls", function()
        assert.same({ a = { 1, "x\n\195\164\240\159\152\128", true, false, null }, b = {} },
            decode('{"a":[1,"x\\n\\u00e4\\ud83d\\ude00",true,false,null],"b":{}}'))
        assert.equal("x", decode('"x"'))
        assert.is_false((decode("false")))
    end)

    it("gives null as what it is told to", function()
        assert.equal(null, (decode("null")))
        assert.same({ io.stdout, { a = io.stdout } }, decode('[null,{"a":null}]', io.stdout))
    end)

    it("gives whole numbers as integers, as long as they are exact", function()
        for text, number in pairs({ ["1"] = 1, ["1.0"] = 1, ["1e3"] = 1000, ["-5"] = -5 }) do
            assert.equal(tostring(number), tostring((decode(text))))
        end
        assert.equal("9007199254740991", ("%d"):format((decode("9007199254740991"))))
        if math.type then
            assert.equal("integer", math.type((decode("9007199254740991"))))
            assert.equal("float", math.type((decode("9007199254740992"))))
            assert.equal("float", math.type((decode("1.5"))))
        end
        assert.equal(1.5, (decode("1.5")))
    end)

    it("returns what is wrong", function()
        local value, code, message = decode("[1,]")
        assert.is_nil(value)
        assert.equal("invalid_json", code)
        assert.equal("at byte 4: expected a value", message)
    end)

    it("takes a NUL in a server's answer for U+FFFD", function()
        local text = [[{"message":"x\u0000y","\u0000":"\\u0000\u0000\\\u0000"}]]
        assert.is_nil((decode(text)))
        assert.same({ message = "x\239\191\189y", ["\239\191\189"] = "\\u0000\239\191\189\\\239\191\189" },
            native.json_decode_answer(text))
        assert.same({ a = null }, native.json_decode_answer('{"a":null}'))
        local _, code, message = native.json_decode_answer([=[["\u0000",\u0000]]=])
        assert.same({ "invalid_json", "at byte 11: expected a value" }, { code, message })
    end)

    it("reads deep text as deep as json_encode writes it, and no deeper", function()
        local text = ("["):rep(200) .. ("]"):rep(200)
        local value = assert(decode(text))
        assert.is_nil((decode("[" .. text .. "]")))
        -- An empty table is an object.
        assert.equal((text:gsub("%[%]", "{}")), encode(value))
        assert.is_nil((encode({ value })))
    end)

    -- A sanitizer keeps freed memory for a while.
    it("returns memory for memory #unsanitized", function()
        local text = "[" .. ('{"key":"value"},'):rep(1000) .. "1]"
        local leaked = memory.leaked(function()
            for _ = 1, 100 do
                assert(encode((decode(text))))
                assert.is_nil((decode(text .. "x")))
                assert.is_nil((encode({ (decode(text)), print })))
            end
        end)
        assert.is_true(leaked < 1024 * 1024, leaked)
    end)
end)

describe("json_encode", function()
    it("gives the same text for equal values: keys in the order of their bytes", function()
        local forwards, backwards = {}, {}
        for index = 1, 100 do
            forwards["key" .. index] = index
            backwards["key" .. 101 - index] = 101 - index
        end
        assert.equal(encode(forwards), encode(backwards))
        assert.equal('{"":1,"A":2,"a":3,"aa":4,"\195\164":5}',
            encode({ aa = 4, a = 3, A = 2, [""] = 1, ["\195\164"] = 5 }))
    end)

    it("prints numbers exactly, whole ones without a point", function()
        local numbers = {
            ["1"] = 1,
            ["-7"] = -7,
            ["1000000000000000"] = 1e15,
            ["9007199254740991"] = 9007199254740991,
            ["0.1"] = 0.1,
            ["0.30000000000000004"] = 0.1 + 0.2,
            ["1e+300"] = 1e300,
        }
        for text, number in pairs(numbers) do
            assert.equal(text, encode(number))
            assert.equal(number, (decode(text)))
        end
        assert.equal("3", encode(6 / 2))
        if math.type then
            assert.equal("9223372036854775807", encode(math.maxinteger))
            assert.equal("-9223372036854775808", encode(math.mininteger))
        end
    end)

    it("takes an empty table for an object, unless its metatable says otherwise", function()
        assert.equal("{}", encode({}))
        assert.equal('{"a":[]}', encode({ a = setmetatable({}, { __jsontype = "array" }) }))
        assert.equal("{}", encode(setmetatable({}, { __jsontype = "object" })))
        assert.equal("[1]", encode(setmetatable({ 1 }, { __jsontype = "object" })))
        assert.equal("{}", encode(setmetatable({}, {})))
    end)

    it("takes strings of any bytes", function()
        assert.equal('"a\\u0000\239\191\189b"', encode("a\0\255b"))
        assert.equal('"\\"\\\\\\n\127\195\164"', encode('"\\\n\127\195\164'))
    end)

    it("takes the null light userdata for null, and what it is told to", function()
        assert.equal("null", encode(null))
        assert.equal("[null,null]", encode({ null, io.stdout }, io.stdout))
        local mark = {}
        assert.equal('{"a":null,"b":{}}', encode({ a = mark, b = {} }, mark))
        assert.is_nil((encode({ io.stdout })))
        assert.is_nil((encode(nil)))
        assert.is_nil((encode(nil, nil)))
    end)

    it("never calls metamethods", function()
        local function trap()
            error("called")
        end
        local meta = { __index = trap, __pairs = trap, __len = trap, __eq = trap, __tostring = trap }
        assert.equal('{"a":[1]}', encode(setmetatable({ a = setmetatable({ 1 }, meta) }, meta)))
    end)

    -- In a program of its own, whose heap is small: there the collector comes around all the time.
    it("survives finalizers that change what is being encoded", function()
        local program = [[
            local encode = require("chamvi.sandbox.core").json_encode
            local value, finalized, met = {}, 0, 0
            local function bait()
                local proxy = newproxy and newproxy(true) or setmetatable({}, {})
                getmetatable(proxy).__gc = function()
                    finalized = finalized + 1
                    for key in pairs(value) do
                        value[key] = nil
                    end
                end
                if not newproxy then
                    setmetatable(proxy, getmetatable(proxy)) -- marked only when __gc is there
                end
            end
            collectgarbage("setpause", 1)
            for _ = 1, 200 do
                for index = 1, 200 do
                    value["key" .. index] = { index }
                end
                bait()
                local before = finalized
                local ok, text, code = pcall(encode, value)
                met = met + finalized - before
                assert(not ok or text or code == "invalid_json")
            end
            assert(met > 0)
        ]]
        assert.equal("", scratch.shell(("%s -e %s"):format(LUA, scratch.quote(program))))
    end)
end)
