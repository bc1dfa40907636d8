#include "codec/json.h"

#include <cjson/cJSON.h>
#include <string.h>

/* cJSON ends a string at an escaped NUL and would lose what follows. */
static bool is_nul_escape(const char *text, const char *end)
{
    return end - text >= 6 && memcmp(text, "\\u0000", 6) == 0;
}

/* Not too deep (a tree is walked recursively, also by its callers) and without a NUL. */
static bool acceptable(const char *text, size_t length)
{
    const char *end = text + length;
    int depth = 0;
    bool in_string = false;
    for (; text < end; text++) {
        if (*text == '\0' || (in_string && is_nul_escape(text, end)))
            return false;
        if (in_string && *text == '\\')
            text++;
        else if (*text == '"')
            in_string = !in_string;
        else if (!in_string && (*text == '[' || *text == '{') && ++depth > CV_JSON_DEPTH_MAX)
            return false;
        else if (!in_string && (*text == ']' || *text == '}'))
            depth--;
    }
    return true;
}

static bool only_space(const char *text, const char *end)
{
    while (text < end && strchr(" \t\r\n", *text) != NULL && *text != '\0')
        text++;
    return text == end;
}

struct cJSON *cv_json_parse(const char *text, size_t length)
{
    const char *end = NULL;
    if (!acceptable(text, length))
        return NULL;
    cJSON *value = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    if (value != NULL && !only_space(end, text + length)) {
        cJSON_Delete(value);
        return NULL;
    }
    return value;
}

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

struct cJSON *cv_json_new_number(double number)
{
    return cJSON_CreateNumber(number);
}

struct cJSON *cv_json_new_string(const char *string)
{
    return cJSON_CreateString(string);
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
