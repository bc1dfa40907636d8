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
    bool unwanted;   /* an aborted launch: nobody asks for its end */
    bool lost;       /* ended without being told to */
    pid_t guard_pid; /* 0 once it is reaped, or is no child of this process */
    struct cv_frame_reader reader;
    struct cv_buf out;
    struct cv_idmap flights; /* operations that the supervisor will send more frames for */
    struct cv_list feeding;  /* those whose stdin waits for room in `out` */
    struct cv_op *launch;    /* the operation of the launch, until it ends */
    struct cv_op *removal;   /* the operation of the removal, if any */
    bool removed;            /* the supervisor has said so */
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
/* Stops an exec that has ended for its reader: its process group is killed, its stdin dropped. */
void cv_channel_abort(struct cv_channel *channel, struct cv_op *op);
/* Writes what is queued, as far as the socket takes it, and watches that the supervisor answers. */
void cv_channel_flush(struct cv_channel *channel);
/* Queues what credit and room allow of the operation's stdin. */
void cv_channel_feed(struct cv_channel *channel, struct cv_op *op);
/* Output bytes were used up: their credit may be given back. */
void cv_channel_used(struct cv_channel *channel, uint64_t bytes);
/*
 * Begins the end: every other operation ends with `disposed`, the supervisor is told to remove
 * everything. `removal` is completed once the guard is reaped; NULL: nobody waits. On a lost
 * channel the removal fails with transport_lost, once the guard is reaped.
 */
void cv_channel_remove(struct cv_channel *channel, struct cv_op *removal);
/* Tells the supervisor to remove everything, if the socket takes it, and closes; waits for nothing.
 */
void cv_channel_drop(struct cv_channel *channel);

#endif
