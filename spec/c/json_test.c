#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/json.h"

static struct cJSON *parse(const char *text, struct cv_err *err)
{
    memset(err, 0, sizeof *err);
    return cv_json_parse(text, strlen(text), err);
}

static void assert_refused(const char *text, size_t length, const char *message)
{
    struct cv_err err = {0};
    assert_null(cv_json_parse(text, length, &err));
    assert_string_equal(err.code, "invalid_json");
    assert_string_equal(err.message, message);
}

/* `count` times `part` between two texts, on the heap. */
static char *repeated(const char *before, const char *part, size_t count, const char *after)
{
    size_t length = strlen(part);
    char *text = malloc(strlen(before) + count * length + strlen(after) + 1);
    char *to = text + strlen(strcpy(text, before));
    for (size_t i = 0; i < count; i++, to += length)
        memcpy(to, part, length);
    strcpy(to, after);
    return text;
}

static void accepts_json(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "10",
        "-1.5",
        "1e5",
        "1E+5",
        "1.25e-5",
        "\"\"",
        "[]",
        "{}",
        " \t\r\n[ 1 , 2 ] \n",
        "{ \"a\" : [ ] , \"b\" : { } }",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\"",
        "\"\\uD83D\\ude00\"",
        "\"\x7f \xc3\xa4 \xf0\x9f\x98\x80 \xef\xbf\xbf\"",
        "{\"\":0}",
        /* The same key in other objects, and one that only looks the same. */
        "{\"a\":{\"a\":1},\"A\":[{\"a\":1},{\"a\":2}]}",
        "123456789012345678901234567890123456789012345678901234567890123",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct cv_err err;
        struct cJSON *value = parse(texts[i], &err);
        if (value == NULL)
            fail_msg("%s: %s", texts[i], err.message);
        cv_json_free(value);
    }
}

static void refuses_all_else_and_says_where(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "at byte 1: expected a value, but the text ends"},
        {" ", "at byte 2: expected a value, but the text ends"},
        {"\xef\xbb\xbf"
         "1",
         "at byte 1: expected a value"},
        {"\x01"
         "1",
         "at byte 1: expected a value"},
        {"nul", "at byte 1: expected a value"},
        {"True", "at byte 1: expected a value"},
        {"NaN", "at byte 1: expected a value"},
        {"'a'", "at byte 1: expected a value"},
        {"1 2", "at byte 3: something follows the value"},
        {"{} x", "at byte 4: something follows the value"},
        {"nulls", "at byte 5: something follows the value"},
        {"1 // one", "at byte 3: something follows the value"},
        {"+1", "at byte 1: expected a value"},
        {".5", "at byte 1: expected a value"},
        {"-", "at byte 2: expected a digit, but the text ends"},
        {"-x", "at byte 2: expected a digit"},
        {"-.5", "at byte 2: expected a digit"},
        {"01", "at byte 2: something follows the value"},
        {"0x1", "at byte 2: something follows the value"},
        {"1.", "at byte 3: expected a digit, but the text ends"},
        {"1.e1", "at byte 3: expected a digit"},
        {"1e", "at byte 3: expected a digit, but the text ends"},
        {"1e+", "at byte 4: expected a digit, but the text ends"},
        {"1e999", "a number is too large"},
        {"[-1e999]", "a number is too large"},
        {"1234567890123456789012345678901234567890123456789012345678901234",
         "at byte 1: a number of more than 63 characters"},
        {"[", "at byte 2: expected a value, but the text ends"},
        {"[1",
         "at byte 3: expected a comma or the bracket that closes an array, but the text ends"},
        {"[1,]", "at byte 4: expected a value"},
        {"[,1]", "at byte 2: expected a value"},
        {"[1}", "at byte 3: expected a comma or the bracket that closes an array"},
        {"]", "at byte 1: expected a value"},
        {"{", "at byte 2: expected a string in double quotes, but the text ends"},
        {"{a:1}", "at byte 2: expected a string in double quotes"},
        {"{1:1}", "at byte 2: expected a string in double quotes"},
        {"{\"a\"}", "at byte 5: expected the colon behind a key"},
        {"{\"a\":}", "at byte 6: expected a value"},
        {"{\"a\":1,}", "at byte 8: expected a string in double quotes"},
        {"{\"a\":1",
         "at byte 7: expected a comma or the brace that closes an object, but the text ends"},
        {"\"a", "at byte 3: expected the quote that closes a string, but the text ends"},
        {"\"a\\", "at byte 3: expected an escape of \\u and four hexadecimal digits"},
        {"\"a\\\"", "at byte 5: expected the quote that closes a string, but the text ends"},
        {"\"\\x\"", "at byte 2: expected an escape of \\u and four hexadecimal digits"},
        {"\"\\u12g4\"", "at byte 2: expected an escape of \\u and four hexadecimal digits"},
        {"\"a\nb\"", "at byte 3: a control byte in a string; escape it, as in \\n"},
        {"\"\\ud800\"", "at byte 2: this is half of a surrogate pair"},
        {"\"\\ud800\\u0041\"", "at byte 2: this is half of a surrogate pair"},
        {"\"\\udc00\"", "at byte 2: this is half of a surrogate pair"},
        {"\"\\u0000\"", "at byte 2: a NUL (\\u0000) can't be part of a string here"},
        {"{\"a\\u0000\":1}", "at byte 4: a NUL (\\u0000) can't be part of a string here"},
        {"\"\xff\"", "at byte 2: this is not UTF-8"},
        {"\"a\xc3\"", "at byte 3: this is not UTF-8"},
        {"\"\xed\xa0\x80\"", "at byte 2: this is not UTF-8"},
        {"\"\xc0\x80\"", "at byte 2: this is not UTF-8"},
        {"{\"a\":1,\"b\":2,\"a\":1}", "an object has the key \"a\" twice"},
        {"[{\"x\":{\"a\":1,\"\\u0061\":2}}]", "an object has the key \"a\" twice"},
        {"{\"\":1,\"\":2}", "an object has the key \"\" twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i].text, strlen(cases[i].text), cases[i].message);
    assert_refused("\"a\0b\"", 5, "at byte 3: a control byte in a string; escape it, as in \\n");
    assert_refused("1\0", 2, "at byte 2: something follows the value");
}

/* Every prefix of a text that ends with its last byte is refused, at most at its end. */
static void refuses_every_prefix(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1.5e3,true,\"\\ud83d\\ude00\xc3\xa4\"],\"b\":{}}";
    for (size_t length = 0; length < sizeof text - 1; length++) {
        struct cv_err err = {0};
        size_t at;
        char *copy = malloc(length + 1); /* for the checkers: nothing is behind it */
        memcpy(copy, text, length);
        struct cJSON *value = cv_json_parse(copy, length, &err);
        free(copy);
        assert_null(value);
        assert_int_equal(sscanf(err.message, "at byte %zu: ", &at), 1);
        assert_in_range(at, 1, length + 1);
    }
}

static void limits_depth_and_memory(void **state)
{
    (void)state;
    struct cv_err err;
    char *open = repeated("", "[", CV_JSON_DEPTH_MAX, "");
    char *deep = repeated(open, "]", CV_JSON_DEPTH_MAX, "");
    struct cJSON *value = parse(deep, &err);
    assert_non_null(value);
    cv_json_free(value);
    char *deeper = repeated("[", deep, 1, "]");
    assert_refused(deeper, strlen(deeper), "at byte 201: the text is nested too deeply");
    char *objects = repeated("", "{\"a\":", 100000, "");
    assert_refused(objects, strlen(objects), "at byte 1001: the text is nested too deeply");

    size_t most = CV_JSON_COST_MAX / (CV_JSON_VALUE_COST + 2);
    char *many = repeated("[", "0,", most, "0]");
    assert_refused(many, strlen(many), "the text has too many values");
    char *fewer = repeated("[", "0,", most - 2, "0]");
    value = parse(fewer, &err);
    assert_non_null(value);
    cv_json_free(value);
    free(open);
    free(deep);
    free(deeper);
    free(objects);
    free(many);
    free(fewer);
}

static char *printed(struct cJSON *value)
{
    assert_non_null(value);
    char *text = cv_json_print(value);
    assert_non_null(text);
    cv_json_free(value);
    return text;
}

static void assert_prints(struct cJSON *value, const char *expected)
{
    char *text = printed(value);
    assert_string_equal(text, expected);
    cv_json_free_text(text);
}

static void prints_numbers_exactly(void **state)
{
    (void)state;
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {1732912345678.0, "1732912345678"},
        {1e15, "1000000000000000"},
        {9007199254740991.0, "9007199254740991"},
        {-9007199254740991.0, "-9007199254740991"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {-1.5, "-1.5"},
        {1e300, "1e+300"},
        {5e-324, "4.94065645841247e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_prints(cv_json_new_number(cases[i].number), cases[i].text);
    assert_prints(cv_json_new_integer(INT64_MAX), "9223372036854775807");
    assert_prints(cv_json_new_integer(INT64_MIN), "-9223372036854775808");
}

static void prints_strings_of_any_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *text;
    } cases[] = {
        {"", 0, "\"\""},
        {"a\"\\/\n\x1f\xc3\xa4", 8, "\"a\\\"\\\\/\\n\\u001f\xc3\xa4\""},
        {"a\0b", 3, "\"a\\u0000b\""},
        {"\0\"\\\n\x7f", 5, "\"\\u0000\\\"\\\\\\u000a\x7f\""},
        {"\xff", 1, "\"\xef\xbf\xbd\""},
        {"\xc3\xa4\xc3", 3, "\"\xc3\xa4\xef\xbf\xbd\""},
        {"\xf0\x9f\x98x\xed\xa0\x80", 7, "\"\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_prints(cv_json_new_string(cases[i].bytes, cases[i].length), cases[i].text);
}

static void prints_trees(void **state)
{
    (void)state;
    struct cJSON *object = cv_json_new(CV_JSON_OBJECT), *array = cv_json_new(CV_JSON_ARRAY);
    assert_true(cv_json_add(array, NULL, cv_json_new(CV_JSON_NULL)));
    assert_true(cv_json_add(array, NULL, cv_json_new(CV_JSON_TRUE)));
    assert_true(cv_json_add(array, NULL, cv_json_new(CV_JSON_FALSE)));
    assert_true(cv_json_add(object, "z\"", array));
    assert_true(cv_json_add(object, "a", cv_json_new(CV_JSON_OBJECT)));
    assert_false(cv_json_add(object, "b", NULL));
    assert_prints(object, "{\"z\\\"\":[null,true,false],\"a\":{}}");
}

static void gives_what_the_text_says(void **state)
{
    (void)state;
    struct cv_err err;
    struct cJSON *value =
        parse("{\"k\\u00e9y\":[-1.5e2,\"\\ud83d\\ude00\\n\",null,true,{}]}", &err);
    assert_non_null(value);
    assert_int_equal(cv_json_type(value), CV_JSON_OBJECT);
    const struct cJSON *element = cv_json_first(value);
    assert_string_equal(cv_json_key(element), "k\xc3\xa9y");
    assert_null(cv_json_next(element));
    assert_int_equal(cv_json_type(element), CV_JSON_ARRAY);
    element = cv_json_first(element);
    assert_int_equal(cv_json_type(element), CV_JSON_NUMBER);
    assert_true(cv_json_number(element) == -150.0);
    element = cv_json_next(element);
    assert_int_equal(cv_json_type(element), CV_JSON_STRING);
    assert_string_equal(cv_json_string(element), "\xf0\x9f\x98\x80\n");
    element = cv_json_next(element);
    assert_int_equal(cv_json_type(element), CV_JSON_NULL);
    element = cv_json_next(element);
    assert_int_equal(cv_json_type(element), CV_JSON_TRUE);
    element = cv_json_next(element);
    assert_int_equal(cv_json_type(element), CV_JSON_OBJECT);
    assert_null(cv_json_first(element));
    assert_null(cv_json_next(element));
    cv_json_free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_json),           cmocka_unit_test(refuses_all_else_and_says_where),
        cmocka_unit_test(refuses_every_prefix),   cmocka_unit_test(limits_depth_and_memory),
        cmocka_unit_test(prints_numbers_exactly), cmocka_unit_test(prints_strings_of_any_bytes),
        cmocka_unit_test(prints_trees),           cmocka_unit_test(gives_what_the_text_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
