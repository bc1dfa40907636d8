#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "output/collector.h"
#include "support/failing_realloc.h"
#include "support/utf8_reference.h"

static uint32_t next_random(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return *random >> 8;
}

static void expect_text(struct cv_collector *collector, const void *bytes, size_t length)
{
    const char *text;
    size_t got;
    assert_int_equal(cv_collector_text(collector, &text, &got), 0);
    assert_non_null(text);
    assert_int_equal(got, length);
    assert_memory_equal(text, bytes, length);
}

static void write_bytes(struct cv_collector *collector, const void *bytes, size_t length)
{
    /* Memory of exactly that size, so that a read past it shows. */
    uint8_t *copy = malloc(length);
    if (length > 0)
        memcpy(copy, bytes, length);
    assert_int_equal(cv_collector_write(collector, copy, length), 0);
    free(copy);
}

/* --- Decoding -------------------------------------------------------------------------------- */

#define R "\xef\xbf\xbd"

static const struct {
    const char *raw;
    const char *text;
} cases[] = {
    {"", ""},
    {"plain ASCII, over eight bytes \x01\x7f\n", "plain ASCII, over eight bytes \x01\x7f\n"},
    {"\xc2\x80\xdf\xbf", "\xc2\x80\xdf\xbf"},
    {"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
     "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"},
    {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
    {"\xef\xbb\xbf"
     "bom",
     "\xef\xbb\xbf"
     "bom"},
    /* Unicode 15, tables 3-8 to 3-11 */
    {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", R R R R R R R R "A"},
    {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", R R R R R R R R "A"},
    {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", R R R R R "A" R R "B"},
    {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A"},
    /* stray continuations, leads that are never good */
    {"\x80", R},
    {"a\xbf\x80z", "a" R R "z"},
    {"\xc1\xbf", R R},
    {"\xf5\x80\x80\x80", R R R R},
    {"\xfe\xff", R R},
    {"\xf8\x88\x80\x80\x80", R R R R R},
    /* unfinished at the end: one U+FFFD whatever its length */
    {"a\xc3", "a" R},
    {"a\xe2\x82", "a" R},
    {"a\xf0\x9f\x98", "a" R},
    {"a\xf0\x8f", "a" R R},
    {"a\xe0\x9f", "a" R R},
    {"a\xed\xa0", "a" R R},
    {"a\xf4\x90", "a" R R},
    /* unfinished and gone on with something else */
    {"\xc3"
     "a",
     R "a"},
    {"\xe2\x82"
     "a",
     R "a"},
    {"\xf0\x9f\x98"
     "a",
     R "a"},
    {"\xe2\xe2\x82\xac", R "\xe2\x82\xac"},
    {"\xe2\x82\xe2\x82\xac", R "\xe2\x82\xac"},
    {"\xf0\x9f\x98\xf0\x9f\x98\x80", R "\xf0\x9f\x98\x80"},
    {"\xf0\x9f\x98\xc3\xa9", R "\xc3\xa9"},
    {"\xf0\x9f\x98\xff", R R},
};

/* At every split into two and byte by byte, and by the reference too. */
static void replaces_maximal_subparts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length = strlen(cases[i].raw);
        uint8_t reference[256];
        struct reference expected =
            reference_decode((const uint8_t *)cases[i].raw, length, sizeof reference, reference);
        assert_int_equal(expected.length, strlen(cases[i].text));
        assert_memory_equal(reference, cases[i].text, expected.length);
        for (size_t split = 0; split <= length; split++) {
            struct cv_collector collector;
            cv_collector_init(&collector, 1000);
            write_bytes(&collector, cases[i].raw, split);
            write_bytes(&collector, cases[i].raw + split, length - split);
            expect_text(&collector, cases[i].text, strlen(cases[i].text));
            assert_false(collector.truncated);
            assert_false(cv_collector_incomplete(&collector));
            assert_int_equal(collector.total, length);
            cv_collector_free(&collector);
        }
    }
}

/* Every sequence of three bytes out of those at the ends of a range, in front of an "a". */
static void agrees_with_the_reference_on_short_inputs(void **state)
{
    (void)state;
    static const uint8_t edges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                    0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                    0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff};
    const size_t count = sizeof edges;
    for (size_t i = 0; i < count * count * count * 2; i++) {
        uint8_t raw[4] = {edges[i % count], edges[i / count % count],
                          edges[i / count / count % count], 'a'};
        size_t length = i < count * count * count ? 4 : 3;
        uint8_t expected[16];
        struct reference reference = reference_decode(raw, length, sizeof expected, expected);
        struct cv_collector collector;
        const char *text;
        size_t got;
        cv_collector_init(&collector, sizeof expected);
        if (cv_collector_write(&collector, raw, length) != 0 ||
            cv_collector_text(&collector, &text, &got) != 0 || got != reference.length ||
            memcmp(text, expected, got) != 0)
            fail_msg("%02x %02x %02x (%zu bytes)", raw[0], raw[1], raw[2], length);
        cv_collector_free(&collector);
    }
}

/* Bytes that are text for the most part, with damage. */
static size_t make_raw(uint32_t *random, uint8_t *raw, size_t size)
{
    size_t length = 0;
    while (length + 40 < size) {
        uint32_t kind = next_random(random) % 8;
        uint8_t character[4];
        size_t count = 1;
        if (kind == 0) {
            for (size_t run = next_random(random) % 30; run > 0; run--)
                raw[length++] = (uint8_t)(' ' + next_random(random) % 90);
            continue;
        }
        if (kind == 1)
            character[0] = (uint8_t)next_random(random);
        else
            count =
                reference_encode(next_random(random) % (kind < 4 ? 0x800 : 0x110000), character);
        if (kind == 7 && count > 1)
            count--; /* unfinished */
        memcpy(raw + length, character, count);
        length += count;
    }
    return length;
}

static void random_splits_equal_the_whole(void **state)
{
    (void)state;
    uint32_t random = 2024;
    static uint8_t raw[3000];
    static uint8_t expected[3 * sizeof raw];
    for (int round = 0; round < 400; round++) {
        size_t length = make_raw(&random, raw, 40 + next_random(&random) % (sizeof raw - 40));
        size_t max = round % 2 == 0 ? sizeof expected : next_random(&random) % 3000;
        struct reference reference = reference_decode(raw, length, max, expected);
        struct cv_collector collector;
        cv_collector_init(&collector, max);
        size_t longest = 1 + next_random(&random) % 200;
        for (size_t at = 0; at < length;) {
            size_t part = next_random(&random) % (longest + 1);
            if (part > length - at)
                part = length - at;
            write_bytes(&collector, raw + at, part);
            at += part;
            if (next_random(&random) % 4 == 0) {
                /* A snapshot on the way changes nothing. */
                static uint8_t partial[sizeof expected];
                struct reference so_far = reference_decode(raw, at, max, partial);
                expect_text(&collector, partial, so_far.length);
                assert_int_equal(cv_collector_incomplete(&collector), so_far.incomplete);
            }
        }
        expect_text(&collector, expected, reference.length);
        assert_int_equal(cv_collector_incomplete(&collector), reference.incomplete);
        assert_int_equal(collector.total, length);
        cv_collector_free(&collector);
    }
}

/* --- The cap --------------------------------------------------------------------------------- */

static void caps_at_every_byte(void **state)
{
    (void)state;
    static const char raw[] = "ab\xc3\xa9\xe2\x82\xac"
                              "c\xff\xf0\x9f\x98\x80"
                              "d\xe2\x82"
                              "e\xf0\x9f";
    size_t length = sizeof raw - 1;
    for (size_t max = 0; max <= 40; max++) {
        uint8_t expected[64];
        for (size_t step = 1; step <= length; step++) {
            struct reference reference =
                reference_decode((const uint8_t *)raw, length, max, expected);
            struct cv_collector collector;
            cv_collector_init(&collector, max);
            for (size_t at = 0; at < length; at += step)
                write_bytes(&collector, raw + at, step < length - at ? step : length - at);
            expect_text(&collector, expected, reference.length);
            assert_int_equal(cv_collector_incomplete(&collector), reference.incomplete);
            assert_int_equal(collector.total, length);
            cv_collector_free(&collector);
        }
    }
}

static void keeps_nothing_behind_what_was_dropped(void **state)
{
    (void)state;
    struct cv_collector collector;
    cv_collector_init(&collector, 4);
    write_bytes(&collector, "abc", 3);
    write_bytes(&collector, "\xe2\x82\xac", 3);
    assert_true(collector.truncated);
    write_bytes(&collector, "d", 1); /* would fit */
    expect_text(&collector, "abc", 3);
    assert_int_equal(collector.total, 7);
    cv_collector_free(&collector);
}

static void full_is_not_truncated(void **state)
{
    (void)state;
    struct cv_collector collector;
    cv_collector_init(&collector, 4);
    write_bytes(&collector, "abcd", 4);
    write_bytes(&collector, "", 0);
    assert_false(collector.truncated);
    assert_false(cv_collector_incomplete(&collector));
    write_bytes(&collector, "e", 1);
    assert_true(collector.truncated);
    assert_true(cv_collector_incomplete(&collector));
    expect_text(&collector, "abcd", 4);
    cv_collector_free(&collector);
}

/* The tail is shown as U+FFFD, or is missing where that does not fit; then it is finished. */
static void unfinished_tail_under_the_cap(void **state)
{
    (void)state;
    struct cv_collector collector;
    cv_collector_init(&collector, 4);
    write_bytes(&collector, "ab\xc3", 3);
    expect_text(&collector, "ab", 2);
    assert_false(collector.truncated);
    assert_true(cv_collector_incomplete(&collector));
    write_bytes(&collector, "\xa9", 1);
    expect_text(&collector, "ab\xc3\xa9", 4);
    assert_false(cv_collector_incomplete(&collector));
    write_bytes(&collector, "\xf0", 1);
    assert_true(cv_collector_incomplete(&collector));
    assert_false(collector.truncated);
    write_bytes(&collector, "\x9f\x98\x80", 3);
    assert_true(collector.truncated);
    expect_text(&collector, "ab\xc3\xa9", 4);
    cv_collector_free(&collector);
    cv_collector_init(&collector, 5);
    write_bytes(&collector, "ab\xe2\x82", 4);
    expect_text(&collector, "ab" R, 5);
    expect_text(&collector, "ab" R, 5);
    write_bytes(&collector, "\xac", 1);
    expect_text(&collector, "ab\xe2\x82\xac", 5);
    assert_false(cv_collector_incomplete(&collector));
    cv_collector_free(&collector);
}

static void keeps_nothing_with_a_cap_of_zero(void **state)
{
    (void)state;
    struct cv_collector collector;
    cv_collector_init(&collector, 0);
    expect_text(&collector, "", 0);
    assert_false(cv_collector_incomplete(&collector));
    write_bytes(&collector, "\xc3", 1);
    assert_true(cv_collector_incomplete(&collector));
    assert_false(collector.truncated);
    write_bytes(&collector, "\xa9", 1);
    assert_true(collector.truncated);
    expect_text(&collector, "", 0);
    assert_null(collector.text.bytes);
    cv_collector_free(&collector);
    cv_collector_free(&collector);
}

/* A producer that stops CV_COLLECTOR_SLACK behind the cap makes no difference to the text. */
static void slack_is_enough(void **state)
{
    (void)state;
    uint32_t random = 77;
    static uint8_t raw[400];
    for (int round = 0; round < 2000; round++) {
        size_t length = make_raw(&random, raw, 40 + next_random(&random) % (sizeof raw - 40));
        size_t max = next_random(&random) % 200;
        size_t sent = length < max + CV_COLLECTOR_SLACK ? length : max + CV_COLLECTOR_SLACK;
        struct cv_collector all, some;
        cv_collector_init(&all, max);
        cv_collector_init(&some, max);
        write_bytes(&all, raw, length);
        write_bytes(&some, raw, sent);
        const char *text;
        size_t size;
        assert_int_equal(cv_collector_text(&all, &text, &size), 0);
        expect_text(&some, text, size);
        if (cv_collector_incomplete(&all))
            assert_true(cv_collector_incomplete(&some));
        cv_collector_free(&all);
        cv_collector_free(&some);
    }
}

/* --- Memory ---------------------------------------------------------------------------------- */

static void memory_is_bounded_by_the_cap(void **state)
{
    (void)state;
    static uint8_t raw[65536];
    static const size_t caps[] = {0, 1, 100, 1000, 65536, 100000, 1000003};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        struct cv_collector collector;
        cv_collector_init(&collector, caps[i]);
        assert_null(collector.text.bytes);
        memset(raw, i % 2 == 0 ? 'x' : 0xff, sizeof raw);
        for (int round = 0; round < 100; round++)
            assert_int_equal(cv_collector_write(&collector, raw, sizeof raw), 0);
        assert_true(collector.text.size <= caps[i]);
        assert_int_equal(collector.total, 100 * sizeof raw);
        assert_true(collector.truncated);
        cv_collector_free(&collector);
    }
}

static void takes_nothing_without_memory(void **state)
{
    (void)state;
    if (!realloc_can_fail())
        skip();
    static uint8_t raw[4000];
    static uint8_t expected[3 * sizeof raw];
    uint32_t random = 4;
    for (int round = 0; round < 300; round++) {
        size_t length = make_raw(&random, raw, sizeof raw);
        struct reference reference = reference_decode(raw, length, sizeof expected, expected);
        struct cv_collector collector;
        cv_collector_init(&collector, sizeof expected);
        size_t at = 0;
        while (at < length) {
            size_t part = 1 + next_random(&random) % 1500;
            if (part > length - at)
                part = length - at;
            struct cv_collector before = collector;
            realloc_fails = true;
            realloc_limit = next_random(&random) % (2 * sizeof expected);
            errno = 0;
            int got = cv_collector_write(&collector, raw + at, part);
            realloc_fails = false;
            if (got == 0) {
                at += part;
                continue;
            }
            assert_int_equal(errno, ENOMEM);
            assert_int_equal(collector.total, before.total);
            assert_int_equal(collector.truncated, before.truncated);
            assert_int_equal(collector.pending_length, before.pending_length);
            assert_memory_equal(collector.pending, before.pending, before.pending_length);
            assert_int_equal(cv_buf_length(&collector.text), cv_buf_length(&before.text));
        }
        expect_text(&collector, expected, reference.length);
        cv_collector_free(&collector);
    }
}

static void snapshot_fails_without_memory(void **state)
{
    (void)state;
    if (!realloc_can_fail())
        skip();
    struct cv_collector collector;
    const char *text;
    size_t length;
    cv_collector_init(&collector, 10);
    write_bytes(&collector, "\xc3", 1);
    realloc_fails = true;
    realloc_limit = 0;
    int got = cv_collector_text(&collector, &text, &length);
    realloc_fails = false;
    assert_int_equal(got, -1);
    expect_text(&collector, R, 3);
    write_bytes(&collector, "\xa9", 1);
    expect_text(&collector, "\xc3\xa9", 2);
    cv_collector_free(&collector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_maximal_subparts),
        cmocka_unit_test(agrees_with_the_reference_on_short_inputs),
        cmocka_unit_test(random_splits_equal_the_whole),
        cmocka_unit_test(caps_at_every_byte),
        cmocka_unit_test(keeps_nothing_behind_what_was_dropped),
        cmocka_unit_test(full_is_not_truncated),
        cmocka_unit_test(unfinished_tail_under_the_cap),
        cmocka_unit_test(keeps_nothing_with_a_cap_of_zero),
        cmocka_unit_test(slack_is_enough),
        cmocka_unit_test(memory_is_bounded_by_the_cap),
        cmocka_unit_test(takes_nothing_without_memory),
        cmocka_unit_test(snapshot_fails_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
