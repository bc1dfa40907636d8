/* The header fields of one HTTP message: bounded, checked against the grammar of RFC 9110. */
#ifndef CV_PROTO_HEADERS_H
#define CV_PROTO_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/strings.h"

/* Bytes of all names and values that are kept of one message, and how many fields. */
#define CV_HEADERS_MAX 65536
#define CV_HEADERS_COUNT 256

struct cv_headers {
    struct cv_buf bytes; /* name, value, name, value, ...: each with its NUL, names in lower case */
    unsigned count;
};

/* No fields; allocates nothing. */
void cv_headers_init(struct cv_headers *headers);
void cv_headers_free(struct cv_headers *headers);
/* Drops all fields. */
void cv_headers_clear(struct cv_headers *headers);
/*
 * Adds the field of one line, "Name: value" without its line end. 0, or -1 with errno: EINVAL when
 * it is none (a continuation of the line before is none either: RFC 9112, section 5.2), ENOBUFS
 * when there are too many, ENOMEM.
 */
int cv_headers_add(struct cv_headers *headers, const char *line, size_t length);
/* The value of the first field of that name (in lower case), or NULL. */
const char *cv_headers_get(const struct cv_headers *headers, const char *name);
/* All names and values in turn; valid until the next call that changes the fields. */
struct cv_strings cv_headers_list(const struct cv_headers *headers);

/* Whether the line is a field, as cv_headers_add takes one: without its line end. */
bool cv_is_field(const char *line, size_t length);
/* Whether the text is a token, as names of fields and methods are: RFC 9110, section 5.6.2. */
bool cv_is_token(const char *text, size_t length);
/* Whether the text can be the value of a field: no control byte but the tab. */
bool cv_is_field_value(const char *text, size_t length);

#endif
