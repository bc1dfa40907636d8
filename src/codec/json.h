/*
 * JSON text (RFC 8259) as a tree, by cJSON: the only code that knows that library.
 *
 * Text from outside is bounded in length by the caller and in depth here. A tree is freed as a
 * whole by cv_json_free; values inside it are borrowed.
 */
#ifndef CV_CODEC_JSON_H
#define CV_CODEC_JSON_H

#include <stdbool.h>
#include <stddef.h>

#define CV_JSON_DEPTH_MAX 200

struct cJSON;

enum cv_json_type {
    CV_JSON_NULL,
    CV_JSON_FALSE,
    CV_JSON_TRUE,
    CV_JSON_NUMBER,
    CV_JSON_STRING,
    CV_JSON_ARRAY,
    CV_JSON_OBJECT,
};

/* Parses the whole text, or NULL: malformed, too deep, a NUL in a string, or no memory. */
struct cJSON *cv_json_parse(const char *text, size_t length);
/* A new value of the type; NULL without memory. Numbers and strings have constructors of their own.
 */
struct cJSON *cv_json_new(enum cv_json_type type);
struct cJSON *cv_json_new_number(double number);
/* Copies the NUL-terminated string. */
struct cJSON *cv_json_new_string(const char *string);
/* Adds `value` at the end, under `key` in an object; takes it over. False, with it freed, without
 * memory. */
bool cv_json_add(struct cJSON *parent, const char *key, struct cJSON *value);
/* The text without white space, to be freed by cv_json_free_text; NULL without memory. */
char *cv_json_print(const struct cJSON *value);
/* NULL is fine, here and below. */
void cv_json_free_text(char *text);
void cv_json_free(struct cJSON *value);

enum cv_json_type cv_json_type(const struct cJSON *value);
double cv_json_number(const struct cJSON *value);
const char *cv_json_string(const struct cJSON *value);
/* The first element of an array or object, and the one behind another; NULL at the end. */
const struct cJSON *cv_json_first(const struct cJSON *value);
const struct cJSON *cv_json_next(const struct cJSON *element);
/* The key of an element of an object. */
const char *cv_json_key(const struct cJSON *element);

#endif
