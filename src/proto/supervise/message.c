#include "proto/supervise/message.h"

#include <string.h>

#include "proto/supervise/wire.h"

const char *cv_failure_public_code(uint32_t code)
{
    switch (code) {
#define X(name, value, public_code)                                                                \
    case value:                                                                                    \
        return public_code;
        CV_FAILURES(X)
#undef X
    default:
        return NULL;
    }
}

/*
 * Appends integers, a string and two lists (either may be empty). One reservation for all of it,
 * so that a message without room leaves nothing behind.
 */
static int put_message(struct cv_buf *out, const uint32_t *head, size_t count, const char *string,
                       const struct cv_strings *first, const struct cv_strings *second)
{
    size_t string_size = strlen(string) + 1;
    size_t length = count * CV_U32_SIZE + string_size + first->length + second->length;
    uint8_t *to = cv_buf_reserve(out, length);
    if (to == NULL)
        return -1;
    for (size_t i = 0; i < count; i++, to += CV_U32_SIZE)
        cv_wire_put_u32(to, head[i]);
    memcpy(to, string, string_size);
    to += string_size;
    if (first->length > 0)
        memcpy(to, first->bytes, first->length);
    if (second->length > 0)
        memcpy(to + first->length, second->bytes, second->length);
    cv_buf_commit(out, length);
    return 0;
}

/* Takes `count` NUL-terminated strings; none may be empty when `filled` is set. */
static bool take_strings(struct cv_cursor *cursor, uint32_t count, bool filled,
                         struct cv_strings *list)
{
    list->count = count;
    list->length = 0;
    list->bytes = count == 0 ? NULL : (const char *)cursor->at;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *nul = cursor->left == 0 ? NULL : memchr(cursor->at, 0, cursor->left);
        if (nul == NULL || (filled && nul == cursor->at))
            return false;
        size_t size = (size_t)(nul - cursor->at) + 1;
        cv_cursor_take(cursor, size);
        list->length += size;
    }
    return true;
}

static bool take_file_path(struct cv_cursor *cursor, const char **path)
{
    struct cv_strings list;
    if (!take_strings(cursor, 1, false, &list))
        return false;
    *path = list.bytes;
    return list.length <= CV_FILE_PATH_MAX + 1 && list.bytes[0] != '/';
}

/* An entry of the base folder: one component that is neither "." nor "..". */
static bool names_single(const struct cv_strings *names)
{
    const char *name = names->bytes;
    for (uint32_t i = 0; i < names->count; i++, name = cv_strings_next(name)) {
        if (strchr(name, '/') != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            return false;
    }
    return true;
}

static bool env_named(const struct cv_strings *env)
{
    const char *entry = env->bytes;
    for (uint32_t i = 0; i < env->count; i++, entry = cv_strings_next(entry)) {
        const char *equals = strchr(entry, '=');
        if (equals == NULL || equals == entry)
            return false;
    }
    return true;
}

int cv_hello_encode(struct cv_buf *out, const struct cv_hello *hello)
{
    const uint32_t head[] = {hello->version,      hello->flags,    hello->credit,
                             hello->stdin_credit, hello->ping_ms,  hello->lease_ms,
                             hello->names.count,  hello->env.count};
    return put_message(out, head, sizeof head / sizeof *head, hello->base, &hello->names,
                       &hello->env);
}

bool cv_hello_decode(const uint8_t *payload, size_t length, struct cv_hello *hello)
{
    struct cv_cursor cursor = {.at = payload, .left = length};
    hello->version = cv_cursor_u32(&cursor);
    hello->flags = cv_cursor_u32(&cursor);
    hello->credit = cv_cursor_u32(&cursor);
    hello->stdin_credit = cv_cursor_u32(&cursor);
    hello->ping_ms = cv_cursor_u32(&cursor);
    hello->lease_ms = cv_cursor_u32(&cursor);
    uint32_t names = cv_cursor_u32(&cursor);
    uint32_t env = cv_cursor_u32(&cursor);
    struct cv_strings base;
    if (cursor.bad || (hello->flags & ~(uint32_t)CV_HELLO_FLAGS) != 0 || hello->credit == 0 ||
        hello->stdin_credit == 0 || hello->stdin_credit > CV_STDIN_CREDIT_MAX)
        return false;
    if (!take_strings(&cursor, 1, true, &base) ||
        !take_strings(&cursor, names, true, &hello->names) ||
        !take_strings(&cursor, env, true, &hello->env) || cursor.left != 0)
        return false;
    hello->base = base.bytes;
    if ((hello->flags & CV_HELLO_RECORD) != 0 && names < 2)
        return false;
    return base.bytes[0] == '/' && names_single(&hello->names) && env_named(&hello->env);
}

int cv_start_encode(struct cv_buf *out, const struct cv_start *start)
{
    const uint32_t head[] = {start->flags, start->timeout_ms, start->stdout_cap, start->stderr_cap,
                             start->argv.count};
    const struct cv_strings none = {0};
    return put_message(out, head, sizeof head / sizeof *head, start->cwd, &start->argv, &none);
}

bool cv_start_decode(const uint8_t *payload, size_t length, struct cv_start *start)
{
    struct cv_cursor cursor = {.at = payload, .left = length};
    start->flags = cv_cursor_u32(&cursor);
    start->timeout_ms = cv_cursor_u32(&cursor);
    start->stdout_cap = cv_cursor_u32(&cursor);
    start->stderr_cap = cv_cursor_u32(&cursor);
    uint32_t argc = cv_cursor_u32(&cursor);
    struct cv_strings cwd;
    if (cursor.bad || (start->flags & ~(uint32_t)CV_START_FLAGS) != 0 || start->timeout_ms == 0 ||
        argc == 0)
        return false;
    if (!take_strings(&cursor, 1, false, &cwd) ||
        !take_strings(&cursor, argc, false, &start->argv) || cursor.left != 0)
        return false;
    start->cwd = cwd.bytes;
    return cwd.bytes[0] != '/' && start->argv.bytes[0] != '\0';
}

int cv_read_file_encode(struct cv_buf *out, const struct cv_read_file *read)
{
    const struct cv_strings none = {0};
    return put_message(out, &read->max, 1, read->path, &none, &none);
}

bool cv_read_file_decode(const uint8_t *payload, size_t length, struct cv_read_file *read)
{
    struct cv_cursor cursor = {.at = payload, .left = length};
    read->max = cv_cursor_u32(&cursor);
    return !cursor.bad && read->max <= CV_FILE_MAX && take_file_path(&cursor, &read->path) &&
           cursor.left == 0;
}

int cv_write_file_encode(struct cv_buf *out, const struct cv_write_file *write)
{
    const struct cv_strings content = {.bytes = (const char *)write->bytes,
                                       .length = write->length};
    const struct cv_strings none = {0};
    return put_message(out, NULL, 0, write->path, &content, &none);
}

bool cv_write_file_decode(const uint8_t *payload, size_t length, struct cv_write_file *write)
{
    struct cv_cursor cursor = {.at = payload, .left = length};
    if (!take_file_path(&cursor, &write->path))
        return false;
    write->bytes = cursor.at;
    write->length = cursor.left;
    return write->length <= CV_FILE_MAX;
}

void cv_ended_encode(uint8_t out[CV_ENDED_SIZE], const struct cv_ended *ended)
{
    cv_wire_put_u32(out, ended->how);
    cv_wire_put_u32(out + 4, ended->value);
    cv_wire_put_u32(out + 8, ended->flags);
    cv_wire_put_u64(out + 12, ended->stdout_bytes);
    cv_wire_put_u64(out + 20, ended->stderr_bytes);
    cv_wire_put_u64(out + 28, ended->duration_us);
}

bool cv_ended_decode(const uint8_t *payload, size_t length, struct cv_ended *ended)
{
    struct cv_cursor cursor = {.at = payload, .left = length};
    ended->how = cv_cursor_u32(&cursor);
    ended->value = cv_cursor_u32(&cursor);
    ended->flags = cv_cursor_u32(&cursor);
    ended->stdout_bytes = cv_cursor_u64(&cursor);
    ended->stderr_bytes = cv_cursor_u64(&cursor);
    ended->duration_us = cv_cursor_u64(&cursor);
    if (cursor.bad || cursor.left != 0 || (ended->flags & ~(uint32_t)CV_ENDED_FLAGS) != 0)
        return false;
    if (ended->how == CV_ENDED_EXITED)
        return ended->value <= 255;
    return ended->how == CV_ENDED_SIGNALED && ended->value >= 1 && ended->value <= 127;
}

size_t cv_failure_encode(uint8_t out[8 + CV_FAILURE_TEXT_MAX], const struct cv_failure *failure)
{
    size_t length = failure->length > CV_FAILURE_TEXT_MAX ? CV_FAILURE_TEXT_MAX : failure->length;
    cv_wire_put_u32(out, failure->code);
    cv_wire_put_u32(out + 4, failure->errnum);
    if (length > 0)
        memcpy(out + 8, failure->text, length);
    return 8 + length;
}

bool cv_failure_decode(const uint8_t *payload, size_t length, struct cv_failure *failure)
{
    struct cv_cursor cursor = {.at = payload, .left = length};
    failure->code = cv_cursor_u32(&cursor);
    failure->errnum = cv_cursor_u32(&cursor);
    if (cursor.bad || cursor.left > CV_FAILURE_TEXT_MAX || failure->errnum > 4095)
        return false;
    failure->text = (const char *)cursor.at;
    failure->length = cursor.left;
    return cv_failure_public_code(failure->code) != NULL;
}

bool cv_u32_decode(const uint8_t *payload, size_t length, uint32_t *value)
{
    if (length != CV_U32_SIZE)
        return false;
    *value = cv_wire_get_u32(payload);
    return true;
}
