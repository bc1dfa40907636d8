#include "rules/quantity.h"

#include <stdbool.h>
#include <string.h>

#define NANO 1000000000
#define EXPONENT_MAX 1000 /* more moves any digit that fits out of every range all the same */

/* An amount as its decimal digits: 0.d1 d2 d3... times 10 to the power of `point`. */
struct decimal {
    uint8_t digits[CV_QUANTITY_MAX_BYTES];
    int count;
    int point;
};

/* An amount, rounded up to a whole number of 10^-9. */
struct amount {
    uint64_t whole; /* at most INT64_MAX */
    uint32_t nano;  /* at most NANO */
};

static int refuse(struct cv_err *err, const char *why)
{
    cv_err_set(err, "invalid_option", "%s", why);
    return -1;
}

static int refuse_form(struct cv_err *err)
{
    return refuse(
        err, "must be an amount without a sign such as 500m, 1.5 or 2Gi: digits, then m, k, M, "
             "G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, a decimal exponent or nothing");
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Reads digits with at most one point; returns the length of that text, 0 when there is no digit.
 */
static size_t read_digits(const char *text, size_t length, struct decimal *decimal)
{
    size_t at = 0;
    bool pointed = false;
    decimal->count = 0;
    decimal->point = 0;
    for (; at < length && (is_digit(text[at]) || (text[at] == '.' && !pointed)); at++) {
        if (text[at] == '.') {
            pointed = true;
            continue;
        }
        decimal->digits[decimal->count++] = (uint8_t)(text[at] - '0');
        if (!pointed)
            decimal->point++;
    }
    return decimal->count == 0 ? 0 : at;
}

/* Reads the number behind an e; false when it is none. */
static bool read_exponent(const char *text, size_t length, int *exponent)
{
    bool negative = length > 0 && text[0] == '-';
    size_t at = length > 0 && (negative || text[0] == '+') ? 1 : 0;
    if (at == length)
        return false;
    *exponent = 0;
    for (; at < length; at++) {
        if (!is_digit(text[at]))
            return false;
        if (*exponent < EXPONENT_MAX)
            *exponent = *exponent * 10 + (text[at] - '0');
    }
    if (negative)
        *exponent = -*exponent;
    return true;
}

/* Reads a suffix: *exponent of 10, *kibis of 1024. False for an unknown one. */
static bool read_suffix(const char *text, size_t length, int *exponent, int *kibis)
{
    static const struct {
        const char *text;
        int exponent;
        int kibis;
    } suffixes[] = {
        {"", 0, 0},   {"m", -3, 0}, {"k", 3, 0},  {"M", 6, 0},  {"G", 9, 0},
        {"T", 12, 0}, {"P", 15, 0}, {"E", 18, 0}, {"Ki", 0, 1}, {"Mi", 0, 2},
        {"Gi", 0, 3}, {"Ti", 0, 4}, {"Pi", 0, 5}, {"Ei", 0, 6},
    };
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (strlen(suffixes[i].text) != length || memcmp(suffixes[i].text, text, length) != 0)
            continue;
        *exponent = suffixes[i].exponent;
        *kibis = suffixes[i].kibis;
        return true;
    }
    *kibis = 0;
    return (text[0] == 'e' || text[0] == 'E') && read_exponent(text + 1, length - 1, exponent);
}

/* whole * factor + more (a small number), unless that is over INT64_MAX. */
static bool extend(uint64_t *whole, uint64_t factor, uint64_t more)
{
    if (*whole > (INT64_MAX - more) / factor)
        return false;
    *whole = *whole * factor + more;
    return true;
}

/* The digit with the weight 10^-(place + 1) times 10^point, 0 outside. */
static uint8_t digit_at(const struct decimal *decimal, int place)
{
    return place >= 0 && place < decimal->count ? decimal->digits[place] : 0;
}

static bool whole_part(const struct decimal *decimal, uint64_t *whole)
{
    *whole = 0;
    for (int place = 0; place < decimal->point; place++) {
        if (!extend(whole, 10, digit_at(decimal, place)))
            return false;
        if (*whole == 0 && place >= decimal->count)
            break;
    }
    return true;
}

/* Multiplies the digits behind the point by 1024; what comes before the point is returned. */
static unsigned fraction_times_1024(struct decimal *decimal)
{
    unsigned carry = 0;
    for (int place = decimal->count - 1; place >= decimal->point; place--) {
        carry += decimal->digits[place] * 1024u;
        decimal->digits[place] = (uint8_t)(carry % 10);
        carry /= 10;
    }
    return carry;
}

/* The digits behind the point, rounded up: 0 to NANO. */
static uint32_t fraction_part(const struct decimal *decimal)
{
    uint32_t nano = 0;
    for (int i = 0; i < 9; i++)
        nano = nano * 10 + digit_at(decimal, decimal->point + i);
    int rest = decimal->point + 9;
    for (int place = rest < 0 ? 0 : rest; place < decimal->count; place++) {
        if (decimal->digits[place] != 0)
            return nano + 1;
    }
    return nano;
}

static int parse(const char *text, size_t length, struct amount *amount, struct cv_err *err)
{
    struct decimal decimal;
    int exponent;
    int kibis;
    if (length > CV_QUANTITY_MAX_BYTES)
        return refuse(err, "must be an amount of at most 64 bytes");
    size_t digits = read_digits(text, length, &decimal);
    if (digits == 0 || !read_suffix(text + digits, length - digits, &exponent, &kibis))
        return refuse_form(err);

    decimal.point += exponent;
    bool fits = whole_part(&decimal, &amount->whole);
    for (; fits && kibis > 0; kibis--)
        fits = extend(&amount->whole, 1024, fraction_times_1024(&decimal));
    amount->nano = fraction_part(&decimal);
    if (!fits)
        return refuse(err, "is too large: at most 2^63 - 1 is possible");
    if (amount->whole == 0 && amount->nano == 0)
        return refuse(err, "must be more than zero");
    return 0;
}

int cv_parse_cpu(const char *text, size_t length, double *cores, struct cv_err *err)
{
    struct amount amount;
    if (parse(text, length, &amount, err) != 0)
        return -1;
    /* One division of two exact numbers gives the nearest double, as a literal 0.1 has it. */
    if (amount.whole < (UINT64_C(1) << 53) / NANO)
        *cores = (double)(amount.whole * NANO + amount.nano) / NANO;
    else
        *cores = (double)amount.whole + (double)amount.nano / NANO;
    return 0;
}

int cv_parse_memory(const char *text, size_t length, int64_t *bytes, struct cv_err *err)
{
    struct amount amount;
    if (parse(text, length, &amount, err) != 0)
        return -1;
    if (amount.nano > 0 && !extend(&amount.whole, 1, 1))
        return refuse(err, "is too large: at most 2^63 - 1 is possible");
    *bytes = (int64_t)amount.whole;
    return 0;
}
