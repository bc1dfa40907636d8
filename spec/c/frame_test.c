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

#include "proto/supervise/frame.h"
#include "support/failing_realloc.h"

/* --- A script: what is fed, and the log of what comes out ------------------------------------ */

struct log {
    char text[4096];
    size_t length;
};

static void note(struct log *log, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(log->text + log->length, sizeof log->text - log->length, format, args);
    va_end(args);
    assert_true(length >= 0 && (size_t)length < sizeof log->text - log->length);
    log->length += (size_t)length;
}

static const char *type_name(uint8_t type)
{
    switch (type) {
#define X(name, value, side)                                                                       \
    case value:                                                                                    \
        return #name;
        CV_FRAME_TYPES(X)
#undef X
    default:
        return "?";
    }
}

/* "START#7+(abc) "; a long payload by its length and a sum. */
static void note_frame(struct log *log, const struct cv_frame *frame)
{
    const char *more = (frame->flags & CV_FRAME_MORE) != 0 ? "+" : "";
    if (frame->length <= 40) {
        note(log, "%s#%u%s(%.*s) ", type_name(frame->type), frame->id, more, (int)frame->length,
             frame->length == 0 ? "" : (const char *)frame->payload);
        return;
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < frame->length; i++)
        sum = sum * 31 + frame->payload[i];
    note(log, "%s#%u%s(%u:%08x) ", type_name(frame->type), frame->id, more, frame->length, sum);
}

/* Feeds one chunk from memory of its own, so that a read past it or a kept pointer shows. */
static bool feed(struct cv_frame_reader *reader, struct log *log, const uint8_t *bytes,
                 size_t length)
{
    uint8_t *chunk = malloc(length);
    if (length > 0)
        memcpy(chunk, bytes, length);
    cv_frame_reader_push(reader, chunk, length);
    struct cv_frame frame;
    int got;
    while ((got = cv_frame_reader_next(reader, &frame)) > 0)
        note_frame(log, &frame);
    if (got < 0)
        note(log, "!");
    free(chunk);
    return got == 0;
}

/* The log of a stream cut at two places, and after that into chunks of `step` bytes. */
static void run(struct log *log, char side, const struct cv_buf *stream, size_t first,
                size_t second, size_t step)
{
    struct cv_frame_reader reader;
    cv_frame_reader_init(&reader, side);
    log->length = 0;
    log->text[0] = '\0';
    size_t at = 0;
    bool going = true;
    while (going && at < cv_buf_length(stream)) {
        size_t end = at < first ? first : at < second ? second : at + step;
        if (end > cv_buf_length(stream) || end < at)
            end = cv_buf_length(stream);
        going = feed(&reader, log, cv_buf_data(stream) + at, end - at);
        at = end;
    }
    cv_frame_reader_free(&reader);
}

/* The case of a table that is running, for messages. */
static const char *label = "";

static void expect_log(const struct log *log, const char *expected, size_t first, size_t second,
                       size_t step)
{
    if (strcmp(log->text, expected) != 0)
        fail_msg("%s cut at %zu and %zu, then every %zu:\n  got      %s\n  expected %s", label,
                 first, second, step, log->text, expected);
}

/* The same log however the stream is cut; of long streams not every cut is tried. */
static void expect_stream(char side, const struct cv_buf *stream, const char *expected)
{
    struct log log;
    size_t length = cv_buf_length(stream);
    size_t stride = length / 150 + 1;
    for (size_t first = 0; first <= length; first += stride) {
        for (size_t second = first; second <= length; second += stride) {
            run(&log, side, stream, first, second, SIZE_MAX);
            expect_log(&log, expected, first, second, SIZE_MAX);
        }
    }
    for (size_t step = 1; step <= 40; step++) {
        run(&log, side, stream, 0, 0, step);
        expect_log(&log, expected, 0, 0, step);
    }
}

/* --- Frames ---------------------------------------------------------------------------------- */

static void append(struct cv_buf *stream, uint8_t type, uint32_t id, const char *text)
{
    assert_int_equal(cv_frame_append(stream, type, id, text, strlen(text)), 0);
}

/* One frame, with any flags. */
static void append_part(struct cv_buf *stream, uint8_t type, uint8_t flags, uint32_t id,
                        const void *bytes, uint32_t length)
{
    uint8_t header[CV_FRAME_HEADER_SIZE];
    cv_frame_header(header, type, flags, id, length);
    assert_int_equal(cv_buf_append(stream, header, sizeof header), 0);
    assert_int_equal(cv_buf_append(stream, bytes, length), 0);
}

static void header_layout(void **state)
{
    (void)state;
    const uint8_t expected[] = {0x04, 0x03, 0x02, 0x00, 0x02, 0x01, 0, 0, 0xdd, 0xcc, 0xbb, 0xaa};
    uint8_t header[CV_FRAME_HEADER_SIZE];
    memset(header, 0xee, sizeof header);
    cv_frame_header(header, CV_FRAME_START, CV_FRAME_MORE, 0xaabbccdd, 0x020304);
    assert_memory_equal(header, expected, sizeof expected);
}

static void frames_of_the_host(void **state)
{
    (void)state;
    struct cv_buf stream;
    cv_buf_init(&stream, 1 << 20);
    append(&stream, CV_FRAME_HELLO, 0, "hello");
    append(&stream, CV_FRAME_PONG, 0, "");
    append_part(&stream, CV_FRAME_START, CV_FRAME_MORE, 7, "ab", 2);
    append_part(&stream, CV_FRAME_START, 0, 7, "c", 1);
    append(&stream, CV_FRAME_STDIN, UINT32_MAX, "0123456789");
    append(&stream, CV_FRAME_STDIN_END, UINT32_MAX, "");
    append(&stream, CV_FRAME_CLOSE, 0, "");
    expect_stream('h', &stream,
                  "HELLO#0(hello) PONG#0() START#7+(ab) START#7(c) STDIN#4294967295(0123456789) "
                  "STDIN_END#4294967295() CLOSE#0() ");
    cv_buf_free(&stream);
}

static void frames_of_the_supervisor(void **state)
{
    (void)state;
    struct cv_buf stream;
    cv_buf_init(&stream, 1 << 20);
    append(&stream, CV_FRAME_READY, 0, "1234");
    append(&stream, CV_FRAME_PING, 0, "");
    append(&stream, CV_FRAME_STDOUT, 1, "out");
    append(&stream, CV_FRAME_STDERR, 1, "err");
    append(&stream, CV_FRAME_ENDED, 1, "ended");
    append(&stream, CV_FRAME_REMOVED, 2, "");
    expect_stream('s', &stream,
                  "READY#0(1234) PING#0() STDOUT#1(out) STDERR#1(err) ENDED#1(ended) "
                  "REMOVED#2() ");
    cv_buf_free(&stream);
}

static void largest_frames(void **state)
{
    (void)state;
    struct cv_buf stream;
    struct log whole;
    cv_buf_init(&stream, 1 << 20);
    uint8_t *payload = malloc(CV_FRAME_PAYLOAD_MAX);
    for (size_t i = 0; i < CV_FRAME_PAYLOAD_MAX; i++)
        payload[i] = (uint8_t)(i * 7 + i / 256);
    append_part(&stream, CV_FRAME_STDOUT, 0, 1, payload, CV_FRAME_PAYLOAD_MAX);
    append_part(&stream, CV_FRAME_STDERR, 0, 2, payload, CV_FRAME_PAYLOAD_MAX - 1);
    append(&stream, CV_FRAME_PING, 0, "");
    run(&whole, 's', &stream, 0, 0, SIZE_MAX);
    assert_non_null(strstr(whole.text, "STDOUT#1(32768:"));
    assert_non_null(strstr(whole.text, "STDERR#2(32767:"));
    for (size_t step = 1; step < 70000; step = step * 2 + 1) {
        struct log log;
        run(&log, 's', &stream, 0, 0, step);
        expect_log(&log, whole.text, 0, 0, step);
    }
    free(payload);
    cv_buf_free(&stream);
}

static void splits_a_long_message(void **state)
{
    (void)state;
    static const size_t lengths[] = {0,
                                     1,
                                     CV_FRAME_PAYLOAD_MAX - 1,
                                     CV_FRAME_PAYLOAD_MAX,
                                     CV_FRAME_PAYLOAD_MAX + 1,
                                     3 * CV_FRAME_PAYLOAD_MAX,
                                     CV_MESSAGE_MAX};
    uint8_t *message = malloc(CV_MESSAGE_MAX);
    for (size_t i = 0; i < CV_MESSAGE_MAX; i++)
        message[i] = (uint8_t)(i % 251);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct cv_buf stream;
        struct cv_frame_reader reader;
        struct cv_assembler assembler;
        struct cv_frame frame;
        cv_buf_init(&stream, 2 * CV_MESSAGE_MAX);
        cv_frame_reader_init(&reader, 'h');
        cv_assembler_init(&assembler, CV_MESSAGE_MAX);
        const void *bytes = lengths[i] == 0 ? NULL : message;
        assert_int_equal(cv_frame_append(&stream, CV_FRAME_START, 9, bytes, lengths[i]), 0);
        cv_frame_reader_push(&reader, cv_buf_data(&stream), cv_buf_length(&stream));
        int whole = 0;
        while (cv_frame_reader_next(&reader, &frame) == 1) {
            assert_int_equal(whole, 0);
            whole = cv_assembler_add(&assembler, &frame);
            assert_true(whole >= 0);
        }
        assert_int_equal(whole, 1);
        assert_int_equal(frame.length, lengths[i]);
        assert_int_equal(frame.flags, 0);
        if (lengths[i] > 0)
            assert_memory_equal(frame.payload, message, lengths[i]);
        cv_assembler_free(&assembler);
        cv_frame_reader_free(&reader);
        cv_buf_free(&stream);
    }
    free(message);
}

static void append_leaves_nothing_behind_when_refused(void **state)
{
    (void)state;
    struct cv_buf stream;
    uint8_t *bytes = calloc(1, CV_MESSAGE_MAX + 1);
    cv_buf_init(&stream, SIZE_MAX / 2);
    errno = 0;
    assert_int_equal(cv_frame_append(&stream, CV_FRAME_START, 1, bytes, CV_MESSAGE_MAX + 1), -1);
    assert_int_equal(errno, EMSGSIZE);
    assert_int_equal(cv_buf_length(&stream), 0);
    cv_buf_free(&stream);
    cv_buf_init(&stream, CV_FRAME_HEADER_SIZE + 3);
    errno = 0;
    assert_int_equal(cv_frame_append(&stream, CV_FRAME_START, 1, bytes, 4), -1);
    assert_int_equal(errno, ENOBUFS);
    assert_int_equal(cv_buf_length(&stream), 0);
    assert_int_equal(cv_frame_append(&stream, CV_FRAME_START, 1, bytes, 3), 0);
    cv_buf_free(&stream);
    free(bytes);
}

/* --- Garbage --------------------------------------------------------------------------------- */

static const struct garbage {
    char side;
    const char *what;
    uint8_t header[CV_FRAME_HEADER_SIZE];
} garbage[] = {
    {'h', "a payload of one byte too many", {0x01, 0x80, 0, 0, CV_FRAME_STDIN}},
    {'h', "a payload of 4 GiB", {0xff, 0xff, 0xff, 0xff, CV_FRAME_STDIN}},
    {'h', "a payload of 16 MiB", {0, 0, 0, 1, CV_FRAME_STDIN}},
    {'h', "type 0", {0, 0, 0, 0, 0}},
    {'h', "the type behind the last", {0, 0, 0, 0, 0x0c}},
    {'h', "type 0x80", {0, 0, 0, 0, 0x80}},
    {'h', "a type of the supervisor", {4, 0, 0, 0, CV_FRAME_READY}},
    {'s', "a type of the host", {0, 0, 0, 0, CV_FRAME_CLOSE}},
    {'s', "type 0", {0, 0, 0, 0, 0}},
    {'s', "the type behind the last", {0, 0, 0, 0, 0x8c}},
    {'s', "type 0xff", {0, 0, 0, 0, 0xff}},
    {'h', "an unknown flag", {0, 0, 0, 0, CV_FRAME_STDIN, 0x02}},
    {'h', "an unknown flag beside a known one", {0, 0, 0, 0, CV_FRAME_STDIN, 0x81}},
    {'s', "the first reserved byte", {0, 0, 0, 0, CV_FRAME_PING, 0, 1}},
    {'s', "the second reserved byte", {0, 0, 0, 0, CV_FRAME_PING, 0, 0, 0x80}},
    {'h', "an HTTP request", {'G', 'E', 'T', ' ', '/', ' ', 'H', 'T', 'T', 'P', '/', '1'}},
};

static void garbage_ends_the_stream(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        char side = garbage[i].side;
        struct cv_buf stream;
        cv_buf_init(&stream, 4096);
        append(&stream, side == 'h' ? CV_FRAME_STDIN : CV_FRAME_STDOUT, 3, "good");
        cv_buf_append(&stream, garbage[i].header, CV_FRAME_HEADER_SIZE);
        append(&stream, side == 'h' ? CV_FRAME_STDIN : CV_FRAME_STDOUT, 4, "never seen");
        label = garbage[i].what;
        expect_stream(side, &stream, side == 'h' ? "STDIN#3(good) !" : "STDOUT#3(good) !");
        label = "";
        cv_buf_free(&stream);
    }
}

static void stays_broken(void **state)
{
    (void)state;
    struct cv_buf stream;
    struct cv_frame_reader reader;
    struct log log = {.length = 0};
    cv_buf_init(&stream, 4096);
    append(&stream, CV_FRAME_PONG, 0, "");
    cv_frame_reader_init(&reader, 'h');
    assert_false(feed(&reader, &log, garbage[0].header, CV_FRAME_HEADER_SIZE));
    assert_false(feed(&reader, &log, cv_buf_data(&stream), cv_buf_length(&stream)));
    assert_false(feed(&reader, &log, NULL, 0));
    assert_string_equal(log.text, "!!!");
    cv_frame_reader_free(&reader);
    cv_buf_free(&stream);
}

/* A header alone must not make the reader take the memory that it speaks of. */
static void allocates_for_bytes_not_for_lengths(void **state)
{
    (void)state;
    struct cv_frame_reader reader;
    struct log log = {.length = 0};
    uint8_t header[CV_FRAME_HEADER_SIZE];
    uint8_t *payload = calloc(1, CV_FRAME_PAYLOAD_MAX);
    cv_frame_header(header, CV_FRAME_STDIN, 0, 1, CV_FRAME_PAYLOAD_MAX);
    cv_frame_reader_init(&reader, 'h');
    assert_int_equal(reader.carry.size, 0);
    assert_true(feed(&reader, &log, header, sizeof header));
    assert_true(reader.carry.size <= 1024);
    assert_true(feed(&reader, &log, payload, CV_FRAME_PAYLOAD_MAX - 1));
    assert_true(reader.carry.size <= CV_FRAME_MAX);
    assert_int_equal(log.length, 0);
    assert_true(feed(&reader, &log, payload, 1));
    assert_true(log.length > 0);
    cv_frame_reader_free(&reader);
    free(payload);
}

static void breaks_without_memory(void **state)
{
    (void)state;
    if (!realloc_can_fail())
        skip();
    struct cv_buf stream;
    struct cv_frame_reader reader;
    struct log log = {.length = 0};
    cv_buf_init(&stream, 4096);
    append(&stream, CV_FRAME_STDIN, 1, "whole");
    cv_frame_reader_init(&reader, 'h');
    realloc_fails = true;
    bool whole = feed(&reader, &log, cv_buf_data(&stream), cv_buf_length(&stream));
    bool half = feed(&reader, &log, cv_buf_data(&stream), 5);
    realloc_fails = false;
    assert_true(whole);
    assert_false(half);
    assert_string_equal(log.text, "STDIN#1(whole) !");
    cv_frame_reader_free(&reader);
    cv_buf_free(&stream);
}

/* --- Messages of several frames -------------------------------------------------------------- */

/*
 * Each word of a script is a frame, "S7+:ab": type (S start, I stdin, A abort, P pong), id, + for
 * CV_FRAME_MORE, payload. The log shows the messages in the order in which they became whole.
 */
static void assemble(size_t max, const char *script, const char *expected)
{
    struct cv_assembler assembler;
    struct log log = {.length = 0};
    cv_assembler_init(&assembler, max);
    for (const char *word = script; *word != '\0'; word += strspn(word, " ")) {
        char *behind_id;
        struct cv_frame frame = {.type = *word == 'S'   ? CV_FRAME_START
                                         : *word == 'I' ? CV_FRAME_STDIN
                                         : *word == 'A' ? CV_FRAME_ABORT
                                                        : CV_FRAME_PONG};
        frame.id = (uint32_t)strtoul(word + 1, &behind_id, 10);
        if (*behind_id == '+') {
            frame.flags = CV_FRAME_MORE;
            behind_id++;
        }
        assert_int_equal(*behind_id, ':');
        word = behind_id + 1;
        size_t length = strcspn(word, " ");
        /* Gone after the call, as the reader's bytes may be. */
        uint8_t *payload = malloc(length);
        if (length > 0)
            memcpy(payload, word, length);
        frame.payload = payload;
        frame.length = (uint32_t)length;
        word += length;
        int got = cv_assembler_add(&assembler, &frame);
        if (got > 0)
            note_frame(&log, &frame);
        free(payload);
        if (got < 0) {
            note(&log, "!");
            break;
        }
    }
    if (strcmp(log.text, expected) != 0)
        fail_msg("%s (at most %zu)\n  got      %s\n  expected %s", script, max, log.text, expected);
    cv_assembler_free(&assembler);
}

static void joins_the_parts(void **state)
{
    (void)state;
    assemble(100, "S7:abc", "START#7(abc) ");
    assemble(100, "S7+:ab S7:c", "START#7(abc) ");
    assemble(100, "S7+:a S7+:b S7+:c S7+:d S7:e", "START#7(abcde) ");
    assemble(100, "S7+: S7+:a S7:", "START#7(a) ");
    assemble(100, "S7+: S7:", "START#7() ");
    assemble(100, "S7+:ab S7:c S7+:d S7:e S8:f", "START#7(abc) START#7(de) START#8(f) ");
}

static void lets_other_frames_pass(void **state)
{
    (void)state;
    assemble(100, "S7+:ab P0: I7:in A3: S7:c P0:",
             "PONG#0() STDIN#7(in) ABORT#3() START#7(abc) PONG#0() ");
    assemble(100, "I2:x S7+:ab I2:y S7+:c I2:z S7:d",
             "STDIN#2(x) STDIN#2(y) STDIN#2(z) START#7(abcd) ");
}

static void refuses_a_second_open_message(void **state)
{
    (void)state;
    assemble(100, "S7+:ab S8+:c", "!");
    assemble(100, "S7+:ab S8:c", "!");
    assemble(100, "S7+:ab I7+:c", "!");
    assemble(100, "S7+:ab I7:c I7+:d", "STDIN#7(c) !");
    assemble(100, "S7+:ab S7:c I7+:d I7:e", "START#7(abc) STDIN#7(de) ");
}

static void keeps_the_limit(void **state)
{
    (void)state;
    assemble(5, "S1+:abc S1:de", "START#1(abcde) ");
    assemble(5, "S1+:abcde S1+: S1:", "START#1(abcde) ");
    assemble(5, "S1+:abc S1:def", "!");
    assemble(5, "S1+:abc S1+:de S1:f", "!");
    assemble(5, "S1+:abcdef", "!");
    assemble(5, "S1:abcdef", "!");
    assemble(5, "S1+:abc I1:abcdef", "!");
    assemble(
        5, "S1+:abc I1:abcde S1:de S1+:abcde S1:", "STDIN#1(abcde) START#1(abcde) START#1(abcde) ");
    assemble(0, "S1+: S1: P0:", "START#1() PONG#0() ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_layout),
        cmocka_unit_test(frames_of_the_host),
        cmocka_unit_test(frames_of_the_supervisor),
        cmocka_unit_test(largest_frames),
        cmocka_unit_test(splits_a_long_message),
        cmocka_unit_test(append_leaves_nothing_behind_when_refused),
        cmocka_unit_test(garbage_ends_the_stream),
        cmocka_unit_test(stays_broken),
        cmocka_unit_test(allocates_for_bytes_not_for_lengths),
        cmocka_unit_test(breaks_without_memory),
        cmocka_unit_test(joins_the_parts),
        cmocka_unit_test(lets_other_frames_pass),
        cmocka_unit_test(refuses_a_second_open_message),
        cmocka_unit_test(keeps_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
