#include "proto/headers.h"

#include <errno.h>
#include <string.h>

void cv_headers_init(struct cv_headers *headers)
{
    cv_buf_init(&headers->bytes, CV_HEADERS_MAX);
    headers->count = 0;
}

void cv_headers_free(struct cv_headers *headers)
{
    cv_buf_free(&headers->bytes);
    headers->count = 0;
}

void cv_headers_clear(struct cv_headers *headers)
{
    cv_buf_consume(&headers->bytes, cv_buf_length(&headers->bytes));
    headers->count = 0;
}

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

bool cv_is_token(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!is_token_char(text[i]))
            return false;
    }
    return length > 0;
}

bool cv_is_field_value(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return false;
    }
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool cv_is_field(const char *line, size_t length)
{
    const char *colon = memchr(line, ':', length);
    return colon != NULL && cv_is_token(line, (size_t)(colon - line)) &&
           cv_is_field_value(colon + 1, (size_t)(line + length - colon - 1));
}

int cv_headers_add(struct cv_headers *headers, const char *line, size_t length)
{
    if (!cv_is_field(line, length)) {
        errno = EINVAL;
        return -1;
    }
    if (headers->count == CV_HEADERS_COUNT) {
        errno = ENOBUFS;
        return -1;
    }
    const size_t name_length = (size_t)((const char *)memchr(line, ':', length) - line);
    const char *value = line + name_length + 1;
    const char *end = line + length;
    while (value < end && is_blank(*value))
        value++;
    while (end > value && is_blank(end[-1]))
        end--;
    const size_t value_length = (size_t)(end - value);
    char *room = (char *)cv_buf_reserve(&headers->bytes, name_length + value_length + 2);
    if (room == NULL)
        return -1;
    for (size_t i = 0; i < name_length; i++)
        room[i] = (char)(line[i] >= 'A' && line[i] <= 'Z' ? line[i] + ('a' - 'A') : line[i]);
    room[name_length] = '\0';
    memcpy(room + name_length + 1, value, value_length);
    room[name_length + 1 + value_length] = '\0';
    cv_buf_commit(&headers->bytes, name_length + value_length + 2);
    headers->count++;
    return 0;
}

const char *cv_headers_get(const struct cv_headers *headers, const char *name)
{
    const char *at = (const char *)cv_buf_data(&headers->bytes);
    for (unsigned i = 0; i < headers->count; i++) {
        const char *value = cv_strings_next(at);
        if (strcmp(at, name) == 0)
            return value;
        at = cv_strings_next(value);
    }
    return NULL;
}

struct cv_strings cv_headers_list(const struct cv_headers *headers)
{
    if (headers->count == 0)
        return (struct cv_strings){0};
    return (struct cv_strings){.bytes = (const char *)cv_buf_data(&headers->bytes),
                               .length = cv_buf_length(&headers->bytes),
                               .count = 2 * headers->count};
}
