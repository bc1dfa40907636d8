/* Lines of newline-delimited JSON, fed whole, byte by byte and cut in two at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/ndjson.h"
#include "support/failing_realloc.h"

#define MAX 8

/* All lines, each behind "|"; "!" where the splitter broke. */
static void run(char *log, const char *bytes, size_t length, size_t first, size_t step)
{
    struct cv_ndjson splitter;
    const char *line;
    size_t count;
    int got = 0;
    char *end = log;
    *end = '\0';
    cv_ndjson_init(&splitter, MAX);
    for (size_t at = 0, size = first; at < length && got == 0; at += size, size = step) {
        if (size > length - at)
            size = length - at;
        char *chunk = malloc(size);
        memcpy(chunk, bytes + at, size);
        cv_ndjson_push(&splitter, chunk, size);
        while ((got = cv_ndjson_next(&splitter, &line, &count)) > 0)
            end += sprintf(end, "|%.*s", (int)count, line);
        free(chunk);
    }
    got = cv_ndjson_end(&splitter, &line, &count);
    if (got > 0)
        end += sprintf(end, "|%.*s", (int)count, line);
    if (got < 0) {
        assert_int_equal(cv_ndjson_next(&splitter, &line, &count), -1);
        strcpy(end, "!");
    }
    assert_true(splitter.carry.size <= MAX + 1);
    cv_ndjson_free(&splitter);
}

static void assert_lines(const char *text, const char *expected)
{
    char whole[256], cut[256];
    size_t length = strlen(text);
    run(whole, text, length, length, length);
    assert_string_equal(whole, expected);
    for (size_t first = 1; first <= length; first++) {
        run(cut, text, length, first, first == 1 ? 1 : length);
        assert_string_equal(cut, expected);
    }
}

static void lines_are_cut(void **state)
{
    (void)state;
    assert_lines("", "");
    assert_lines("{}\n[1]\n", "|{}|[1]");
    assert_lines("{}\r\n[1]\r\n", "|{}|[1]");
    assert_lines("{}\n[1]", "|{}|[1]");
    assert_lines("{}\n[1]\r", "|{}|[1]");
    assert_lines("\n\r\n\n{}\n\n\n", "|{}");
    assert_lines("a\rb\n", "|a\rb");
}

static void length_of_a_line_is_bounded(void **state)
{
    (void)state;
    assert_lines("12345678\n12345678\r\n12345678", "|12345678|12345678|12345678");
    assert_lines("ab\n123456789\ncd\n", "|ab!");
    assert_lines("123456789\r\n", "!");
    assert_lines("123456789", "!");
    assert_lines("12345678\r\r\n", "!");
}

static void without_memory_it_breaks(void **state)
{
    (void)state;
    struct cv_ndjson splitter;
    const char *line;
    size_t count;
    if (!realloc_can_fail())
        skip();
    cv_ndjson_init(&splitter, 64);
    cv_ndjson_push(&splitter, "{}\n[", 4);
    assert_int_equal(cv_ndjson_next(&splitter, &line, &count), 1); /* a whole line needs none */
    realloc_fails = true;
    assert_int_equal(cv_ndjson_next(&splitter, &line, &count), -1);
    realloc_fails = false;
    assert_int_equal(cv_ndjson_end(&splitter, &line, &count), -1);
    cv_ndjson_free(&splitter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_cut),
        cmocka_unit_test(length_of_a_line_is_bounded),
        cmocka_unit_test(without_memory_it_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
