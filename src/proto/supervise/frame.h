/*
 * The frames between a host and its supervisor: sans-I/O, shared by both sides.
 *
 * A frame is a 12-byte header and a payload of at most CV_FRAME_PAYLOAD_MAX bytes. Header, all
 * little-endian: u32 payload length, u8 type, u8 flags, u16 zero, u32 id. A message longer than one
 * frame is a run of frames of the same type and id, all but the last with CV_FRAME_MORE set.
 *
 * Both sides treat the other as hostile: a length, type, flag or reserved field out of range ends
 * the stream, and nothing is allocated on the word of a header beyond one frame.
 */
#ifndef CV_PROTO_SUPERVISE_FRAME_H
#define CV_PROTO_SUPERVISE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define CV_FRAME_VERSION 1
#define CV_FRAME_HEADER_SIZE 12
#define CV_FRAME_PAYLOAD_MAX 32768
#define CV_FRAME_MAX (CV_FRAME_HEADER_SIZE + CV_FRAME_PAYLOAD_MAX)
/* The longest message that CV_FRAME_MORE may build: a start with argv and cwd, or a whole file. */
#define CV_MESSAGE_MAX (2 * 1024 * 1024)

#define CV_FRAME_MORE 0x01

/* Types: name, value, who sends it ('h' host, 's' supervisor). Payloads: message.h. */
#define CV_FRAME_TYPES(X)                                                                          \
    X(HELLO, 0x01, 'h')      /* first frame, id 0: struct cv_hello */                              \
    X(START, 0x02, 'h')      /* run a command: struct cv_start */                                  \
    X(STDIN, 0x03, 'h')      /* bytes for the command's standard input, under its credit */        \
    X(STDIN_END, 0x04, 'h')  /* end of the standard input */                                       \
    X(ABORT, 0x05, 'h')      /* kill the command's process group; `ended` still follows */         \
    X(CREDIT, 0x06, 'h')     /* id 0: u32, that many more output bytes may be sent */              \
    X(REMOVE, 0x07, 'h')     /* kill everything, delete what the workspace stored, answer, end */  \
    X(CLOSE, 0x08, 'h')      /* id 0: kill everything and end */                                   \
    X(PONG, 0x09, 'h')       /* id 0: renews the lease */                                          \
    X(READ_FILE, 0x0a, 'h')  /* answer with a whole file: struct cv_read_file */                   \
    X(WRITE_FILE, 0x0b, 'h') /* make or replace a whole file: struct cv_write_file */              \
    X(READY, 0x81, 's')      /* answer to hello: struct cv_ready */                                \
    X(STDOUT, 0x82, 's')     /* output bytes, under the stream's credit */                         \
    X(STDERR, 0x83, 's')                                                                           \
    X(STDIN_CREDIT, 0x84, 's') /* u32, that many more stdin bytes may be sent */                   \
    X(STDIN_CLOSED, 0x85, 's') /* the command reads no more; stop sending */                       \
    X(ENDED, 0x86, 's')        /* the last frame of a start: struct cv_ended */                    \
    X(ERROR, 0x87, 's')        /* the last frame of an id, or of the stream: struct cv_failure */  \
    X(REMOVED, 0x88, 's')      /* answer to remove: struct cv_removed */                           \
    X(PING, 0x89, 's')         /* id 0: the supervisor lives */                                    \
    X(FILE, 0x8a, 's')         /* answer to read file: all its bytes, under the stream's credit */ \
    X(WRITTEN, 0x8b, 's')      /* answer to write file: nothing */

enum cv_frame_type {
#define X(name, value, side) CV_FRAME_##name = value,
    CV_FRAME_TYPES(X)
#undef X
};

struct cv_frame {
    uint8_t type;  /* enum cv_frame_type */
    uint8_t flags; /* CV_FRAME_MORE or 0 */
    uint32_t id;
    uint32_t length;        /* of the payload */
    const uint8_t *payload; /* borrowed: valid until the next call on the reader */
};

/* Writes the header of a frame; `length` must not exceed CV_FRAME_PAYLOAD_MAX. */
void cv_frame_header(uint8_t out[CV_FRAME_HEADER_SIZE], uint8_t type, uint8_t flags, uint32_t id,
                     uint32_t length);

/*
 * Appends a whole message to `out`, split into frames. 0, or -1 when the message is over
 * CV_MESSAGE_MAX or `out` has no room (errno EMSGSIZE, ENOBUFS, ENOMEM); then nothing was appended.
 */
int cv_frame_append(struct cv_buf *out, uint8_t type, uint32_t id, const void *bytes,
                    size_t length);

/*
 * Cuts a byte stream into frames. The reader borrows the chunk given to cv_frame_reader_push until
 * cv_frame_reader_next has returned 0; only a frame that spans chunks is copied.
 */
struct cv_frame_reader {
    struct cv_buf carry; /* the part of a frame that came in earlier chunks */
    const uint8_t *chunk;
    size_t left;
    char side;      /* whose frames are accepted: 'h' or 's' */
    bool carry_out; /* the last frame returned lies in `carry` */
    bool broken;
};

/* A reader of the frames that `side` ('h' host, 's' supervisor) sends; allocates nothing. */
void cv_frame_reader_init(struct cv_frame_reader *reader, char side);
void cv_frame_reader_free(struct cv_frame_reader *reader);
/* Gives the next chunk; the one before must be used up. */
void cv_frame_reader_push(struct cv_frame_reader *reader, const void *bytes, size_t length);
/*
 * 1: *frame is the next frame. 0: the chunk is used up. -1: garbage, or no memory for a carried
 * frame; the reader stays broken.
 */
int cv_frame_reader_next(struct cv_frame_reader *reader, struct cv_frame *frame);

/*
 * Joins the frames of one message at a time. While a message is open, frames of other types that
 * stand alone may pass between its parts; a second open message is refused.
 */
struct cv_assembler {
    struct cv_buf bytes;
    uint8_t type; /* 0: no message open */
    uint32_t id;
};

/* An assembler of messages of at most `max` bytes. */
void cv_assembler_init(struct cv_assembler *assembler, size_t max);
void cv_assembler_free(struct cv_assembler *assembler);
/*
 * 1: *frame now is a whole message (its payload borrowed until the next call). 0: more is to come.
 * -1: too long, a second open message, or no memory.
 */
int cv_assembler_add(struct cv_assembler *assembler, struct cv_frame *frame);
/* Releases the memory of a message that was handed out; one that is still open stays. */
void cv_assembler_release(struct cv_assembler *assembler);

/* True between chunks when a part of a frame or of a message has come, and the rest is due. */
bool cv_message_under_way(const struct cv_frame_reader *reader,
                          const struct cv_assembler *assembler);

#endif
