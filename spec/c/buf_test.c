#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "support/failing_realloc.h"

static void expect(const struct cv_buf *buf, const char *bytes)
{
    assert_int_equal(cv_buf_length(buf), strlen(bytes));
    assert_memory_equal(cv_buf_data(buf), bytes, strlen(bytes));
}

static void empty_buffer_has_no_memory(void **state)
{
    (void)state;
    struct cv_buf buf;
    cv_buf_init(&buf, 10);
    assert_int_equal(cv_buf_length(&buf), 0);
    assert_null(cv_buf_data(&buf));
    cv_buf_consume(&buf, 0);
    assert_null(buf.bytes);
    cv_buf_free(&buf);
    cv_buf_free(&buf);
}

static void appends_and_consumes(void **state)
{
    (void)state;
    struct cv_buf buf;
    cv_buf_init(&buf, 10);
    assert_int_equal(cv_buf_append(&buf, "abc", 3), 0);
    assert_int_equal(cv_buf_append(&buf, NULL, 0), 0);
    assert_int_equal(cv_buf_append(&buf, "def", 3), 0);
    expect(&buf, "abcdef");
    cv_buf_consume(&buf, 2);
    expect(&buf, "cdef");
    cv_buf_consume(&buf, 4);
    expect(&buf, "");
    assert_int_equal(buf.start, 0);
    cv_buf_free(&buf);
}

static void reserve_claims_only_what_is_committed(void **state)
{
    (void)state;
    struct cv_buf buf;
    cv_buf_init(&buf, 10);
    uint8_t *room = cv_buf_reserve(&buf, 10);
    assert_non_null(room);
    memcpy(room, "0123456789", 10);
    assert_int_equal(cv_buf_length(&buf), 0);
    cv_buf_commit(&buf, 4);
    expect(&buf, "0123");
    assert_ptr_equal(cv_buf_reserve(&buf, 6), buf.bytes + 4);
    cv_buf_free(&buf);
}

static void refuses_more_than_the_maximum(void **state)
{
    (void)state;
    struct cv_buf buf;
    cv_buf_init(&buf, 5);
    errno = 0;
    assert_null(cv_buf_reserve(&buf, 6));
    assert_int_equal(errno, ENOBUFS);
    assert_null(cv_buf_reserve(&buf, SIZE_MAX));
    assert_int_equal(cv_buf_append(&buf, "abc", 3), 0);
    errno = 0;
    assert_int_equal(cv_buf_append(&buf, "def", 3), -1);
    assert_int_equal(errno, ENOBUFS);
    expect(&buf, "abc");
    assert_int_equal(cv_buf_append(&buf, "de", 2), 0);
    cv_buf_consume(&buf, 1);
    assert_int_equal(cv_buf_append(&buf, "f", 1), 0);
    expect(&buf, "bcdef");
    cv_buf_free(&buf);
}

static void never_allocates_past_the_maximum(void **state)
{
    (void)state;
    struct cv_buf buf;
    for (size_t max = 0; max < 1200; max += 7) {
        cv_buf_init(&buf, max);
        for (size_t i = 0; i < max; i++) {
            assert_int_equal(cv_buf_append(&buf, "x", 1), 0);
            assert_true(buf.size <= max);
        }
        assert_int_equal(cv_buf_append(&buf, "x", 1), -1);
        assert_int_equal(cv_buf_append(&buf, "", 0), 0);
        cv_buf_free(&buf);
    }
}

/* A queue of a known sequence of bytes, fed and drained in uneven pieces. */
static void keeps_the_order_of_bytes(void **state)
{
    (void)state;
    struct cv_buf buf;
    cv_buf_init(&buf, 1000);
    uint8_t in = 0, out = 0;
    uint32_t random = 1;
    for (int round = 0; round < 20000; round++) {
        random = random * 1664525 + 1013904223;
        size_t count = (random >> 16) % 300;
        uint8_t *room = (random >> 31) ? cv_buf_reserve(&buf, count) : NULL;
        if (room != NULL) {
            for (size_t i = 0; i < count; i++)
                room[i] = in++;
            cv_buf_commit(&buf, count);
        } else {
            if (count > cv_buf_length(&buf))
                count = cv_buf_length(&buf);
            for (size_t i = 0; i < count; i++) {
                if (cv_buf_data(&buf)[i] != out++)
                    fail_msg("byte %zu of round %d", i, round);
            }
            cv_buf_consume(&buf, count);
        }
    }
    cv_buf_free(&buf);
}

static void is_usable_after_free(void **state)
{
    (void)state;
    struct cv_buf buf;
    cv_buf_init(&buf, 4);
    assert_int_equal(cv_buf_append(&buf, "abcd", 4), 0);
    cv_buf_free(&buf);
    expect(&buf, "");
    assert_int_equal(cv_buf_append(&buf, "abcde", 5), -1);
    assert_int_equal(cv_buf_append(&buf, "wxyz", 4), 0);
    expect(&buf, "wxyz");
    cv_buf_free(&buf);
}

static void keeps_its_bytes_without_memory(void **state)
{
    (void)state;
    if (!realloc_can_fail())
        skip();
    struct cv_buf buf;
    cv_buf_init(&buf, SIZE_MAX);
    realloc_fails = true;
    errno = 0;
    assert_null(cv_buf_reserve(&buf, 1));
    assert_int_equal(errno, ENOMEM);
    realloc_fails = false;
    assert_int_equal(cv_buf_append(&buf, "abc", 3), 0);
    cv_buf_consume(&buf, 1);
    realloc_fails = true;
    errno = 0;
    assert_null(cv_buf_reserve(&buf, 1000));
    assert_int_equal(errno, ENOMEM);
    /* More than half of what a size can say: the doubling must not wrap around. */
    assert_null(cv_buf_reserve(&buf, SIZE_MAX / 2 + 2));
    realloc_fails = false;
    expect(&buf, "bc");
    cv_buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_buffer_has_no_memory),
        cmocka_unit_test(appends_and_consumes),
        cmocka_unit_test(reserve_claims_only_what_is_committed),
        cmocka_unit_test(refuses_more_than_the_maximum),
        cmocka_unit_test(never_allocates_past_the_maximum),
        cmocka_unit_test(keeps_the_order_of_bytes),
        cmocka_unit_test(is_usable_after_free),
        cmocka_unit_test(keeps_its_bytes_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
