/* Header fields: the grammar, look-ups, bounds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/headers.h"

static struct cv_headers headers;

static int add(const char *line)
{
    return cv_headers_add(&headers, line, strlen(line));
}

static int set_up(void **state)
{
    (void)state;
    cv_headers_init(&headers);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cv_headers_free(&headers);
    return 0;
}

static void fields_are_found_in_any_case(void **state)
{
    (void)state;
    assert_int_equal(add("Content-Type: text/plain; charset=utf-8"), 0);
    assert_int_equal(add("X-EMPTY:"), 0);
    assert_int_equal(add("x-spaces: \t a  b\t "), 0);
    assert_int_equal(add("X-Odd!#$%&'*+-.^_`|~9:colon:colon"), 0);
    assert_int_equal(add("X-Latin: caf\xe9"), 0);
    assert_string_equal(cv_headers_get(&headers, "content-type"), "text/plain; charset=utf-8");
    assert_string_equal(cv_headers_get(&headers, "x-empty"), "");
    assert_string_equal(cv_headers_get(&headers, "x-spaces"), "a  b");
    assert_string_equal(cv_headers_get(&headers, "x-odd!#$%&'*+-.^_`|~9"), "colon:colon");
    assert_string_equal(cv_headers_get(&headers, "x-latin"), "caf\xe9");
    assert_null(cv_headers_get(&headers, "content"));
    assert_int_equal(headers.count, 5);
}

static void list_has_all_in_their_order(void **state)
{
    (void)state;
    assert_int_equal(cv_headers_list(&headers).count, 0);
    assert_null(cv_headers_list(&headers).bytes);
    add("A: 1");
    add("a: 2");
    const struct cv_strings list = cv_headers_list(&headers);
    assert_int_equal(list.count, 4);
    assert_int_equal(list.length, 8);
    assert_memory_equal(list.bytes,
                        "a\0"
                        "1\0"
                        "a\0"
                        "2",
                        8);
    assert_string_equal(cv_headers_get(&headers, "a"), "1");
    cv_headers_clear(&headers);
    assert_null(cv_headers_get(&headers, "a"));
}

static void what_is_no_field_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",         "no colon", ": no name", "two words: x", "tab\t: x",   " folded: x",
        "\tfolded", "a\x01: x", "a: x\x01y", "a: x\ry",      "a: del\x7f", "caf\xe9: x",
        "a(b): x",  "a,b: x",   "\"a\": x",  "a : x",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        errno = 0;
        if (add(lines[i]) != -1 || errno != EINVAL)
            fail_msg("taken: %s", lines[i]);
    }
    assert_int_equal(cv_headers_add(&headers, "a: x\0y", 6), -1);
    assert_int_equal(headers.count, 0);
}

static void number_and_size_are_bounded(void **state)
{
    (void)state;
    char line[CV_HEADERS_MAX];
    for (unsigned i = 0; i < CV_HEADERS_COUNT; i++)
        assert_int_equal(add("a: b"), 0);
    assert_int_equal(add("a: b"), -1);
    assert_int_equal(errno, ENOBUFS);
    cv_headers_clear(&headers);
    memset(line, 'x', sizeof line);
    memcpy(line, "a:", 2);
    /* One byte less for the colon, two NULs more: one byte too long. */
    assert_int_equal(cv_headers_add(&headers, line, sizeof line), -1);
    assert_int_equal(errno, ENOBUFS);
    assert_int_equal(headers.count, 0);
    assert_int_equal(cv_headers_add(&headers, line, sizeof line - 1), 0);
    assert_int_equal(strlen(cv_headers_get(&headers, "a")), sizeof line - 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fields_are_found_in_any_case, set_up, tear_down),
        cmocka_unit_test_setup_teardown(list_has_all_in_their_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_field_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(number_and_size_are_bounded, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
