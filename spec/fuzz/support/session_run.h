/*
 * A whole supervisor session (src/supervisor/session.c) inside the fuzzer: from its set-up to its
 * end, with the table of processes.h, in the box of box.h, driven by a script. Whenever the session
 * would wait, the script goes on by one step.
 */
#ifndef CV_SPEC_FUZZ_SESSION_RUN_H
#define CV_SPEC_FUZZ_SESSION_RUN_H

#include <stdbool.h>
#include <stddef.h>

struct session_script {
    /* One step of whatever is outside of the supervisor. False: it is over, so the stream is
     * closed. */
    bool (*step)(void *context);
    /* The session would wait for room to write for its last words. */
    void (*drain)(void *context);
    void *context;
};

/* Once, before the first run. */
void session_prepare(void);
/*
 * Runs a session whose stream is the socket `stream`, which it owns. When it returns, what the
 * session has held is released, and no process is alive.
 */
void session_run(int stream, int record_errno, const struct session_script *script);

/* For steps: the next wait of the session says that the host, or the guard, is dead. */
void session_host_dies(void);

#endif
