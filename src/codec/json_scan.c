#include "codec/json_scan.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "codec/json.h"
#include "output/utf8.h"

/* cJSON's buffer for the text of a number. */
#define NUMBER_MAX 63

struct scan {
    const char *start, *at, *end;
    size_t values;
    struct cv_err *err;
};

static bool wrong(struct scan *s, const char *what)
{
    cv_err_set(s->err, "invalid_json", "at byte %zu: %s", (size_t)(s->at - s->start) + 1, what);
    return false;
}

static bool expected(struct scan *s, const char *what)
{
    cv_err_set(s->err, "invalid_json", "at byte %zu: expected %s%s", (size_t)(s->at - s->start) + 1,
               what, s->at == s->end ? ", but the text ends" : "");
    return false;
}

/* The next byte; 0 at the end, where every caller wants something else. */
static char peek(const struct scan *s)
{
    return s->at < s->end ? *s->at : '\0';
}

static bool take(struct scan *s, char byte)
{
    if (s->at == s->end || *s->at != byte)
        return false;
    s->at++;
    return true;
}

static void skip_space(struct scan *s)
{
    while (peek(s) == ' ' || peek(s) == '\t' || peek(s) == '\n' || peek(s) == '\r')
        s->at++;
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static int hex_digit(char byte)
{
    if (is_digit(byte))
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return -1;
}

/* The value of \uXXXX at the text's place, and past it; -1 when it is none. */
static int take_unit(struct scan *s)
{
    int unit = 0;
    if (s->end - s->at < 6 || s->at[0] != '\\' || s->at[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(s->at[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    s->at += 6;
    return unit;
}

static bool scan_unit(struct scan *s)
{
    const char *place = s->at;
    int unit = take_unit(s);
    if (unit < 0)
        return expected(s, "an escape of \\u and four hexadecimal digits");
    bool high = unit >= 0xd800 && unit <= 0xdbff;
    if (unit == 0) {
        s->at = place;
        return wrong(s, "a NUL (\\u0000) can't be part of a string here");
    }
    if (high)
        unit = take_unit(s);
    bool low = unit >= 0xdc00 && unit <= 0xdfff;
    if (high != low) {
        s->at = place;
        return wrong(s, "this is half of a surrogate pair");
    }
    return true;
}

/* What is neither the end of a string nor an escape. */
static bool scan_characters(struct scan *s)
{
    const char *begin = s->at;
    while (s->at < s->end && *s->at != '"' && *s->at != '\\' && (uint8_t)*s->at >= 0x20)
        s->at++;
    size_t length = (size_t)(s->at - begin);
    size_t run = length == 0 ? 0 : cv_utf8_run((const uint8_t *)begin, length);
    if (run < length) {
        s->at = begin + run;
        return wrong(s, "this is not UTF-8");
    }
    return true;
}

static bool scan_string(struct scan *s)
{
    if (!take(s, '"'))
        return expected(s, "a string in double quotes");
    while (scan_characters(s)) {
        if (take(s, '"'))
            return true;
        if (peek(s) != '\\')
            return s->at == s->end ? expected(s, "the quote that closes a string")
                                   : wrong(s, "a control byte in a string; escape it, as in \\n");
        if (s->end - s->at >= 2 && s->at[1] != '\0' && strchr("\"\\/bfnrt", s->at[1]) != NULL)
            s->at += 2;
        else if (!scan_unit(s))
            return false;
    }
    return false;
}

static bool take_digits(struct scan *s)
{
    if (!is_digit(peek(s)))
        return expected(s, "a digit");
    while (is_digit(peek(s)))
        s->at++;
    return true;
}

static bool scan_number(struct scan *s)
{
    const char *begin = s->at;
    take(s, '-');
    if (!take(s, '0') && !take_digits(s))
        return false;
    if (take(s, '.') && !take_digits(s))
        return false;
    if (take(s, 'e') || take(s, 'E')) {
        if (!take(s, '+'))
            take(s, '-');
        if (!take_digits(s))
            return false;
    }
    if (s->at - begin > NUMBER_MAX) {
        s->at = begin;
        return wrong(s, "a number of more than 63 characters");
    }
    return true;
}

static bool scan_word(struct scan *s, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0)
        return expected(s, "a value");
    s->at += length;
    return true;
}

static bool scan_value(struct scan *s, int depth);

static bool scan_array(struct scan *s, int depth)
{
    skip_space(s);
    if (take(s, ']'))
        return true;
    do {
        if (!scan_value(s, depth))
            return false;
    } while (take(s, ','));
    return take(s, ']') || expected(s, "a comma or the bracket that closes an array");
}

static bool scan_object(struct scan *s, int depth)
{
    skip_space(s);
    if (take(s, '}'))
        return true;
    do {
        skip_space(s);
        if (!scan_string(s))
            return false;
        skip_space(s);
        if (!take(s, ':'))
            return expected(s, "the colon behind a key");
        if (!scan_value(s, depth))
            return false;
    } while (take(s, ','));
    return take(s, '}') || expected(s, "a comma or the brace that closes an object");
}

static bool scan_bare_value(struct scan *s, int depth)
{
    switch (peek(s)) {
    case '[':
    case '{':
        if (depth == CV_JSON_DEPTH_MAX)
            return wrong(s, "the text is nested too deeply");
        return *s->at++ == '[' ? scan_array(s, depth + 1) : scan_object(s, depth + 1);
    case '"':
        return scan_string(s);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        if (peek(s) != '-' && !is_digit(peek(s)))
            return expected(s, "a value");
        return scan_number(s);
    }
}

/* A value with the space around it. */
static bool scan_value(struct scan *s, int depth)
{
    s->values++;
    skip_space(s);
    if (!scan_bare_value(s, depth))
        return false;
    skip_space(s);
    return true;
}

int cv_json_scan(const char *text, size_t length, size_t *values, struct cv_err *err)
{
    struct scan s = {.start = text, .at = text, .end = text + length, .err = err};
    if (!scan_value(&s, 0) || (s.at < s.end && !wrong(&s, "something follows the value")))
        return -1;
    *values = s.values;
    return 0;
}
