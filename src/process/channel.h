/*
 * The host's end of one supervisor's stream: sends frames, treats every received one as hostile,
 * notices when the supervisor is gone, stopped or talks garbage, and sees its guard to the end.
 */
#ifndef CV_PROCESS_CHANNEL_H
#define CV_PROCESS_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/idmap.h"
#include "base/list.h"
#include "process/op.h"
#include "proto/supervise/frame.h"
#include "reactor/reactor.h"

struct cv_host;

enum cv_channel_state {
    CV_CHANNEL_GREETING, /* hello is sent, ready not yet seen */
    CV_CHANNEL_OPEN,
    CV_CHANNEL_ENDING,  /* remove is sent; waits for the answer and the end of file */
    CV_CHANNEL_REAPING, /* the stream is closed; waits for the guard's end */
    CV_CHANNEL_OVER,    /* nothing of it is left in the system */
};

struct cv_channel {
    struct cv_source stream;
    struct cv_source guard; /* a pidfd of the guard, once its end is waited for */
    struct cv_alarm health;
    struct cv_host *host;
    struct cv_idnode by_handle; /* among the workspaces of the host */
    enum cv_channel_state state;
    bool unwanted;     /* an aborted launch: nobody asks for its end */
    bool lost;         /* ended without being told to */
    bool silent;       /* lost because nothing was heard of it: its supervisor may still be there */
    bool guard_killed; /* by a signal, so it has killed nothing */
    pid_t guard_pid;   /* 0 once it is reaped, or is no child of this process */
    struct cv_frame_reader reader;
    struct cv_buf out;
    struct cv_idmap flights; /* operations that the supervisor will send more frames for */
    struct cv_list feeding;  /* those whose stdin waits for room in `out` */
    struct cv_list waiting;  /* requests for files that were not sent yet */
    unsigned requests;       /* those that were, and were not answered yet */
    struct cv_op *launch;    /* the operation of the launch, until it ends */
    struct cv_op *removal;   /* the operation of the removal, if any */
    bool removed;            /* the supervisor has said so */
    bool removal_owed;       /* its frame found no memory yet */
    unsigned aborts_owed;    /* the same of aborts: cv_op.abort_owed */
    struct cv_err failure;   /* why the removal failed */
    bool shut_down;          /* our direction is closed */
    uint64_t unreturned;     /* output bytes received whose credit was not yet given back */
    uint64_t to_return;      /* of these, bytes that were used up */
    bool heard;              /* something came since the last check */
    unsigned silent_ms;
    unsigned reaping_ms;
};

/*
 * A channel over a started supervisor; takes over socket and guard. NULL with `err`; then the
 * socket is closed, so that the supervisor ends by itself.
 */
struct cv_channel *cv_channel_open(struct cv_host *host, int socket, pid_t guard,
                                   struct cv_err *err);

/* Queues a message. 0, or -1 when there is no room for it (errno as cv_frame_append). */
int cv_channel_queue(struct cv_channel *channel, uint8_t type, uint32_t id, const void *bytes,
                     size_t length);
/* Registers the operation under its id for the frames to come. 0, or -1 without memory. */
int cv_channel_fly(struct cv_channel *channel, struct cv_op *op);
/*
 * Stops what has ended for its reader: an exec's process group is killed and its stdin dropped; the
 * request for a file is not sent, if it still waits.
 */
void cv_channel_abort(struct cv_channel *channel, struct cv_op *op);
/* Writes what is queued, as far as the socket takes it, and watches that the supervisor answers. */
void cv_channel_flush(struct cv_channel *channel);
/* Queues what credit and room allow of the operation's stdin. */
void cv_channel_feed(struct cv_channel *channel, struct cv_op *op);
/* Puts the request for a file, the operation's input, in line, and sends what may go. */
void cv_channel_request(struct cv_channel *channel, struct cv_op *op);
/* Output bytes were used up: their credit may be given back. */
void cv_channel_used(struct cv_channel *channel, uint64_t bytes);
/*
 * Begins the end: every other operation ends with `disposed`, the supervisor is told to remove
 * everything. `removal` is completed once the guard is reaped; NULL: nobody waits. On a lost
 * channel the removal fails with transport_lost, once the guard is reaped.
 */
void cv_channel_remove(struct cv_channel *channel, struct cv_op *removal);
/*
 * Tells the supervisor to remove everything, and closes. Waits for nothing, but until the deadline
 * (cv_clock_ms) for room in a socket that is full.
 */
void cv_channel_drop(struct cv_channel *channel, int64_t deadline);

/* ---- for inbox.c and request.c ------------------------------------------------------------ */

/* The operation of a node of `flights`. */
static inline struct cv_op *cv_channel_flight(struct cv_idnode *node)
{
    return cv_list_entry(node, struct cv_op, in_flight);
}

/* Drops what of the operation's input was not queued yet, and its place in line. */
void cv_channel_stop_input(struct cv_op *op);
/* The supervisor sends nothing more for the operation: it is freed if it was taken. */
void cv_channel_land(struct cv_channel *channel, struct cv_op *op);
/* Ends every operation that is under way with the error; their last frames may still come. */
void cv_channel_fail_flights(struct cv_channel *channel, const struct cv_err *err);
/* Counts bytes that came under the credit. False when they are over it. */
bool cv_channel_receive(struct cv_channel *channel, uint32_t bytes);
/* Ends the operation with the error that the frame tells. False when it is malformed. */
bool cv_channel_failed(struct cv_channel *channel, struct cv_op *op, const struct cv_frame *frame);

#endif
