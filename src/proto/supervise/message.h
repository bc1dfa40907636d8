/*
 * What the frames of frame.h carry: sans-I/O encoders and decoders, shared by both sides.
 *
 * Decoders check everything (lengths, counts, terminators, values) and return false on the first
 * thing wrong; pointers in a decoded message are borrowed from the payload. Strings travel
 * NUL-terminated, so that a decoded list can be handed to execve(2) as it lies.
 */
#ifndef CV_PROTO_SUPERVISE_MESSAGE_H
#define CV_PROTO_SUPERVISE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/strings.h"

/* The exit status of a guard that could not kill everything. */
#define CV_GUARD_LEFT_SOME 3

/* Hello: what the workspace is and how the stream behaves. */
#define CV_HELLO_CREATE 0x01      /* make `base` and every name (0700); fail when a name exists */
#define CV_HELLO_REMOVE_ONLY 0x02 /* only `remove` follows; missing folders are fine */
#define CV_HELLO_PING_IDLE 0x04   /* ping also while nothing runs */
#define CV_HELLO_RECORD 0x08      /* the last name is the workspace's record, a file: not made */
#define CV_HELLO_FLAGS 0x0f

struct cv_hello {
    uint32_t version;      /* CV_FRAME_VERSION */
    uint32_t flags;        /* CV_HELLO_* */
    uint32_t credit;       /* bytes of output that may be under way on the whole stream */
    uint32_t stdin_credit; /* bytes of stdin that the supervisor buffers per command */
    uint32_t ping_ms;      /* a ping at least that often while something runs; 0: never */
    uint32_t lease_ms;     /* end after that long without input; 0: never */
    const char *base;      /* absolute path of an existing folder (or of one to create) */
    /*
     * Entries of `base` that the workspace owns, single path components. The first is the root
     * of the workspace; with none, `base` itself is the root and nothing is owned.
     */
    struct cv_strings names;
    struct cv_strings env; /* NAME=value, the whole environment of every command */
};

/* Start: one command. */
#define CV_START_STDIN 0x01      /* stdin frames follow; without it the command reads /dev/null */
#define CV_START_STREAM_ALL 0x02 /* send all output, under credit; the caps are ignored */
#define CV_START_FLAGS 0x03

struct cv_start {
    uint32_t flags;
    uint32_t timeout_ms; /* over 0 */
    uint32_t stdout_cap; /* bytes of each stream that are sent; the rest is only counted */
    uint32_t stderr_cap;
    const char *cwd;        /* relative to the root; "" is the root */
    struct cv_strings argv; /* at least one, the first not empty */
};

/* The largest file that is read or written whole: FILE_MAX_BYTES of the public API. */
#define CV_FILE_MAX (1024 * 1024)
/* The longest path of a file, without its NUL. */
#define CV_FILE_PATH_MAX 4096
/* Reads that may be under way on one stream; more are an error of the protocol. */
#define CV_FILE_READS_MAX 1024

/* Read file: answered by `file`, or by an error. */
struct cv_read_file {
    uint32_t max;     /* bytes, at most CV_FILE_MAX; a longer file is an error */
    const char *path; /* relative to the root */
};

/* Write file: answered by `written`, or by an error. */
struct cv_write_file {
    const char *path;
    const uint8_t *bytes; /* the whole content */
    size_t length;        /* at most CV_FILE_MAX */
};

struct cv_ready {
    uint32_t version;
};

/* Ended: how a command ended and all that it printed. */
#define CV_ENDED_TIMED_OUT 0x01    /* the time limit struck before the command's exit */
#define CV_ENDED_STREAMS_HELD 0x02 /* a background job still holds stdout or stderr */
#define CV_ENDED_FLAGS 0x03

enum cv_ended_how { CV_ENDED_EXITED = 0, CV_ENDED_SIGNALED = 1 };

struct cv_ended {
    uint32_t how;   /* enum cv_ended_how */
    uint32_t value; /* exit code (0 to 255; 124: killed, end not seen) or signal (1 to 127) */
    uint32_t flags;
    uint64_t stdout_bytes; /* printed, sent or not */
    uint64_t stderr_bytes;
    uint64_t duration_us; /* from start to the command's exit */
};

struct cv_removed {
    uint32_t survivors; /* processes that could not be killed (EPERM, uninterruptible) */
};

/* Why an id or the stream failed: name, value, code of the public API. */
#define CV_FAILURES(X)                                                                             \
    X(PROTOCOL, 1, "transport_lost") /* the host sent garbage */                                   \
    X(VERSION, 2, "create_failed")   /* hello of another version */                                \
    X(SETUP, 3, "create_failed")     /* the workspace's folders can't be made or opened */         \
    X(CWD, 4, "cwd_not_found")                                                                     \
    X(OUTSIDE, 5, "outside_workspace")                                                             \
    X(GONE, 6, "gone")             /* the root was removed or replaced */                          \
    X(START, 7, "start_failed")    /* the system refused a process, a pipe or the argument list */ \
    X(REMOVE, 8, "remove_failed")  /* something of the workspace could not be deleted */           \
    X(LEASE, 9, "transport_lost")  /* no input for the time of the lease */                        \
    X(LOCKED, 10, "record_locked") /* another process looks after the workspace's record */        \
    X(FILE_NOT_FOUND, 11, "file_not_found")                                                        \
    X(NOT_A_FILE, 12, "not_a_file") /* no regular file, or no folder on the way to it */           \
    X(FILE_TOO_LARGE, 13, "file_too_large")                                                        \
    X(PERMISSION, 14, "permission_denied")                                                         \
    X(NO_SPACE, 15, "no_space")      /* the disk or a quota is full */                             \
    X(FILE_PATH, 16, "invalid_path") /* a name or the whole path is too long */                    \
    X(FILE, 17, "file_failed")       /* the system refused to read or write a file */              \
    X(TOO_LONG, 18, "invalid_argv")  /* arguments and environment are too long together */

enum cv_failure_code {
#define X(name, value, code) CV_FAILURE_##name = value,
    CV_FAILURES(X)
#undef X
};

/* The public code of a failure, or NULL for a value that is not in the table. */
const char *cv_failure_public_code(uint32_t code);

#define CV_FAILURE_TEXT_MAX 256

struct cv_failure {
    uint32_t code;    /* enum cv_failure_code */
    uint32_t errnum;  /* Linux errno, 0 when no system call failed */
    const char *text; /* what was being done; `length` bytes, not terminated */
    size_t length;    /* at most CV_FAILURE_TEXT_MAX */
};

#define CV_STDIN_CREDIT_MAX (1024 * 1024)

/* Fixed-size payloads of the small messages. */
#define CV_U32_SIZE 4
#define CV_READY_SIZE 4
#define CV_ENDED_SIZE 36
#define CV_REMOVED_SIZE 4

/* Encoders append the payload to `out`: 0, or -1 as cv_buf_append. */
int cv_hello_encode(struct cv_buf *out, const struct cv_hello *hello);
int cv_start_encode(struct cv_buf *out, const struct cv_start *start);
int cv_read_file_encode(struct cv_buf *out, const struct cv_read_file *read);
int cv_write_file_encode(struct cv_buf *out, const struct cv_write_file *write);
void cv_ended_encode(uint8_t out[CV_ENDED_SIZE], const struct cv_ended *ended);
/* Truncates the text to CV_FAILURE_TEXT_MAX; returns the payload's length. */
size_t cv_failure_encode(uint8_t out[8 + CV_FAILURE_TEXT_MAX], const struct cv_failure *failure);

bool cv_hello_decode(const uint8_t *payload, size_t length, struct cv_hello *hello);
bool cv_start_decode(const uint8_t *payload, size_t length, struct cv_start *start);
bool cv_read_file_decode(const uint8_t *payload, size_t length, struct cv_read_file *read);
bool cv_write_file_decode(const uint8_t *payload, size_t length, struct cv_write_file *write);
bool cv_ended_decode(const uint8_t *payload, size_t length, struct cv_ended *ended);
bool cv_failure_decode(const uint8_t *payload, size_t length, struct cv_failure *failure);
/* The single integer of ready, credit, stdin credit and removed. */
bool cv_u32_decode(const uint8_t *payload, size_t length, uint32_t *value);

#endif
