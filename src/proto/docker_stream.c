#include "proto/docker_stream.h"

#include <string.h>

void cv_docker_stream_init(struct cv_docker_stream *stream)
{
    memset(stream, 0, sizeof *stream);
}

void cv_docker_stream_push(struct cv_docker_stream *stream, const void *bytes, size_t length)
{
    stream->chunk = bytes;
    stream->length = length;
}

static void consume(struct cv_docker_stream *stream, size_t count)
{
    stream->chunk += count;
    stream->length -= count;
}

static size_t at_most(size_t count, size_t limit)
{
    return count < limit ? count : limit;
}

/* Takes what there is of a header. False when it can't be one. */
static bool take_header(struct cv_docker_stream *stream)
{
    const size_t count = at_most(stream->length, CV_DOCKER_HEADER_SIZE - stream->have);
    const uint8_t *header = stream->header;
    memcpy(stream->header + stream->have, stream->chunk, count);
    stream->have += (unsigned)count;
    consume(stream, count);
    if (stream->have < CV_DOCKER_HEADER_SIZE)
        return true;
    if (header[0] > CV_DOCKER_SYSTEM || header[1] != 0 || header[2] != 0 || header[3] != 0)
        return false;
    stream->left = (uint32_t)header[4] << 24 | (uint32_t)header[5] << 16 |
                   (uint32_t)header[6] << 8 | header[7];
    return true;
}

int cv_docker_stream_next(struct cv_docker_stream *stream, struct cv_docker_piece *piece)
{
    while (!stream->broken && stream->length > 0) {
        if (stream->have == CV_DOCKER_HEADER_SIZE && stream->left == 0)
            stream->have = 0;
        if (stream->have < CV_DOCKER_HEADER_SIZE) {
            stream->broken = !take_header(stream);
            continue;
        }
        piece->type = (enum cv_docker_type)stream->header[0];
        piece->bytes = stream->chunk;
        piece->length = at_most(stream->length, stream->left);
        stream->left -= (uint32_t)piece->length;
        consume(stream, piece->length);
        return 1;
    }
    return stream->broken ? -1 : 0;
}

bool cv_docker_stream_whole(const struct cv_docker_stream *stream)
{
    return !stream->broken &&
           (stream->have == 0 || (stream->have == CV_DOCKER_HEADER_SIZE && stream->left == 0));
}
