/* One output stream of a command: from its pipe to the host, or past the cap into nothing. */
#ifndef CV_SUPERVISOR_STREAM_H
#define CV_SUPERVISOR_STREAM_H

#include "supervisor/runtime.h"

struct cv_exec;

struct cv_stream {
    struct cv_watch watch; /* first member: CV_WATCH_STREAM */
    struct cv_list link;   /* in `ready` or `stalled` of the runtime */
    struct cv_exec *exec;
    int fd;       /* read end, -1 after end of file */
    uint8_t type; /* CV_FRAME_STDOUT or CV_FRAME_STDERR */
    uint32_t id;
    uint64_t total; /* bytes printed so far */
    uint64_t cap;   /* bytes that may still be sent */
    uint64_t owed;  /* bytes that lay in the pipe at the command's exit, not yet sent or counted */
    bool discard;   /* nothing is sent any more */
    bool large;     /* its pipe was made larger */
};

/* A stream without a pipe, of frames of `type` and `id`, that sends at most `cap` bytes. */
void cv_stream_init(struct cv_stream *stream, struct cv_exec *exec, uint8_t type, uint32_t id,
                    uint64_t cap);
/* Takes over the read end `fd` and watches it. False with errno; then `fd` is still the caller's.
 */
bool cv_stream_open(struct cv_runtime *runtime, struct cv_stream *stream, int fd);
/* Closes the read end; a writer gets SIGPIPE from now on. */
void cv_stream_close(struct cv_runtime *runtime, struct cv_stream *stream);
/* Something may be there to read: the stream gets its turns. */
void cv_stream_wake(struct cv_runtime *runtime, struct cv_stream *stream);
/* The command has exited: what is in the pipe now must still be sent or counted. */
void cv_stream_settle(struct cv_stream *stream);
/* Closes the stream if it is at its end: nobody holds the pipe and nothing is left in it. */
void cv_stream_probe(struct cv_runtime *runtime, struct cv_stream *stream);
/* True when there is the credit and the room that the stream's next turn needs to send anything. */
bool cv_stream_may_send(const struct cv_runtime *runtime, const struct cv_stream *stream);
/* From now on everything is read away and only counted. */
void cv_stream_discard(struct cv_runtime *runtime, struct cv_stream *stream);
/*
 * One bounded turn of a stream that is in `ready`: reads, and puts it back in line, aside (stalled)
 * or, when the pipe is empty, in no list. True when the exec may have come to its end by it.
 */
bool cv_stream_turn(struct cv_runtime *runtime, struct cv_stream *stream);

#endif
