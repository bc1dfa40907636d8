#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/env.h"

static bool accepts(const char *name, const char *value, struct cv_err *err)
{
    memset(err, 0, sizeof *err);
    return cv_env_check(name, strlen(name), value, strlen(value), err) == 0;
}

static void accepts_names_and_values(void **state)
{
    (void)state;
    static const char *const names[] = {"A", "a", "_", "_1", "PATH", "aZ_09", "GIT_CONFIG_KEY_0"};
    static const char *const values[] = {"", " ", "a=b", "x\ny\t", "\xc3\xa4\xff", "$(x)"};
    struct cv_err err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t j = 0; j < sizeof values / sizeof *values; j++)
            assert_true(accepts(names[i], values[j], &err));
    }
}

/* A wrong name is not shown: it may be a whole entry. */
static void refuses_other_names(void **state)
{
    (void)state;
    static const char *const names[] = {"",    "1",    "1A", "A=s3cret", "A B",   "A-B",     "A.B",
                                        "A\n", "\xc3", "=",  " A",       "A\x7f", "s3cret-x"};
    struct cv_err err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_false(accepts(names[i], "x", &err));
        assert_string_equal(err.code, "invalid_option");
        assert_non_null(strstr(err.message, "has a name that is not made of letters"));
        assert_null(strstr(err.message, "s3cret"));
    }
    assert_int_equal(cv_env_check("A\0B", 3, "x", 1, &err), -1);
    assert_non_null(strstr(err.message, "has a name"));
}

static void every_byte_of_a_name(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char name[2] = {'a', (char)byte};
        struct cv_err err;
        bool digit = byte >= '0' && byte <= '9';
        bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
        assert_int_equal(cv_env_check(name, 2, "", 0, &err) == 0, digit || letter);
        assert_int_equal(cv_env_check(name + 1, 1, "", 0, &err) == 0, letter);
    }
}

static void refuses_values_with_nul(void **state)
{
    (void)state;
    struct cv_err err;
    assert_int_equal(cv_env_check("TOKEN", 5, "s3cret\0", 7, &err), -1);
    assert_string_equal(err.code, "invalid_option");
    assert_string_equal(err.message, "has a value with a NUL byte: TOKEN");
    assert_int_equal(cv_env_check("TOKEN", 5, "\0s3cret", 7, &err), -1);
}

/* What execve(2) takes is one string, NAME=value. */
static void limits_an_entry(void **state)
{
    (void)state;
    struct cv_err err;
    size_t most = CV_ENV_ENTRY_MAX - 2;
    char *long_text = malloc(CV_ENV_ENTRY_MAX + 1);
    memset(long_text, 'x', CV_ENV_ENTRY_MAX + 1);
    assert_int_equal(cv_env_check("A", 1, long_text, most, &err), 0);
    assert_int_equal(cv_env_check("A", 1, long_text, most + 1, &err), -1);
    assert_string_equal(err.message,
                        "has a value that is too long, at most 131071 bytes with its name: A");
    assert_int_equal(cv_env_check(long_text, CV_ENV_ENTRY_MAX - 1, "", 0, &err), 0);
    assert_int_equal(cv_env_check(long_text, CV_ENV_ENTRY_MAX - 1, "y", 1, &err), -1);
    assert_int_equal(cv_env_check(long_text, CV_ENV_ENTRY_MAX, "", 0, &err), -1);
    assert_true(strlen(err.message) < 200);
    free(long_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_names_and_values), cmocka_unit_test(refuses_other_names),
        cmocka_unit_test(every_byte_of_a_name),     cmocka_unit_test(refuses_values_with_nul),
        cmocka_unit_test(limits_an_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
