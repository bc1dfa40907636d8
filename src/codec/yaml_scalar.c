#include "codec/yaml_scalar.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No number is longer. */
#define NUMBER_MAX 64

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(text, *words) == 0)
            return true;
    }
    return false;
}

static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

static unsigned digit_of(char character)
{
    if (is_digit(character))
        return (unsigned)(character - '0');
    if (character >= 'a' && character <= 'f')
        return (unsigned)(character - 'a' + 10);
    if (character >= 'A' && character <= 'F')
        return (unsigned)(character - 'A' + 10);
    return 16;
}

/* The integer that the digits make, rounded once; false when they are none, or it is over `max`. */
static bool read_digits(const char *text, unsigned base, uint64_t max, double *number)
{
    uint64_t value = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        const unsigned digit = digit_of(*text);
        if (digit >= base || value > (max - digit) / base)
            return false;
        value = value * base + digit;
    }
    *number = (double)value;
    return true;
}

static bool read_integer(const char *text, double *number)
{
    const bool negative = *text == '-';
    uint64_t max = UINT64_MAX;
    unsigned base = 10;
    if (*text == '-' || *text == '+') {
        max = (uint64_t)INT64_MAX + negative;
        text++;
    }
    if (text[0] == '0' && text[1] != '\0') {
        text++;
        switch (*text) {
        case 'x':
        case 'X':
            base = 16;
            text++;
            break;
        case 'b':
        case 'B':
            base = 2;
            text++;
            break;
        case 'o':
        case 'O':
            base = 8;
            text++;
            break;
        default:
            base = 8;
        }
    }
    if (!read_digits(text, base, max, number))
        return false;
    if (negative)
        *number = -*number;
    return true;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static bool looks_like_float(const char *text)
{
    static const char digits[] = "0123456789";
    text += *text == '-' || *text == '+';
    size_t whole = strspn(text, digits);
    size_t fraction = 0;
    text += whole;
    if (*text == '.') {
        fraction = strspn(++text, digits);
        text += fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+';
        if (strspn(text, digits) == 0)
            return false;
        text += strspn(text, digits);
    }
    return *text == '\0';
}

/* By the C library, whose locale may have another point. */
static double to_double(const char *text)
{
    char local[NUMBER_MAX + 8];
    const char *point = strchr(text, '.');
    char sample[16];
    if (point == NULL)
        return strtod(text, NULL);
    snprintf(sample, sizeof sample, "%.1f", 0.5);
    sample[strlen(sample) - 1] = '\0';
    snprintf(local, sizeof local, "%.*s%s%s", (int)(point - text), text, sample + 1, point + 1);
    return strtod(local, NULL);
}

static bool underscores_separate_digits(const char *text)
{
    for (const char *at = strchr(text, '_'); at != NULL; at = strchr(at + 1, '_')) {
        if (at == text || !is_digit(at[-1]) || !is_digit(at[1]))
            return false;
    }
    return true;
}

/* As go-yaml, the library of kubectl: the first character says whether it may be a number, and
 * where underscores count for nothing. */
static bool read_number(const char *text, bool *whole, double *number)
{
    if (!is_digit(text[0]) && text[0] != '+' && text[0] != '-' &&
        (text[0] != '.' || !underscores_separate_digits(text)))
        return false;
    char plain[NUMBER_MAX + 1];
    char *to = plain;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from != '_')
            *to++ = *from;
    }
    *to = '\0';
    *whole = read_integer(plain, number);
    if (*whole)
        return true;
    if (!looks_like_float(plain))
        return false;
    *number = to_double(plain);
    return isfinite(*number);
}

/* What the text looks like. */
static enum cv_yaml_type look(const char *text, bool *whole, double *number)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                        "True", "TRUE", "on",  "On",  "ON",  NULL};
    static const char *const falses[] = {"n",     "N",     "no",  "No",  "NO",  "false",
                                         "False", "FALSE", "off", "Off", "OFF", NULL};
    if (is_one_of(text, nulls))
        return CV_YAML_NULL;
    if (is_one_of(text, trues))
        return CV_YAML_TRUE;
    if (is_one_of(text, falses))
        return CV_YAML_FALSE;
    return read_number(text, whole, number) ? CV_YAML_NUMBER : CV_YAML_STRING;
}

int cv_yaml_resolve(const char *bytes, size_t length, const char *tag,
                    struct cv_yaml_scalar *scalar)
{
    static const char prefix[] = "tag:yaml.org,2002:";
    bool whole = false;
    enum cv_yaml_type looks = CV_YAML_STRING;
    if (length <= NUMBER_MAX && strlen(bytes) == length)
        looks = look(bytes, &whole, &scalar->number);
    scalar->type = CV_YAML_STRING;
    if (tag == NULL) {
        if (scalar->plain)
            scalar->type = looks;
        return 0;
    }
    if (strcmp(tag, "!") == 0)
        return 0;
    if (strncmp(tag, prefix, sizeof prefix - 1) != 0)
        return -1;
    tag += sizeof prefix - 1;
    if (strcmp(tag, "str") == 0)
        return 0;
    scalar->type = looks;
    if (strcmp(tag, "null") == 0)
        return looks == CV_YAML_NULL ? 0 : -1;
    if (strcmp(tag, "bool") == 0)
        return looks == CV_YAML_TRUE || looks == CV_YAML_FALSE ? 0 : -1;
    if (strcmp(tag, "int") == 0)
        return looks == CV_YAML_NUMBER && whole ? 0 : -1;
    if (strcmp(tag, "float") == 0)
        return looks == CV_YAML_NUMBER ? 0 : -1;
    return -1;
}
