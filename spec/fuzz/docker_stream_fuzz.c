/*
 * Docker's multiplexed stream as a hostile engine may send it. The first byte of an input is the
 * size of the chunks (0: all at once), the rest the stream. What comes out is compared with a plain
 * reading of the whole.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/docker_stream.h"
#include "require.h"

/* Where the plain reading is, inside the stream. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
    size_t left; /* of the payload */
    uint8_t type;
};

/* Goes to the next byte of a payload; false where there is none, or no header. */
static bool next_byte(struct reader *reader)
{
    while (reader->left == 0) {
        const uint8_t *header = reader->at;
        if (reader->end - reader->at < CV_DOCKER_HEADER_SIZE || header[0] > 3 || header[1] != 0 ||
            header[2] != 0 || header[3] != 0)
            return false;
        reader->type = header[0];
        for (int i = 4; i < 8; i++)
            reader->left = reader->left << 8 | header[i];
        reader->at += CV_DOCKER_HEADER_SIZE;
    }
    return reader->at < reader->end;
}

static void check(struct reader *reader, const struct cv_docker_piece *piece)
{
    REQUIRE(piece->length > 0);
    for (size_t i = 0; i < piece->length; i++) {
        REQUIRE(next_byte(reader));
        REQUIRE(reader->type == piece->type && *reader->at == piece->bytes[i]);
        reader->at++;
        reader->left--;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cv_docker_stream stream;
    struct cv_docker_piece piece;
    if (size < 2)
        return 0;
    const size_t step = data[0] == 0 ? size : data[0];
    struct reader reader = {.at = data + 1, .end = data + size};
    cv_docker_stream_init(&stream);
    int got = 0;
    for (size_t at = 1; at < size && got == 0; at += step) {
        size_t length = step < size - at ? step : size - at;
        uint8_t *chunk = malloc(length);
        memcpy(chunk, data + at, length);
        cv_docker_stream_push(&stream, chunk, length);
        while ((got = cv_docker_stream_next(&stream, &piece)) > 0)
            check(&reader, &piece);
        free(chunk);
    }
    REQUIRE(!next_byte(&reader)); /* nothing was left out */
    REQUIRE((got < 0) == (reader.end - reader.at >= CV_DOCKER_HEADER_SIZE));
    REQUIRE(cv_docker_stream_whole(&stream) == (reader.at == reader.end && reader.left == 0));
    return 0;
}
