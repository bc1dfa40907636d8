/* Docker's multiplexed stream, fed whole, byte by byte and cut in two at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/docker_stream.h"

struct outcome {
    char text[4][256]; /* by enum cv_docker_type */
    size_t length[4];
    char order[64]; /* of the streams, as they change */
    bool broken;
    bool whole;
};

static void take(struct outcome *outcome, const struct cv_docker_piece *piece)
{
    assert_true(piece->length > 0);
    assert_true(outcome->length[piece->type] + piece->length < sizeof outcome->text[0]);
    memcpy(outcome->text[piece->type] + outcome->length[piece->type], piece->bytes, piece->length);
    outcome->length[piece->type] += piece->length;
    size_t order = strlen(outcome->order);
    char name = (char)('0' + piece->type);
    if (order == 0 || outcome->order[order - 1] != name)
        outcome->order[order] = name;
}

static void run(struct outcome *outcome, const char *bytes, size_t length, size_t first,
                size_t step)
{
    struct cv_docker_stream stream;
    struct cv_docker_piece piece;
    memset(outcome, 0, sizeof *outcome);
    cv_docker_stream_init(&stream);
    int got = 0;
    for (size_t at = 0, size = first; at < length && got == 0; at += size, size = step) {
        if (size > length - at)
            size = length - at;
        char *chunk = malloc(size);
        memcpy(chunk, bytes + at, size);
        cv_docker_stream_push(&stream, chunk, size);
        while ((got = cv_docker_stream_next(&stream, &piece)) > 0)
            take(outcome, &piece);
        free(chunk);
    }
    outcome->broken = got < 0;
    outcome->whole = cv_docker_stream_whole(&stream);
    if (got < 0)
        assert_int_equal(cv_docker_stream_next(&stream, &piece), -1);
}

static struct outcome decode(const char *bytes, size_t length)
{
    struct outcome whole, cut;
    run(&whole, bytes, length, length, length);
    for (size_t first = 1; first <= length; first++) {
        run(&cut, bytes, length, first, first == 1 ? 1 : length);
        assert_memory_equal(&whole, &cut, sizeof whole);
    }
    return whole;
}

#define DECODE(literal) decode(literal, sizeof(literal) - 1)

static void streams_are_told_apart(void **state)
{
    (void)state;
    struct outcome outcome = DECODE("\1\0\0\0\0\0\0\3out"
                                    "\2\0\0\0\0\0\0\5error"
                                    "\1\0\0\0\0\0\0\0"
                                    "\1\0\0\0\0\0\0\1!"
                                    "\0\0\0\0\0\0\0\2in"
                                    "\3\0\0\0\0\0\0\4oops");
    assert_false(outcome.broken);
    assert_true(outcome.whole);
    assert_string_equal(outcome.text[CV_DOCKER_STDIN], "in");
    assert_string_equal(outcome.text[CV_DOCKER_STDOUT], "out!");
    assert_string_equal(outcome.text[CV_DOCKER_STDERR], "error");
    assert_string_equal(outcome.text[CV_DOCKER_SYSTEM], "oops");
    assert_string_equal(outcome.order, "12103");
}

static void stream_may_end_between_frames_only(void **state)
{
    (void)state;
    assert_true(decode("", 0).whole);
    assert_false(DECODE("\1").whole);
    assert_false(DECODE("\1\0\0\0\0\0\0").whole);
    assert_false(DECODE("\1\0\0\0\0\0\0\2").whole);
    assert_false(DECODE("\1\0\0\0\0\0\0\2a").whole);
    assert_true(DECODE("\1\0\0\0\0\0\0\2ab").whole);
    assert_true(DECODE("\1\0\0\0\0\0\0\0").whole);
}

static void what_is_no_header_is_refused(void **state)
{
    (void)state;
    assert_true(DECODE("\4\0\0\0\0\0\0\1x").broken);
    assert_true(DECODE("\xff\0\0\0\0\0\0\1x").broken);
    assert_true(DECODE("\1\1\0\0\0\0\0\1x").broken);
    assert_true(DECODE("\1\0\1\0\0\0\0\1x").broken);
    assert_true(DECODE("\1\0\0\1\0\0\0\1x").broken);
    struct outcome outcome = DECODE("\1\0\0\0\0\0\0\2abHTTP/1.1 500");
    assert_true(outcome.broken);
    assert_string_equal(outcome.text[CV_DOCKER_STDOUT], "ab");
}

/* The largest length costs nothing: the payload is handed out as it comes. */
static void length_makes_nobody_allocate(void **state)
{
    (void)state;
    struct cv_docker_stream stream;
    struct cv_docker_piece piece;
    static char chunk[65536];
    cv_docker_stream_init(&stream);
    cv_docker_stream_push(&stream, "\2\0\0\0\xff\xff\xff\xff", 8);
    assert_int_equal(cv_docker_stream_next(&stream, &piece), 0);
    for (uint64_t left = UINT32_MAX; left > 0; left -= piece.length) {
        cv_docker_stream_push(&stream, chunk, sizeof chunk);
        assert_int_equal(cv_docker_stream_next(&stream, &piece), 1);
        assert_int_equal(piece.type, CV_DOCKER_STDERR);
        assert_int_equal(piece.length, left < sizeof chunk ? left : sizeof chunk);
    }
    assert_true(cv_docker_stream_whole(&stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_told_apart),
        cmocka_unit_test(stream_may_end_between_frames_only),
        cmocka_unit_test(what_is_no_header_is_refused),
        cmocka_unit_test(length_makes_nobody_allocate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
