#include "codec/json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/json_scan.h"
#include "output/utf8.h"

/* ---- Text to tree ------------------------------------------------------------------------- */

static int by_bytes(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int check_keys(const struct cJSON *object, struct cv_err *err)
{
    size_t count = 0;
    for (const struct cJSON *element = object->child; element != NULL; element = element->next)
        count++;
    if (count < 2)
        return 0;
    const char **keys = malloc(count * sizeof *keys);
    if (keys == NULL)
        return cv_err_set(err, "invalid_json", "not enough memory");
    count = 0;
    for (const struct cJSON *element = object->child; element != NULL; element = element->next)
        keys[count++] = element->string;
    qsort(keys, count, sizeof *keys, by_bytes);
    int result = 0;
    for (size_t i = 1; i < count && result == 0; i++) {
        if (strcmp(keys[i - 1], keys[i]) == 0)
            result =
                cv_err_set(err, "invalid_json", "an object has the key \"%.100s\" twice", keys[i]);
    }
    free(keys);
    return result;
}

/* What the grammar does not say. */
static int check_tree(const struct cJSON *value, struct cv_err *err)
{
    if (cJSON_IsNumber(value) && !isfinite(value->valuedouble))
        return cv_err_set(err, "invalid_json", "a number is too large");
    if (cJSON_IsObject(value) && check_keys(value, err) != 0)
        return -1;
    for (const struct cJSON *element = value->child; element != NULL; element = element->next) {
        if (check_tree(element, err) != 0)
            return -1;
    }
    return 0;
}

struct cJSON *cv_json_parse(const char *text, size_t length, struct cv_err *err)
{
    size_t values;
    if (cv_json_scan(text, length, &values, err) != 0)
        return NULL;
    if (length > CV_JSON_COST_MAX || values > (CV_JSON_COST_MAX - length) / CV_JSON_VALUE_COST) {
        cv_err_set(err, "invalid_json", "the text has too many values");
        return NULL;
    }
    cJSON *value = cJSON_ParseWithLengthOpts(text, length, NULL, 0);
    if (value == NULL) {
        cv_err_set(err, "invalid_json", "not enough memory");
        return NULL;
    }
    if (check_tree(value, err) != 0) {
        cJSON_Delete(value);
        return NULL;
    }
    return value;
}

void cv_json_replace_nuls(char *text, size_t length)
{
    static const char nul[] = "\\u0000";
    const char *end = text + length;
    char *at = text;
    /* A backslash begins an escape wherever JSON has one. */
    while ((at = memchr(at, '\\', (size_t)(end - at))) != NULL && end - at >= 2) {
        if ((size_t)(end - at) >= sizeof nul - 1 && memcmp(at, nul, sizeof nul - 1) == 0)
            memcpy(at, "\\ufffd", sizeof nul - 1);
        at += 2;
    }
}

enum cv_json_type cv_json_type(const struct cJSON *value)
{
    if (cJSON_IsFalse(value))
        return CV_JSON_FALSE;
    if (cJSON_IsTrue(value))
        return CV_JSON_TRUE;
    if (cJSON_IsNumber(value))
        return CV_JSON_NUMBER;
    if (cJSON_IsString(value))
        return CV_JSON_STRING;
    if (cJSON_IsArray(value))
        return CV_JSON_ARRAY;
    if (cJSON_IsObject(value))
        return CV_JSON_OBJECT;
    return CV_JSON_NULL;
}

double cv_json_number(const struct cJSON *value)
{
    return value->valuedouble;
}

const char *cv_json_string(const struct cJSON *value)
{
    return value->valuestring;
}

const struct cJSON *cv_json_first(const struct cJSON *value)
{
    return value->child;
}

const struct cJSON *cv_json_next(const struct cJSON *element)
{
    return element->next;
}

const char *cv_json_key(const struct cJSON *element)
{
    return element->string;
}

/* ---- Tree to text ------------------------------------------------------------------------- */

struct cJSON *cv_json_new(enum cv_json_type type)
{
    switch (type) {
    case CV_JSON_FALSE:
        return cJSON_CreateFalse();
    case CV_JSON_TRUE:
        return cJSON_CreateTrue();
    case CV_JSON_ARRAY:
        return cJSON_CreateArray();
    case CV_JSON_OBJECT:
        return cJSON_CreateObject();
    default:
        return cJSON_CreateNull();
    }
}

/* The text with the locale's decimal point, of however many bytes, made a dot. */
static void use_dot(char *text)
{
    char *to = text;
    bool in_point = false;
    for (const char *from = text; *from != '\0'; from++) {
        bool point = strchr("0123456789eE+-", *from) == NULL;
        if (!point)
            *to++ = *from;
        else if (!in_point)
            *to++ = '.';
        in_point = point;
    }
    *to = '\0';
}

/* cJSON's own form takes two doubles for the same that differ in the last bit. */
struct cJSON *cv_json_new_number(double number)
{
    char text[64];
    if (fabs(number) < 1e21 && number == floor(number)) {
        snprintf(text, sizeof text, "%.0f", number);
        return cJSON_CreateRaw(text);
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    use_dot(text);
    return cJSON_CreateRaw(text);
}

struct cJSON *cv_json_new_integer(int64_t integer)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, integer);
    return cJSON_CreateRaw(text);
}

/* Writes one character of a string, and returns what is behind it. */
static char *escape(char *to, const uint8_t *character, size_t length, bool valid)
{
    if (!valid)
        return (char *)memcpy(to, "\xef\xbf\xbd", 3) + 3;
    if (*character < 0x20)
        return to + sprintf(to, "\\u%04x", *character);
    if (*character == '"' || *character == '\\')
        *to++ = '\\';
    return (char *)memcpy(to, character, length) + length;
}

struct cJSON *cv_json_new_string(const char *bytes, size_t length)
{
    const uint8_t *from = (const uint8_t *)bytes, *end = from + length;
    if (memchr(bytes, '\0', length) == NULL && (length == 0 || cv_utf8_run(from, length) == length))
        return cJSON_CreateString(bytes);

    /* cJSON can't carry this one. */
    char *text = malloc(6 * length + 3), *to = text;
    if (text == NULL)
        return NULL;
    *to++ = '"';
    while (from < end) {
        size_t size;
        enum cv_utf8 kind = cv_utf8_first(from, (size_t)(end - from), &size);
        to = escape(to, from, size, kind == CV_UTF8_WHOLE);
        from += size;
    }
    memcpy(to, "\"", 2);
    struct cJSON *value = cJSON_CreateRaw(text);
    free(text);
    return value;
}

bool cv_json_add(struct cJSON *parent, const char *key, struct cJSON *value)
{
    bool added =
        value != NULL && (cJSON_IsObject(parent) ? cJSON_AddItemToObject(parent, key, value)
                                                 : cJSON_AddItemToArray(parent, value));
    if (!added)
        cJSON_Delete(value);
    return added;
}

char *cv_json_print(const struct cJSON *value)
{
    return cJSON_PrintUnformatted(value);
}

void cv_json_free_text(char *text)
{
    cJSON_free(text);
}

void cv_json_free(struct cJSON *value)
{
    cJSON_Delete(value);
}
