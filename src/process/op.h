/*
 * An operation that a host has under way: an exec, a file, a launch, a removal, a timer, the end of
 * a process. It has an id, ends exactly once, and then lies in the reactor's completion queue until
 * it is taken.
 */
#ifndef CV_PROCESS_OP_H
#define CV_PROCESS_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/idmap.h"
#include "base/list.h"
#include "output/collector.h"
#include "proto/supervise/message.h"
#include "reactor/reactor.h"

struct cv_host;

enum cv_op_kind {
    CV_OP_TIMER,
    CV_OP_LAUNCH,
    CV_OP_EXEC,
    CV_OP_READ_FILE,
    CV_OP_WRITE_FILE,
    CV_OP_REMOVE,
    CV_OP_END
};

enum cv_stream_name { CV_STDOUT, CV_STDERR };

/* Raw output on its way to a reader, in the order of its arrival. */
struct cv_chunk {
    struct cv_list link;
    enum cv_stream_name stream;
    size_t length;
    uint8_t bytes[];
};

/* What is still to be sent: standard input, or the request for a file, which goes as a whole. */
struct cv_input {
    uint8_t *bytes; /* owned */
    size_t length;
    size_t sent;
    uint64_t credit; /* bytes that the supervisor will take now */
    bool open;       /* neither its end nor an abort was sent yet */
};

struct cv_op {
    struct cv_completion completion; /* first member */
    struct cv_idnode by_id;          /* among all operations of the host */
    struct cv_idnode in_flight;      /* among those of its channel; see `flying` */
    struct cv_list feeding;          /* in a list of the channel while `input` waits for room */
    enum cv_op_kind kind;
    bool flying;             /* the supervisor will send more frames under this id */
    bool dropped;            /* already taken; only kept until the supervisor's last frame */
    bool done;               /* ended: `err` or the result is set */
    bool queued;             /* in the completion queue */
    struct cv_err err;       /* code NULL: success */
    struct cv_alarm alarm;   /* of a timer or an end: its bound */
    struct cv_source source; /* of an end: the pidfd */
    struct cv_host *host;    /* of a timer or an end */
    uint32_t workspace;      /* handle, for all but these two */
    /* Exec only. */
    bool stream_all;
    struct cv_list chunks;         /* struct cv_chunk, with stream_all */
    struct cv_collector output[2]; /* by enum cv_stream_name */
    struct cv_ended ended;
    /* Exec and files. */
    struct cv_input input;
    bool abort_owed; /* the supervisor must still be told to abort it */
    /* Files only. */
    bool requested;        /* the supervisor owes an answer */
    struct cv_buf content; /* what was read */
};

/* A new operation that is in no map and no queue; NULL without memory. */
struct cv_op *cv_op_new(enum cv_op_kind kind, size_t output_cap);
/* Releases an operation that is in no map, list or queue any more. */
void cv_op_free(struct cv_op *op);
/* The oldest chunk, still in its list, or NULL. */
struct cv_chunk *cv_op_chunk(const struct cv_op *op);
/* Drops every chunk and returns how many bytes they held. */
size_t cv_op_drop_chunks(struct cv_op *op);
/* True when the text kept of a stream lacks something that the command printed. */
bool cv_op_truncated(const struct cv_op *op, enum cv_stream_name stream);

#endif
