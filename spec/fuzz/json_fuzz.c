/*
 * JSON text. What is accepted is printed, value by value as src/lua/json.c does, and parsed again:
 * the same tree, and from then on the same text. The input's bytes are also printed as one string.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codec/json.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct cJSON *copy(const struct cJSON *value, int depth)
{
    enum cv_json_type type = cv_json_type(value);
    if (type == CV_JSON_NUMBER) {
        REQUIRE(isfinite(cv_json_number(value)));
        return cv_json_new_number(cv_json_number(value));
    }
    if (type == CV_JSON_STRING)
        return cv_json_new_string(cv_json_string(value), strlen(cv_json_string(value)));
    struct cJSON *result = cv_json_new(type);
    if (type != CV_JSON_ARRAY && type != CV_JSON_OBJECT)
        return result;
    REQUIRE(depth < CV_JSON_DEPTH_MAX);
    for (const struct cJSON *element = cv_json_first(value); element != NULL;
         element = cv_json_next(element)) {
        const char *key = type == CV_JSON_OBJECT ? cv_json_key(element) : NULL;
        REQUIRE(cv_json_add(result, key, copy(element, depth + 1)));
    }
    return result;
}

static void require_same(const struct cJSON *left, const struct cJSON *right)
{
    REQUIRE(cv_json_type(left) == cv_json_type(right));
    if (cv_json_type(left) == CV_JSON_NUMBER) {
        double number = cv_json_number(left);
        REQUIRE(number == cv_json_number(right));
        REQUIRE(signbit(number) == signbit(cv_json_number(right)));
    } else if (cv_json_type(left) == CV_JSON_STRING) {
        REQUIRE(strcmp(cv_json_string(left), cv_json_string(right)) == 0);
    } else if (cv_json_type(left) == CV_JSON_ARRAY || cv_json_type(left) == CV_JSON_OBJECT) {
        const struct cJSON *l = cv_json_first(left), *r = cv_json_first(right);
        for (; l != NULL && r != NULL; l = cv_json_next(l), r = cv_json_next(r)) {
            if (cv_json_type(left) == CV_JSON_OBJECT)
                REQUIRE(strcmp(cv_json_key(l), cv_json_key(r)) == 0);
            require_same(l, r);
        }
        REQUIRE(l == NULL && r == NULL);
    }
}

static char *print_copy(const struct cJSON *value)
{
    struct cJSON *other = copy(value, 0);
    char *text = cv_json_print(other);
    REQUIRE(text != NULL);
    cv_json_free(other);
    return text;
}

static void parse_and_print(const char *text, size_t length)
{
    struct cv_err err = {0};
    struct cJSON *value = cv_json_parse(text, length, &err);
    if (value == NULL) {
        REQUIRE(strcmp(err.code, "invalid_json") == 0);
        /* Then cJSON would have refused what the grammar allows. */
        REQUIRE(err.message[0] != '\0' && strcmp(err.message, "not enough memory") != 0);
        return;
    }
    char *printed = print_copy(value);
    struct cJSON *again = cv_json_parse(printed, strlen(printed), &err);
    REQUIRE(again != NULL);
    require_same(value, again);
    char *fixed = print_copy(again);
    REQUIRE(strcmp(printed, fixed) == 0);
    cv_json_free_text(printed);
    cv_json_free_text(fixed);
    cv_json_free(value);
    cv_json_free(again);
}

static void print_string(const char *bytes, size_t length)
{
    struct cv_err err = {0};
    struct cJSON *value = cv_json_new_string(bytes, length);
    char *text = cv_json_print(value);
    REQUIRE(text != NULL);
    struct cJSON *again = cv_json_parse(text, strlen(text), &err);
    if (length > 0 && memchr(bytes, '\0', length) != NULL)
        REQUIRE(again == NULL && strstr(err.message, "a NUL (\\u0000)") != NULL);
    else
        REQUIRE(again != NULL && cv_json_type(again) == CV_JSON_STRING);
    cv_json_free_text(text);
    cv_json_free(value);
    cv_json_free(again);
}

/* JSON stays what it is, and all that makes other text JSON is a NUL that was replaced. */
static void replace_nuls(const char *bytes, size_t length)
{
    struct cv_err err = {0};
    char *copy = malloc(length + 1);
    if (length > 0)
        memcpy(copy, bytes, length);
    cv_json_replace_nuls(copy, length);
    struct cJSON *value = cv_json_parse(bytes, length, &err);
    if (value != NULL) {
        REQUIRE(memcmp(bytes, copy, length) == 0);
        cv_json_free(value);
    } else {
        const bool nul = strstr(err.message, "a NUL (\\u0000)") != NULL;
        value = cv_json_parse(copy, length, &err);
        REQUIRE(value == NULL || nul);
        REQUIRE(value != NULL || strstr(err.message, "a NUL (\\u0000)") == NULL);
        cv_json_free(value);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A string of C, as Lua gives it; a copy, so that reading past its end is seen. */
    char *bytes = malloc(size + 1);
    if (size > 0)
        memcpy(bytes, data, size);
    parse_and_print(bytes, size);
    replace_nuls(bytes, size);
    bytes[size] = '\0';
    print_string(bytes, size);
    free(bytes);
    return 0;
}
