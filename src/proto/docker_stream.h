/*
 * Docker's multiplexed stream: output and errors of an exec without a terminal on one connection,
 * sans-I/O. Docker Engine API, "Attach to a container", "Stream format": each frame has a header of
 * 8 bytes, the stream's type, three zero bytes and the payload's length (big-endian), and the
 * payload.
 *
 * Payloads are handed out in the pieces in which they come, so that no length makes anyone
 * allocate.
 */
#ifndef CV_PROTO_DOCKER_STREAM_H
#define CV_PROTO_DOCKER_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CV_DOCKER_HEADER_SIZE 8

enum cv_docker_type {
    CV_DOCKER_STDIN, /* what the engine writes on stdout for it */
    CV_DOCKER_STDOUT,
    CV_DOCKER_STDERR,
    CV_DOCKER_SYSTEM, /* an error of the engine's own, as text */
};

struct cv_docker_stream {
    uint8_t header[CV_DOCKER_HEADER_SIZE];
    unsigned have; /* bytes of the header so far */
    uint32_t left; /* of the payload */
    const uint8_t *chunk;
    size_t length; /* of what is left of the chunk */
    bool broken;
};

struct cv_docker_piece {
    enum cv_docker_type type;
    const uint8_t *bytes; /* borrowed from the chunk */
    size_t length;        /* over 0 */
};

void cv_docker_stream_init(struct cv_docker_stream *stream);
/* Gives the next chunk, which is borrowed; the one before must be used up. */
void cv_docker_stream_push(struct cv_docker_stream *stream, const void *bytes, size_t length);
/* 1: *piece is the next. 0: the chunk is used up. -1: no such stream; it stays broken. */
int cv_docker_stream_next(struct cv_docker_stream *stream, struct cv_docker_piece *piece);
/* Whether the stream may end here: between two frames. */
bool cv_docker_stream_whole(const struct cv_docker_stream *stream);

#endif
