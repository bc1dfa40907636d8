#include "proto/http_upgrade.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum state {
    STATUS_LINE,
    FIELDS,
    LENGTH_BODY, /* `left` bytes */
    CLOSE_BODY,  /* up to the end of the stream */
    CHUNK_SIZE,
    CHUNK_BODY, /* `left` bytes */
    CHUNK_END,  /* the line end behind a chunk */
    TRAILERS,
};

void cv_upgrade_init(struct cv_upgrade *upgrade)
{
    memset(upgrade, 0, sizeof *upgrade);
    cv_headers_init(&upgrade->headers);
    cv_buf_init(&upgrade->body, CV_UPGRADE_BODY_MAX);
    cv_buf_init(&upgrade->line, CV_UPGRADE_LINE_MAX);
    upgrade->state = STATUS_LINE;
    upgrade->result = CV_UPGRADE_MORE;
}

void cv_upgrade_free(struct cv_upgrade *upgrade)
{
    cv_headers_free(&upgrade->headers);
    cv_buf_free(&upgrade->body);
    cv_buf_free(&upgrade->line);
}

static enum cv_upgrade_result broken(struct cv_upgrade *upgrade, const char *problem)
{
    upgrade->problem = problem;
    return upgrade->result = CV_UPGRADE_BROKEN;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* HTTP-version SP status-code [ SP reason-phrase ]: RFC 9112, section 4; the second space may lack.
 */
static enum cv_upgrade_result read_status(struct cv_upgrade *upgrade, const char *line,
                                          size_t length)
{
    if (length < 12 || memcmp(line, "HTTP/1.", 7) != 0 || (line[7] != '1' && line[7] != '0') ||
        line[8] != ' ' || !is_digit(line[9]) || !is_digit(line[10]) || !is_digit(line[11]) ||
        (length > 12 && line[12] != ' ') || !cv_is_field_value(line + 12, length - 12))
        return broken(upgrade, "its first line is no status line of HTTP/1.1");
    upgrade->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    if (upgrade->status < 100)
        return broken(upgrade, "its status is below 100");
    cv_headers_clear(&upgrade->headers);
    upgrade->state = FIELDS;
    return CV_UPGRADE_MORE;
}

/* 1*DIGIT, up to what a double holds exactly. */
static bool parse_length(const char *text, uint64_t *value)
{
    *value = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (!is_digit(*text) || *value > (UINT64_C(1) << 53) / 10)
            return false;
        *value = *value * 10 + (uint64_t)(*text - '0');
    }
    return true;
}

struct framing {
    bool has_length;
    bool chunked;
    uint64_t length;
};

/* False when the fields contradict each other or name a coding that is not chunked alone. */
static bool read_framing(const struct cv_upgrade *upgrade, struct framing *framing)
{
    const struct cv_strings list = cv_headers_list(&upgrade->headers);
    const char *name = list.bytes;
    *framing = (struct framing){0};
    for (uint32_t i = 0; i < list.count; i += 2) {
        const char *value = cv_strings_next(name);
        if (strcmp(name, "content-length") == 0) {
            if (framing->has_length || !parse_length(value, &framing->length))
                return false;
            framing->has_length = true;
        } else if (strcmp(name, "transfer-encoding") == 0) {
            if (framing->chunked || strcasecmp(value, "chunked") != 0)
                return false;
            framing->chunked = true;
        }
        name = cv_strings_next(value);
    }
    return !(framing->has_length && framing->chunked);
}

/* Behind the empty line that ends a head: RFC 9112, section 6.3. */
static enum cv_upgrade_result end_head(struct cv_upgrade *upgrade)
{
    struct framing framing;
    if (!read_framing(upgrade, &framing))
        return broken(upgrade, "it does not say clearly where its body ends");
    if (upgrade->status == 101)
        return upgrade->result = CV_UPGRADE_OPEN;
    if (upgrade->status < 200) {
        upgrade->state = STATUS_LINE;
        return CV_UPGRADE_MORE;
    }
    if (upgrade->status == 204 || upgrade->status == 304 ||
        (framing.has_length && framing.length == 0))
        return upgrade->result = CV_UPGRADE_REFUSED;
    upgrade->left = framing.length;
    upgrade->state = framing.chunked ? CHUNK_SIZE : framing.has_length ? LENGTH_BODY : CLOSE_BODY;
    return CV_UPGRADE_MORE;
}

static enum cv_upgrade_result read_field(struct cv_upgrade *upgrade, const char *line,
                                         size_t length)
{
    if (length == 0)
        return end_head(upgrade);
    if (cv_headers_add(&upgrade->headers, line, length) == 0)
        return CV_UPGRADE_MORE;
    return broken(upgrade, errno == EINVAL ? "one of its lines is no header field"
                                           : "it has too many header fields");
}

/* 1*HEXDIG [ chunk-ext ]: RFC 9112, section 7.1; extensions are skipped. */
static enum cv_upgrade_result read_chunk_size(struct cv_upgrade *upgrade, const char *line,
                                              size_t length)
{
    size_t i = 0;
    upgrade->left = 0;
    for (; i < length && i <= 8; i++) {
        char c = line[i];
        unsigned digit;
        if (is_digit(c))
            digit = (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (unsigned)((c | 0x20) - 'a') + 10;
        else
            break;
        upgrade->left = upgrade->left * 16 + digit;
    }
    if (i == 0 || i > 8 || (i < length && line[i] != ';' && line[i] != ' ') ||
        !cv_is_field_value(line + i, length - i))
        return broken(upgrade, "a chunk of its body has no valid size");
    upgrade->state = upgrade->left == 0 ? TRAILERS : CHUNK_BODY;
    return CV_UPGRADE_MORE;
}

/* Trailers are checked and dropped; they must not be framing: RFC 9110, section 6.5.1. */
static enum cv_upgrade_result read_trailer(struct cv_upgrade *upgrade, const char *line,
                                           size_t length)
{
    if (length == 0)
        return upgrade->result = CV_UPGRADE_REFUSED;
    if (!cv_is_field(line, length) || strncasecmp(line, "content-length:", 15) == 0 ||
        strncasecmp(line, "transfer-encoding:", 18) == 0)
        return broken(upgrade, "one of its lines is no header field");
    return CV_UPGRADE_MORE;
}

static enum cv_upgrade_result read_line(struct cv_upgrade *upgrade, const char *line, size_t length)
{
    switch (upgrade->state) {
    case STATUS_LINE:
        return read_status(upgrade, line, length);
    case FIELDS:
        return read_field(upgrade, line, length);
    case CHUNK_SIZE:
        return read_chunk_size(upgrade, line, length);
    case CHUNK_END:
        upgrade->state = CHUNK_SIZE;
        return length == 0 ? CV_UPGRADE_MORE
                           : broken(upgrade, "a chunk of its body is longer than its size");
    default:
        return read_trailer(upgrade, line, length);
    }
}

/* Takes the bytes up to the next line end, and the line when it is whole. */
static enum cv_upgrade_result take_line(struct cv_upgrade *upgrade, const char *bytes,
                                        size_t length, size_t *used)
{
    const char *end = memchr(bytes, '\n', length);
    const size_t count = end == NULL ? length : (size_t)(end - bytes) + 1;
    *used = count;
    upgrade->lines += count;
    if (upgrade->lines > CV_UPGRADE_LINES_MAX)
        return broken(upgrade, "its head is too long");
    if (cv_buf_append(&upgrade->line, bytes, count) != 0)
        return broken(upgrade, errno == ENOBUFS ? "one of its lines is too long" : "no memory");
    if (end == NULL)
        return CV_UPGRADE_MORE;
    const char *line = (const char *)cv_buf_data(&upgrade->line);
    size_t whole = cv_buf_length(&upgrade->line);
    if (whole < 2 || line[whole - 2] != '\r')
        return broken(upgrade, "one of its lines does not end with CR and LF");
    enum cv_upgrade_result result = read_line(upgrade, line, whole - 2);
    cv_buf_consume(&upgrade->line, whole);
    return result;
}

/* Keeps what fits; one that is over is not read to its end. */
static enum cv_upgrade_result keep_body(struct cv_upgrade *upgrade, const char *bytes,
                                        size_t length)
{
    const size_t room = CV_UPGRADE_BODY_MAX - cv_buf_length(&upgrade->body);
    if (cv_buf_append(&upgrade->body, bytes, length < room ? length : room) != 0)
        return broken(upgrade, "no memory");
    if (length <= room)
        return CV_UPGRADE_MORE;
    upgrade->truncated = true;
    return upgrade->result = CV_UPGRADE_REFUSED;
}

static enum cv_upgrade_result take_body(struct cv_upgrade *upgrade, const char *bytes,
                                        size_t length, size_t *used)
{
    const bool bounded = upgrade->state != CLOSE_BODY;
    *used = bounded && upgrade->left < length ? (size_t)upgrade->left : length;
    enum cv_upgrade_result result = keep_body(upgrade, bytes, *used);
    if (result != CV_UPGRADE_MORE || !bounded)
        return result;
    upgrade->left -= *used;
    if (upgrade->left > 0)
        return CV_UPGRADE_MORE;
    if (upgrade->state == LENGTH_BODY)
        return upgrade->result = CV_UPGRADE_REFUSED;
    upgrade->state = CHUNK_END;
    return CV_UPGRADE_MORE;
}

static bool in_body(const struct cv_upgrade *upgrade)
{
    return upgrade->state == LENGTH_BODY || upgrade->state == CLOSE_BODY ||
           upgrade->state == CHUNK_BODY;
}

enum cv_upgrade_result cv_upgrade_feed(struct cv_upgrade *upgrade, const void *bytes, size_t length,
                                       size_t *used)
{
    const char *at = bytes;
    *used = 0;
    while (upgrade->result == CV_UPGRADE_MORE && *used < length) {
        size_t count;
        if (in_body(upgrade))
            take_body(upgrade, at + *used, length - *used, &count);
        else
            take_line(upgrade, at + *used, length - *used, &count);
        *used += count;
    }
    return upgrade->result;
}

enum cv_upgrade_result cv_upgrade_end(struct cv_upgrade *upgrade)
{
    if (upgrade->result != CV_UPGRADE_MORE)
        return upgrade->result;
    if (upgrade->state == CLOSE_BODY)
        return upgrade->result = CV_UPGRADE_REFUSED;
    return broken(upgrade, "it is cut off");
}
