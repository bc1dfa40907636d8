/*
 * JSON text (RFC 8259) as a tree, by cJSON: the only code that knows that library.
 *
 * A tree is freed as a whole by cv_json_free; values inside it are borrowed. What a tree takes in
 * memory is bounded, so that a short text, or a table that holds another one many times, can't use
 * all there is.
 */
#ifndef CV_CODEC_JSON_H
#define CV_CODEC_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* How deep arrays and objects may be nested: trees are walked recursively, also by their users. */
#define CV_JSON_DEPTH_MAX 200
/* The most that a tree may cost: CV_JSON_VALUE_COST for each value, and the bytes of its text. */
#define CV_JSON_COST_MAX ((size_t)64 * 1024 * 1024)
/* sizeof(cJSON) on 64-bit machines. */
#define CV_JSON_VALUE_COST 64

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

/* ---- Text to tree ------------------------------------------------------------------------- */

/*
 * Parses the whole text, strictly. NULL with `err` (invalid_json; the message says at which byte,
 * or which key) for what is no JSON, what json_scan.h names, an object with the same key twice, a
 * number past the range of a double, and a tree past CV_JSON_COST_MAX.
 */
struct cJSON *cv_json_parse(const char *text, size_t length, struct cv_err *err);

/*
 * Makes each escaped NUL of a JSON text U+FFFD, in place: for a text of others in which a
 * stranger's words may be, where one that can't be part of a string here must not spoil the whole.
 * What is no JSON stays none.
 */
void cv_json_replace_nuls(char *text, size_t length);

/* These six are for a tree from cv_json_parse. */
enum cv_json_type cv_json_type(const struct cJSON *value);
/* Finite. */
double cv_json_number(const struct cJSON *value);
/* UTF-8. */
const char *cv_json_string(const struct cJSON *value);
/* The first element of an array or object, and the one behind another; NULL at the end. */
const struct cJSON *cv_json_first(const struct cJSON *value);
const struct cJSON *cv_json_next(const struct cJSON *element);
/* The key of an element of an object, UTF-8. */
const char *cv_json_key(const struct cJSON *element);

/* ---- Tree to text ------------------------------------------------------------------------- */

/* A new value of the type; NULL without memory. Numbers and strings have constructors of their own.
 */
struct cJSON *cv_json_new(enum cv_json_type type);
/* A finite number, as the shortest text that is read as the same one; a whole one below 10^21 has
 * no exponent. */
struct cJSON *cv_json_new_number(double number);
struct cJSON *cv_json_new_integer(int64_t integer);
/* Copies the bytes. A NUL is escaped, and what is no UTF-8 becomes U+FFFD, as in the output of a
 * command. */
struct cJSON *cv_json_new_string(const char *bytes, size_t length);
/* Adds `value` at the end, under `key`, a UTF-8 string, in an object; takes it over. False, with it
 * freed, without memory. */
bool cv_json_add(struct cJSON *parent, const char *key, struct cJSON *value);
/* The text without white space, to be freed by cv_json_free_text; NULL without memory. */
char *cv_json_print(const struct cJSON *value);
/* NULL is fine, here and below. */
void cv_json_free_text(char *text);
void cv_json_free(struct cJSON *value);

#endif
