/* The messages about files, and their way through frames: src/proto/supervise. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/supervise/frame.h"
#include "proto/supervise/message.h"
#include "proto/supervise/wire.h"

/* Decodes from memory of exactly that size, so that a read past it shows. */
static bool decodes(bool writes, const void *payload, size_t length)
{
    struct cv_read_file read;
    struct cv_write_file write;
    uint8_t *copy = calloc(1, length);
    if (length > 0)
        memcpy(copy, payload, length);
    bool good = writes ? cv_write_file_decode(copy, length, &write)
                       : cv_read_file_decode(copy, length, &read);
    free(copy);
    return good;
}

static const char *path_of(size_t length)
{
    static char path[CV_FILE_PATH_MAX + 2];
    memset(path, 'p', sizeof path);
    path[length] = '\0';
    return path;
}

static void read_round_trip(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, CV_FILE_MAX};
    static const char *const paths[] = {"", "f", "a/../b c/\xff\n"};
    for (size_t i = 0; i < 3; i++) {
        const struct cv_read_file read = {.max = sizes[i], .path = paths[i]};
        struct cv_read_file got;
        struct cv_buf out;
        cv_buf_init(&out, 100);
        assert_int_equal(cv_read_file_encode(&out, &read), 0);
        assert_true(cv_read_file_decode(cv_buf_data(&out), cv_buf_length(&out), &got));
        assert_int_equal(got.max, sizes[i]);
        assert_string_equal(got.path, paths[i]);
        for (size_t cut = 0; cut < cv_buf_length(&out); cut++)
            assert_false(decodes(false, cv_buf_data(&out), cut));
        assert_int_equal(cv_buf_append(&out, "", 1), 0);
        assert_false(decodes(false, cv_buf_data(&out), cv_buf_length(&out)));
        cv_buf_free(&out);
    }
}

static bool read_accepted(uint32_t max, const char *path)
{
    const struct cv_read_file read = {.max = max, .path = path};
    struct cv_buf out;
    cv_buf_init(&out, CV_MESSAGE_MAX);
    assert_int_equal(cv_read_file_encode(&out, &read), 0);
    bool good = decodes(false, cv_buf_data(&out), cv_buf_length(&out));
    cv_buf_free(&out);
    return good;
}

static void read_refuses_values(void **state)
{
    (void)state;
    assert_true(read_accepted(CV_FILE_MAX, path_of(CV_FILE_PATH_MAX)));
    assert_false(read_accepted(CV_FILE_MAX, path_of(CV_FILE_PATH_MAX + 1)));
    assert_false(read_accepted(CV_FILE_MAX + 1, "f"));
    assert_false(read_accepted(UINT32_MAX, "f"));
    assert_false(read_accepted(1, "/"));
    assert_false(read_accepted(1, "/f"));
}

static void write_round_trip(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const char *bytes;
        size_t length;
    } table[] = {{"f", NULL, 0}, {"", "\0x\0", 3}, {"a/b", "content", 7}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct cv_write_file write = {.path = table[i].path,
                                            .bytes = (const uint8_t *)table[i].bytes,
                                            .length = table[i].length};
        struct cv_write_file got;
        struct cv_buf out;
        cv_buf_init(&out, 100);
        assert_int_equal(cv_write_file_encode(&out, &write), 0);
        assert_true(cv_write_file_decode(cv_buf_data(&out), cv_buf_length(&out), &got));
        assert_string_equal(got.path, table[i].path);
        assert_int_equal(got.length, table[i].length);
        if (got.length > 0)
            assert_memory_equal(got.bytes, table[i].bytes, got.length);
        /* Only the path has an end of its own: a shorter content is a message, too. */
        for (size_t cut = 0; cut < cv_buf_length(&out); cut++)
            assert_int_equal(decodes(true, cv_buf_data(&out), cut), cut > strlen(table[i].path));
        cv_buf_free(&out);
    }
}

static bool write_accepted(const char *path, size_t length)
{
    uint8_t *bytes = calloc(1, length);
    const struct cv_write_file write = {.path = path, .bytes = bytes, .length = length};
    struct cv_buf out;
    cv_buf_init(&out, CV_MESSAGE_MAX);
    assert_int_equal(cv_write_file_encode(&out, &write), 0);
    bool good = decodes(true, cv_buf_data(&out), cv_buf_length(&out));
    cv_buf_free(&out);
    free(bytes);
    return good;
}

static void write_refuses_values(void **state)
{
    (void)state;
    assert_true(write_accepted(path_of(CV_FILE_PATH_MAX), CV_FILE_MAX));
    assert_false(write_accepted("f", CV_FILE_MAX + 1));
    assert_false(write_accepted(path_of(CV_FILE_PATH_MAX + 1), 1));
    assert_false(write_accepted("/f", 1));
    assert_false(decodes(true, NULL, 0));
    assert_false(decodes(true, "f", 1));
}

static void encoders_append_all_or_nothing(void **state)
{
    (void)state;
    const struct cv_read_file read = {.max = 1, .path = "path"};
    const struct cv_write_file write = {
        .path = "path", .bytes = (const uint8_t *)"content", .length = 7};
    for (size_t max = 0; max < 15; max++) {
        struct cv_buf out;
        cv_buf_init(&out, max);
        errno = 0;
        assert_int_equal(cv_read_file_encode(&out, &read), max >= 9 ? 0 : -1);
        assert_int_equal(cv_buf_length(&out), max >= 9 ? 9 : 0);
        assert_int_equal(errno, max >= 9 ? 0 : ENOBUFS);
        cv_buf_free(&out);
        assert_int_equal(cv_write_file_encode(&out, &write), max >= 12 ? 0 : -1);
        assert_int_equal(cv_buf_length(&out), max >= 12 ? 12 : 0);
        cv_buf_free(&out);
    }
}

/* The largest write fits into a message; the memory of a message goes when it was handled. */
static void largest_write_in_frames(void **state)
{
    (void)state;
    struct cv_buf payload, stream;
    struct cv_frame_reader reader;
    struct cv_assembler assembler;
    struct cv_frame frame;
    struct cv_write_file got;
    uint8_t *bytes = malloc(CV_FILE_MAX);
    memset(bytes, 'x', CV_FILE_MAX);
    const struct cv_write_file write = {
        .path = path_of(CV_FILE_PATH_MAX), .bytes = bytes, .length = CV_FILE_MAX};
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    cv_buf_init(&stream, 2 * CV_MESSAGE_MAX);
    cv_frame_reader_init(&reader, 'h');
    cv_assembler_init(&assembler, CV_MESSAGE_MAX);
    assert_int_equal(cv_write_file_encode(&payload, &write), 0);
    assert_int_equal(cv_frame_append(&stream, CV_FRAME_WRITE_FILE, 7, cv_buf_data(&payload),
                                     cv_buf_length(&payload)),
                     0);
    cv_frame_reader_push(&reader, cv_buf_data(&stream), cv_buf_length(&stream));
    int whole = 0;
    while (cv_frame_reader_next(&reader, &frame) == 1) {
        cv_assembler_release(&assembler); /* not while the message is open */
        whole = cv_assembler_add(&assembler, &frame);
    }
    assert_int_equal(whole, 1);
    assert_int_equal(frame.id, 7);
    assert_true(cv_write_file_decode(frame.payload, frame.length, &got));
    assert_string_equal(got.path, write.path);
    assert_int_equal(got.length, CV_FILE_MAX);
    assert_memory_equal(got.bytes, bytes, CV_FILE_MAX);
    cv_assembler_release(&assembler);
    assert_int_equal(assembler.bytes.size, 0);
    cv_frame_reader_free(&reader);
    cv_buf_free(&stream);
    cv_buf_free(&payload);
    free(bytes);
}

/* Each type is of one side only. */
static void frames_have_a_side(void **state)
{
    (void)state;
    static const struct {
        uint8_t type;
        char side;
    } table[] = {{CV_FRAME_READ_FILE, 'h'},
                 {CV_FRAME_WRITE_FILE, 'h'},
                 {CV_FRAME_FILE, 's'},
                 {CV_FRAME_WRITTEN, 's'}};
    for (size_t i = 0; i < 8; i++) {
        struct cv_frame_reader reader;
        struct cv_frame frame;
        uint8_t header[CV_FRAME_HEADER_SIZE];
        char side = i < 4 ? 'h' : 's';
        cv_frame_header(header, table[i % 4].type, CV_FRAME_MORE, 1, 0);
        cv_frame_reader_init(&reader, side);
        cv_frame_reader_push(&reader, header, sizeof header);
        assert_int_equal(cv_frame_reader_next(&reader, &frame), side == table[i % 4].side ? 1 : -1);
        cv_frame_reader_free(&reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_round_trip),
        cmocka_unit_test(read_refuses_values),
        cmocka_unit_test(write_round_trip),
        cmocka_unit_test(write_refuses_values),
        cmocka_unit_test(encoders_append_all_or_nothing),
        cmocka_unit_test(largest_write_in_frames),
        cmocka_unit_test(frames_have_a_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
