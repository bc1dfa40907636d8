/* Amounts: the form against a regular expression, the value against floating point. */
#include <math.h>
#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"
#include "rules/quantity.h"

#define FORM "^([0-9]+[.]?[0-9]*|[.][0-9]+)([mkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static regex_t form;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return regcomp(&form, FORM, REG_EXTENDED);
}

static long double factor_of(const char *suffix)
{
    static const char powers[] = "kMGTPE";
    if (suffix[0] == '\0')
        return 1;
    if (suffix[0] == 'm')
        return 1e-3L;
    if (suffix[1] != 'i' && suffix[1] != '\0')
        return powl(10, strtol(suffix + 1, NULL, 10)); /* saturates */
    char prefix = suffix[0] == 'K' ? 'k' : suffix[0];
    return powl(suffix[1] == 'i' ? 1024 : 1000, 1 + strchr(powers, prefix) - powers);
}

/* About what the text is worth: digits and suffix are read apart, as strtold knows none of them. */
static long double value_of(const char *text)
{
    char digits[CV_QUANTITY_MAX_BYTES + 1];
    size_t length = strspn(text, "0123456789.");
    memcpy(digits, text, length);
    digits[length] = '\0';
    return strtold(digits, NULL) * factor_of(text + length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[CV_QUANTITY_MAX_BYTES + 1];
    double cores = 0;
    int64_t bytes = 0;
    struct cv_err err = {0};
    bool is_cpu = cv_parse_cpu((const char *)data, size, &cores, &err) == 0;
    bool is_memory = cv_parse_memory((const char *)data, size, &bytes, &err) == 0;
    REQUIRE((is_cpu && is_memory) || strcmp(err.code, "invalid_option") == 0);
    if (size == 0 || size > CV_QUANTITY_MAX_BYTES || memchr(data, '\0', size) != NULL) {
        REQUIRE(!is_cpu && !is_memory);
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    bool formed = strchr(text, '\n') == NULL && regexec(&form, text, 0, NULL, 0) == 0;
    if (!formed) {
        REQUIRE(!is_cpu && !is_memory && strstr(err.message, "must be an amount") != NULL);
        return 0;
    }

    bool zero = text[strspn(text, "0.")] < '1' || text[strspn(text, "0.")] > '9';
    long double value = value_of(text);
    const long double limit = 9223372036854775808.0L;
    const long double about = 1e-15L; /* relative error of both sides */
    REQUIRE(is_cpu || zero || value > limit * (1 - about));
    REQUIRE(is_memory || zero || value > (limit - 1) * (1 - about));
    if (zero || value > limit * (1 + about)) {
        REQUIRE(!is_cpu && !is_memory);
        return 0;
    }
    if (is_cpu)
        REQUIRE(cores > 0 && cores - value > -about * value &&
                cores - value < 1.01e-9L + about * value);
    if (is_memory) {
        REQUIRE(is_cpu && bytes >= 1);
        REQUIRE((long double)bytes - value > -about * value);
        REQUIRE((long double)bytes - value <= 1 + about * value);
    }
    return 0;
}
