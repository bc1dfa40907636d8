#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/quantity.h"

static int cpu(const char *text, size_t length, double *cores, struct cv_err *err)
{
    /* Memory of exactly that size, so that a read past it shows. */
    char *copy = malloc(length);
    if (length > 0)
        memcpy(copy, text, length);
    memset(err, 0, sizeof *err);
    int status = cv_parse_cpu(copy, length, cores, err);
    free(copy);
    return status;
}

static const struct {
    const char *text;
    int64_t bytes;
} amounts[] = {
    {"1", 1},
    {"0001", 1},
    {"1.", 1},
    {"1.0", 1},
    {"512", 512},
    {"9223372036854775807", INT64_MAX},
    {"00000000000009223372036854775807.000", INT64_MAX},
    /* fractions of a byte round up */
    {".5", 1},
    {"0.1", 1},
    {"1.5", 2},
    {"1.000000000001", 2},
    {"1.0000000000000000000000000000000000000001", 2},
    {"1m", 1},
    {"999m", 1},
    {"1000m", 1},
    {"1001m", 2},
    {"1500m", 2},
    {"9223372036854775806.1", INT64_MAX},
    /* powers of 1000 */
    {"1k", 1000},
    {"1M", 1000000},
    {"1G", 1000000000},
    {"1T", 1000000000000},
    {"1P", 1000000000000000},
    {"1E", 1000000000000000000},
    {"9.223372036854775807E", INT64_MAX},
    {"1.5k", 1500},
    {".0015k", 2},
    /* powers of 1024 */
    {"1Ki", 1024},
    {"1Mi", 1048576},
    {"2Gi", 2147483648},
    {"1Ti", 1099511627776},
    {"1Pi", 1125899906842624},
    {"1Ei", 1152921504606846976},
    {"7Ei", 8070450532247928832},
    {"7.9999999999999999991Ei", INT64_MAX}, /* 2^63 - 1.04 */
    {"0.5Ki", 512},
    {".001Ki", 2},
    {"0.0009765625Ki", 1},
    {"0.00097656250000000000000000000000000001Ki", 2},
    {"1.1Mi", 1153434},
    {"0.1Gi", 107374183},
    {"0.33333333333333333333Ki", 342},
    {"0.000000000000000000867361737988403547205962240695953369140625Ei", 1},
    /* decimal exponents */
    {"1e0", 1},
    {"1e3", 1000},
    {"1E3", 1000},
    {"1e+3", 1000},
    {"12.5E2", 1250},
    {"1500e-3", 2},
    {"1e-3", 1},
    {"1e-999999999999999999999", 1},
    {"0.000000000000000000000000000001e30", 1},
    {"1000000000000000000000000000000e-30", 1},
    {"9.223372036854775807e18", INT64_MAX},
    {"1e18", 1000000000000000000},
};

static void parses_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        int64_t bytes = -1;
        struct cv_err err;
        if (cv_parse_memory(amounts[i].text, strlen(amounts[i].text), &bytes, &err) != 0)
            fail_msg("%s: %s", amounts[i].text, err.message);
        if (bytes != amounts[i].bytes)
            fail_msg("%s: %lld", amounts[i].text, (long long)bytes);
    }
}

static const struct {
    const char *text;
    double cores;
} cores_of[] = {
    {"1", 1},
    {"500m", 0.5},
    {"100m", 0.1},
    {"0.1", 0.1},
    {".1", 0.1},
    {"1e-1", 0.1},
    {"1100m", 1.1},
    {"1.1", 1.1},
    {"4.35", 4.35},
    {"0.3", 0.3},
    {"2.675", 2.675},
    {"1234567.891", 1234567.891},
    {"0.000000001", 1e-9},
    {"1m", 0.001},
    {"16", 16},
    {"1k", 1000},
    {"1Ki", 1024},
    {"0.5Ki", 512},
    {"1E", 1e18},
    {"9223372036854775807", 9223372036854775807.0},
    /* finer than 10^-9: up */
    {"0.0000000001", 1e-9},
    {"1e-12", 1e-9},
    {"0.9999999999", 1},
    {"0.1000000001", 0.100000001},
    {"1.9999999999", 2},
};

static void parses_cpu_to_the_nearest_number(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cores_of / sizeof *cores_of; i++) {
        double cores = -1;
        struct cv_err err;
        const char *text = cores_of[i].text;
        if (cpu(text, strlen(text), &cores, &err) != 0)
            fail_msg("%s: %s", text, err.message);
        if (memcmp(&cores, &cores_of[i].cores, sizeof cores) != 0)
            fail_msg("%s: %.17g", text, cores);
    }
    /* As the C library reads the same digits. */
    for (int i = 1; i < 100000; i++) {
        char text[16];
        double cores;
        struct cv_err err;
        snprintf(text, sizeof text, "%d.%03d", i / 1000, i % 1000);
        assert_int_equal(cpu(text, strlen(text), &cores, &err), 0);
        assert_true(cores == strtod(text, NULL));
    }
}

static const struct {
    const char *text;
    const char *why;
} wrong[] = {
    {"", "must be an amount without a sign"},
    {" ", "must be an amount without a sign"},
    {" 1", "must be an amount without a sign"},
    {"1 ", "must be an amount without a sign"},
    {"1\n", "must be an amount without a sign"},
    {"1 Gi", "must be an amount without a sign"},
    {"-1", "must be an amount without a sign"},
    {"+1", "must be an amount without a sign"},
    {"-0", "must be an amount without a sign"},
    {".", "must be an amount without a sign"},
    {".m", "must be an amount without a sign"},
    {"m", "must be an amount without a sign"},
    {"Gi", "must be an amount without a sign"},
    {"e3", "must be an amount without a sign"},
    {"1.2.3", "must be an amount without a sign"},
    {"1..", "must be an amount without a sign"},
    {"1,5", "must be an amount without a sign"},
    {"1_000", "must be an amount without a sign"},
    {"0x10", "must be an amount without a sign"},
    {"1K", "must be an amount without a sign"},
    {"1ki", "must be an amount without a sign"},
    {"1mi", "must be an amount without a sign"},
    {"1MI", "must be an amount without a sign"},
    {"1GB", "must be an amount without a sign"},
    {"1GiB", "must be an amount without a sign"},
    {"1g", "must be an amount without a sign"},
    {"1u", "must be an amount without a sign"},
    {"1n", "must be an amount without a sign"},
    {"1Z", "must be an amount without a sign"},
    {"1i", "must be an amount without a sign"},
    {"1ei", "must be an amount without a sign"},
    {"1Eii", "must be an amount without a sign"},
    {"1e", "must be an amount without a sign"},
    {"1e+", "must be an amount without a sign"},
    {"1e-", "must be an amount without a sign"},
    {"1e3k", "must be an amount without a sign"},
    {"1e1.5", "must be an amount without a sign"},
    {"1e--1", "must be an amount without a sign"},
    {"1E3i", "must be an amount without a sign"},
    {"inf", "must be an amount without a sign"},
    {"nan", "must be an amount without a sign"},
    {"s3cret", "must be an amount without a sign"},
    {"0", "must be more than zero"},
    {"0.0", "must be more than zero"},
    {"0m", "must be more than zero"},
    {"0Ei", "must be more than zero"},
    {"0e9999", "must be more than zero"},
    {".000", "must be more than zero"},
    {"9223372036854775808", "is too large"},
    {"9223372036854775807.0000000000000001", "is too large"},
    {"18446744073709551616", "is too large"},
    {"18446744073709551617", "is too large"},
    {"99999999999999999999999999999999999999", "is too large"},
    {"8Ei", "is too large"},
    {"7.9999999999999999999Ei", "is too large"},
    {"10E", "is too large"},
    {"9.223372036854775808E", "is too large"},
    {"16384Pi", "is too large"},
    {"1e19", "is too large"},
    {"1e999999999999999999999", "is too large"},
    {"0.1e20", "is too large"},
    {"11111111111111111111111111111111111111111111111111111111111111111", "at most 64 bytes"},
};

static void refuses_each_with_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t bytes;
        struct cv_err err;
        const char *text = wrong[i].text;
        if (cv_parse_memory(text, strlen(text), &bytes, &err) == 0)
            fail_msg("%s: %lld", text, (long long)bytes);
        assert_string_equal(err.code, "invalid_option");
        if (strstr(err.message, wrong[i].why) == NULL)
            fail_msg("%s: %s", text, err.message);
        assert_null(strstr(err.message, "s3cret"));
    }
    double cores;
    struct cv_err err;
    assert_int_equal(cpu("1\0", 2, &cores, &err), -1);
    assert_int_equal(cpu("", 0, &cores, &err), -1);
    assert_int_equal(cpu("0", 1, &cores, &err), -1);
    assert_int_equal(cpu("9223372036854775808", 19, &cores, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_memory),
        cmocka_unit_test(parses_cpu_to_the_nearest_number),
        cmocka_unit_test(refuses_each_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
