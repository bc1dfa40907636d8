/*
 * For event loops that watch sockets of their own making but no foreign descriptor: a unix socket
 * to connect to, through which a helper thread sends one byte whenever the watched descriptor is
 * readable. The thread then waits for one byte back before it looks again; it touches nothing else.
 *
 * The socket has a name in the file system only inside cv_bell_open. The path that callers get
 * leads through /proc to a descriptor of this process, and only this process is answered.
 */
#ifndef CV_BELL_BELL_H
#define CV_BELL_BELL_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"

/* "/proc/self/fd/" and a descriptor. */
#define CV_BELL_PATH_SIZE 32

struct cv_bell {
    int watched;  /* the caller's */
    int listener; /* until it is answered, else -1 */
    int place;    /* the socket as a file, which the path leads to; as `listener` */
    int line;     /* the answered connection, or -1 */
    bool ringing; /* the thread was started and not joined */
    pthread_t ringer;
    char path[CV_BELL_PATH_SIZE];
};

/* What cv_bell_close may be called on before anything was opened. */
#define CV_BELL_CLOSED ((struct cv_bell){.listener = -1, .place = -1, .line = -1})

/*
 * Makes the socket; its peer connects to bell->path. `watched` has to outlive the bell. `folder` is
 * where a private folder can be made for a moment. 0, or -1 with `err`; then nothing is left open.
 */
int cv_bell_open(struct cv_bell *bell, int watched, const char *folder, struct cv_err *err);

/*
 * Takes the connection, which has been made, and starts the thread. 0, or -1 with `err`; then the
 * bell is closed. Connections of other processes are closed unanswered.
 */
int cv_bell_answer(struct cv_bell *bell, struct cv_err *err);

/*
 * Ends the thread and closes the descriptors. With `foreign`, in a forked child, it only closes:
 * the thread and the connection are the parent's. Idempotent.
 */
void cv_bell_close(struct cv_bell *bell, bool foreign);

#endif
