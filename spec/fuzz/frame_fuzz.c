/*
 * The stream between host and supervisor, as a hostile peer may send it. The first byte of an input
 * says whose frames are read (bit 0) and in chunks of which size (the other bits; 0: all at once);
 * the rest is the stream. Every frame goes through the assembler and its message through the
 * decoder, and the whole is done again byte by byte, which must make no difference.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/supervise/frame.h"
#include "proto/supervise/message.h"
#include "proto/supervise/wire.h"
#include "require.h"
#include "support/mutate.h"

/* What a run over a stream came to, for comparison with another run over the same bytes. */
struct outcome {
    uint64_t hash;
    uint32_t messages;
    uint32_t decoded;
    bool broken;
};

static void mix(struct outcome *outcome, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        outcome->hash = (outcome->hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
}

/* Every string of a list ends inside of it. */
static void check_strings(const struct cv_strings *list, const uint8_t *payload, size_t length)
{
    REQUIRE((list->count == 0) == (list->bytes == NULL));
    if (list->count == 0) {
        REQUIRE(list->length == 0);
        return;
    }
    const char *end = list->bytes + list->length;
    REQUIRE((const uint8_t *)list->bytes >= payload && (const uint8_t *)end <= payload + length);
    const char *string = list->bytes;
    for (uint32_t i = 0; i < list->count; i++) {
        REQUIRE(string < end);
        string = cv_strings_next(string);
    }
    REQUIRE(string == end);
}

static bool decode_hello(const uint8_t *payload, size_t length)
{
    struct cv_hello hello;
    struct cv_buf again;
    if (!cv_hello_decode(payload, length, &hello))
        return false;
    REQUIRE(hello.base[0] == '/' && hello.credit > 0 && hello.stdin_credit > 0);
    check_strings(&hello.names, payload, length);
    check_strings(&hello.env, payload, length);
    cv_buf_init(&again, CV_MESSAGE_MAX);
    REQUIRE(cv_hello_encode(&again, &hello) == 0 && cv_buf_length(&again) == length &&
            memcmp(cv_buf_data(&again), payload, length) == 0);
    cv_buf_free(&again);
    return true;
}

static bool decode_start(const uint8_t *payload, size_t length)
{
    struct cv_start start;
    struct cv_buf again;
    if (!cv_start_decode(payload, length, &start))
        return false;
    REQUIRE(start.argv.count > 0 && start.timeout_ms > 0 && start.cwd[0] != '/');
    check_strings(&start.argv, payload, length);
    cv_buf_init(&again, CV_MESSAGE_MAX);
    REQUIRE(cv_start_encode(&again, &start) == 0 && cv_buf_length(&again) == length &&
            memcmp(cv_buf_data(&again), payload, length) == 0);
    cv_buf_free(&again);
    return true;
}

static bool decode_read_file(const uint8_t *payload, size_t length)
{
    struct cv_read_file read;
    struct cv_buf again;
    if (!cv_read_file_decode(payload, length, &read))
        return false;
    REQUIRE(read.max <= CV_FILE_MAX && read.path[0] != '/');
    REQUIRE(strlen(read.path) == length - 5 && length - 5 <= CV_FILE_PATH_MAX);
    cv_buf_init(&again, CV_MESSAGE_MAX);
    REQUIRE(cv_read_file_encode(&again, &read) == 0 && cv_buf_length(&again) == length &&
            memcmp(cv_buf_data(&again), payload, length) == 0);
    cv_buf_free(&again);
    return true;
}

static bool decode_write_file(const uint8_t *payload, size_t length)
{
    struct cv_write_file write;
    struct cv_buf again;
    if (!cv_write_file_decode(payload, length, &write))
        return false;
    REQUIRE(write.length <= CV_FILE_MAX && write.path[0] != '/');
    REQUIRE(strlen(write.path) <= CV_FILE_PATH_MAX &&
            write.bytes + write.length == payload + length);
    cv_buf_init(&again, CV_MESSAGE_MAX);
    REQUIRE(cv_write_file_encode(&again, &write) == 0 && cv_buf_length(&again) == length &&
            memcmp(cv_buf_data(&again), payload, length) == 0);
    cv_buf_free(&again);
    return true;
}

static bool decode_ended(const uint8_t *payload, size_t length)
{
    struct cv_ended ended;
    uint8_t again[CV_ENDED_SIZE];
    if (!cv_ended_decode(payload, length, &ended))
        return false;
    REQUIRE(ended.how == CV_ENDED_EXITED ? ended.value <= 255 : ended.value - 1 < 127);
    cv_ended_encode(again, &ended);
    REQUIRE(length == sizeof again && memcmp(again, payload, length) == 0);
    return true;
}

static bool decode_failure(const uint8_t *payload, size_t length)
{
    struct cv_failure failure;
    uint8_t again[8 + CV_FAILURE_TEXT_MAX];
    if (!cv_failure_decode(payload, length, &failure))
        return false;
    REQUIRE(cv_failure_public_code(failure.code) != NULL);
    REQUIRE(cv_failure_encode(again, &failure) == length && memcmp(again, payload, length) == 0);
    return true;
}

static bool decode_u32(const uint8_t *payload, size_t length)
{
    uint32_t value;
    return cv_u32_decode(payload, length, &value) && value == cv_wire_get_u32(payload);
}

static bool decode(const struct cv_frame *message)
{
    switch (message->type) {
    case CV_FRAME_HELLO:
        return decode_hello(message->payload, message->length);
    case CV_FRAME_START:
        return decode_start(message->payload, message->length);
    case CV_FRAME_READ_FILE:
        return decode_read_file(message->payload, message->length);
    case CV_FRAME_WRITE_FILE:
        return decode_write_file(message->payload, message->length);
    case CV_FRAME_ENDED:
        return decode_ended(message->payload, message->length);
    case CV_FRAME_ERROR:
        return decode_failure(message->payload, message->length);
    case CV_FRAME_CREDIT:
    case CV_FRAME_READY:
    case CV_FRAME_STDIN_CREDIT:
    case CV_FRAME_REMOVED:
        return decode_u32(message->payload, message->length);
    default: /* bytes, or nothing */
        return true;
    }
}

static void take_message(struct outcome *outcome, const struct cv_frame *message)
{
    REQUIRE(message->length <= CV_MESSAGE_MAX && message->flags == 0);
    outcome->messages++;
    outcome->decoded += decode(message);
    mix(outcome, &message->type, sizeof message->type);
    mix(outcome, &message->id, sizeof message->id);
    mix(outcome, &message->length, sizeof message->length);
    mix(outcome, message->payload, message->length);
}

static int take_chunk(struct cv_frame_reader *reader, struct cv_assembler *assembler,
                      struct outcome *outcome)
{
    struct cv_frame frame;
    int got;
    while ((got = cv_frame_reader_next(reader, &frame)) > 0) {
        REQUIRE(frame.length <= CV_FRAME_PAYLOAD_MAX);
        REQUIRE(frame.flags == 0 || frame.flags == CV_FRAME_MORE);
        int whole = cv_assembler_add(assembler, &frame);
        if (whole < 0)
            return -1;
        if (whole > 0)
            take_message(outcome, &frame);
    }
    if (got < 0) {
        REQUIRE(cv_frame_reader_next(reader, &frame) < 0);
        return -1;
    }
    REQUIRE(reader->left == 0 && reader->carry.size <= CV_FRAME_MAX);
    return 0;
}

static struct outcome run(char side, const uint8_t *stream, size_t length, size_t step)
{
    struct outcome outcome = {.hash = UINT64_C(0xcbf29ce484222325)};
    struct cv_frame_reader reader;
    struct cv_assembler assembler;
    cv_frame_reader_init(&reader, side);
    cv_assembler_init(&assembler, CV_MESSAGE_MAX);
    for (size_t at = 0; at < length && !outcome.broken; at += step) {
        size_t size = step < length - at ? step : length - at;
        /* Memory of its own, so that a read past the chunk shows, and a pointer kept into it. */
        uint8_t *chunk = malloc(size);
        memcpy(chunk, stream + at, size);
        cv_frame_reader_push(&reader, chunk, size);
        outcome.broken = take_chunk(&reader, &assembler, &outcome) != 0;
        free(chunk);
        cv_assembler_release(&assembler);
    }
    cv_assembler_free(&assembler);
    cv_frame_reader_free(&reader);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t one_size, const uint8_t *other,
                                 size_t other_size, uint8_t *out, size_t max, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    return mutate_frames(data, size, max, seed, 1);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t one_size, const uint8_t *other,
                                 size_t other_size, uint8_t *out, size_t max, unsigned seed)
{
    return cross_frames(one, one_size, other, other_size, out, max, seed, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    char side = (data[0] & 1) != 0 ? 's' : 'h';
    size_t step = data[0] >> 1;
    struct outcome a = run(side, data + 1, size - 1, step == 0 ? size : step);
    struct outcome b = run(side, data + 1, size - 1, 1);
    REQUIRE(a.hash == b.hash && a.messages == b.messages && a.decoded == b.decoded &&
            a.broken == b.broken);
    return 0;
}
