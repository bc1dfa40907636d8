#include "proto/supervise/frame.h"

#include <errno.h>
#include <string.h>

#include "proto/supervise/wire.h"

void cv_frame_header(uint8_t out[CV_FRAME_HEADER_SIZE], uint8_t type, uint8_t flags, uint32_t id,
                     uint32_t length)
{
    cv_wire_put_u32(out, length);
    out[4] = type;
    out[5] = flags;
    out[6] = out[7] = 0;
    cv_wire_put_u32(out + 8, id);
}

int cv_frame_append(struct cv_buf *out, uint8_t type, uint32_t id, const void *bytes, size_t length)
{
    if (length > CV_MESSAGE_MAX) {
        errno = EMSGSIZE;
        return -1;
    }
    size_t frames = length == 0 ? 1 : (length + CV_FRAME_PAYLOAD_MAX - 1) / CV_FRAME_PAYLOAD_MAX;
    uint8_t *to = cv_buf_reserve(out, length + frames * CV_FRAME_HEADER_SIZE);
    if (to == NULL)
        return -1;
    const uint8_t *from = bytes;
    size_t left = length;
    for (size_t i = 0; i < frames; i++) {
        uint32_t part = left > CV_FRAME_PAYLOAD_MAX ? CV_FRAME_PAYLOAD_MAX : (uint32_t)left;
        left -= part;
        cv_frame_header(to, type, left > 0 ? CV_FRAME_MORE : 0, id, part);
        to += CV_FRAME_HEADER_SIZE;
        if (part > 0) {
            memcpy(to, from, part);
            to += part;
            from += part;
        }
    }
    cv_buf_commit(out, length + frames * CV_FRAME_HEADER_SIZE);
    return 0;
}

void cv_frame_reader_init(struct cv_frame_reader *reader, char side)
{
    memset(reader, 0, sizeof *reader);
    cv_buf_init(&reader->carry, CV_FRAME_MAX);
    reader->side = side;
}

void cv_frame_reader_free(struct cv_frame_reader *reader)
{
    cv_buf_free(&reader->carry);
}

void cv_frame_reader_push(struct cv_frame_reader *reader, const void *bytes, size_t length)
{
    reader->chunk = bytes;
    reader->left = length;
}

static bool type_known(uint8_t type, char side)
{
    switch (type) {
#define X(name, value, sender)                                                                     \
    case value:                                                                                    \
        return side == sender;
        CV_FRAME_TYPES(X)
#undef X
    default:
        return false;
    }
}

/* Reads a header; false when any field of it is out of range. */
static bool read_header(const struct cv_frame_reader *reader, const uint8_t *header,
                        struct cv_frame *frame)
{
    frame->length = cv_wire_get_u32(header);
    frame->type = header[4];
    frame->flags = header[5];
    frame->id = cv_wire_get_u32(header + 8);
    return frame->length <= CV_FRAME_PAYLOAD_MAX && type_known(frame->type, reader->side) &&
           (frame->flags & ~CV_FRAME_MORE) == 0 && header[6] == 0 && header[7] == 0;
}

/* Moves bytes from the chunk until `carry` holds `want`: 1; 0 when the chunk ended first; or -1. */
static int carry_until(struct cv_frame_reader *reader, size_t want)
{
    size_t have = cv_buf_length(&reader->carry);
    size_t take = want > have ? want - have : 0;
    if (take > reader->left)
        take = reader->left;
    if (take > 0 && cv_buf_append(&reader->carry, reader->chunk, take) != 0)
        return -1;
    reader->chunk += take;
    reader->left -= take;
    return cv_buf_length(&reader->carry) >= want;
}

static int next_carried(struct cv_frame_reader *reader, struct cv_frame *frame)
{
    int got = carry_until(reader, CV_FRAME_HEADER_SIZE);
    if (got <= 0)
        return got;
    if (!read_header(reader, cv_buf_data(&reader->carry), frame))
        return -1;
    got = carry_until(reader, CV_FRAME_HEADER_SIZE + (size_t)frame->length);
    if (got <= 0)
        return got;
    frame->payload = cv_buf_data(&reader->carry) + CV_FRAME_HEADER_SIZE;
    reader->carry_out = true;
    return 1;
}

static int next_in_chunk(struct cv_frame_reader *reader, struct cv_frame *frame)
{
    if (!read_header(reader, reader->chunk, frame))
        return -1;
    size_t whole = CV_FRAME_HEADER_SIZE + (size_t)frame->length;
    if (whole > reader->left)
        return next_carried(reader, frame);
    frame->payload = reader->chunk + CV_FRAME_HEADER_SIZE;
    reader->chunk += whole;
    reader->left -= whole;
    return 1;
}

int cv_frame_reader_next(struct cv_frame_reader *reader, struct cv_frame *frame)
{
    if (reader->broken)
        return -1;
    if (reader->carry_out) {
        reader->carry_out = false;
        cv_buf_free(&reader->carry);
    }
    if (reader->left == 0)
        return 0;
    bool whole_header = cv_buf_length(&reader->carry) == 0 && reader->left >= CV_FRAME_HEADER_SIZE;
    int got = whole_header ? next_in_chunk(reader, frame) : next_carried(reader, frame);
    reader->broken = got < 0;
    return got;
}

void cv_assembler_init(struct cv_assembler *assembler, size_t max)
{
    memset(assembler, 0, sizeof *assembler);
    cv_buf_init(&assembler->bytes, max);
}

void cv_assembler_free(struct cv_assembler *assembler)
{
    cv_buf_free(&assembler->bytes);
}

int cv_assembler_add(struct cv_assembler *assembler, struct cv_frame *frame)
{
    bool more = (frame->flags & CV_FRAME_MORE) != 0;
    bool open = assembler->type != 0;
    bool mine = open && frame->type == assembler->type && frame->id == assembler->id;
    if (frame->length > assembler->bytes.max)
        return -1;
    if (!open) {
        cv_buf_free(&assembler->bytes); /* the message handed out by the call before */
        if (!more)
            return 1;
        assembler->type = frame->type;
        assembler->id = frame->id;
    } else if (!mine) {
        return more || frame->type == assembler->type ? -1 : 1;
    }
    if (cv_buf_append(&assembler->bytes, frame->payload, frame->length) != 0)
        return -1;
    if (more)
        return 0;
    assembler->type = 0;
    frame->payload = cv_buf_data(&assembler->bytes);
    frame->length = (uint32_t)cv_buf_length(&assembler->bytes);
    return 1;
}

void cv_assembler_release(struct cv_assembler *assembler)
{
    if (assembler->type == 0)
        cv_buf_free(&assembler->bytes);
}

bool cv_message_under_way(const struct cv_frame_reader *reader,
                          const struct cv_assembler *assembler)
{
    return assembler->type != 0 || cv_buf_length(&reader->carry) > 0;
}
