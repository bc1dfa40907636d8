/*
 * The host's side as a whole: one reactor, the workspaces it has started, the operations under way.
 * Everything is named by integer ids; nothing here knows Lua.
 *
 * A function that starts an operation returns its id (over 0), or 0 with `err`. Each operation ends
 * exactly once, by a completion that cv_host_next hands out.
 */
#ifndef CV_PROCESS_HOST_H
#define CV_PROCESS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/idmap.h"
#include "process/op.h"
#include "proto/supervise/message.h"
#include "reactor/reactor.h"

/* What one step reads of a stream at once; shared by all channels of a host. */
#define CV_HOST_SCRATCH 65536

struct cv_host {
    struct cv_reactor reactor;
    char *supervisor;           /* path of the program, owned */
    struct cv_idmap ops;        /* every operation that was not yet taken */
    struct cv_idmap workspaces; /* struct cv_channel */
    uint32_t last_id;
    uint8_t *scratch; /* CV_HOST_SCRATCH bytes, owned */
};

/* Opens the reactor; `supervisor` is copied. 0, or -1 with `err`; then nothing is left open. */
int cv_host_open(struct cv_host *host, const char *supervisor, struct cv_err *err);
/*
 * Tells every live workspace to remove itself, without waiting for that, and releases everything:
 * takes at most a second where a supervisor has not read yet what was sent before. In a forked
 * child it only closes and releases. Idempotent.
 */
void cv_host_close(struct cv_host *host);

/* A timer of `delay_ms` milliseconds. */
uint32_t cv_host_timer(struct cv_host *host, int64_t delay_ms, struct cv_err *err);

/*
 * Asks the process of `pidfd`, which becomes the operation's, to end (SIGTERM), and ends when it
 * has; fails with gc_failed when it has not after some seconds.
 */
uint32_t cv_host_end(struct cv_host *host, int pidfd, struct cv_err *err);

/*
 * Starts guard and supervisor of a workspace; version, credits and times of `hello` are filled in
 * here. `record` is a descriptor of the workspace's record for its guard to lock, or -1; it stays
 * the caller's. `*workspace` gets the handle, valid until a removal has ended or the launch failed.
 */
uint32_t cv_host_launch(struct cv_host *host, struct cv_hello *hello, int record,
                        uint32_t *workspace, struct cv_err *err);

struct cv_exec_request {
    const char *cwd; /* relative to the root, "" for it */
    struct cv_strings argv;
    uint32_t timeout_ms;
    size_t cap;              /* bytes of text kept of each stream */
    const void *stdin_bytes; /* copied; NULL: the command reads end of file */
    size_t stdin_length;
    bool stream_all; /* hand out every raw chunk */
};

uint32_t cv_host_exec(struct cv_host *host, uint32_t workspace,
                      const struct cv_exec_request *request, struct cv_err *err);

/*
 * Reads or writes the file `path`, relative to the root of the workspace: fs/file.h. A read brings
 * the content, op->content, or fails with not_utf8 when it is no valid UTF-8; `max` is at most
 * CV_FILE_MAX. A content to write that is longer than that is refused with file_too_large. An
 * aborted write may have been done or not. Codes: CV_FAILURES.
 */
uint32_t cv_host_read_file(struct cv_host *host, uint32_t workspace, const char *path, uint32_t max,
                           struct cv_err *err);
uint32_t cv_host_write_file(struct cv_host *host, uint32_t workspace, const char *path,
                            const void *bytes, size_t length, struct cv_err *err);

/*
 * Ends the operation now, with `code` (static storage) and `message`, unless it has ended. An
 * exec's process group is killed; what an aborted launch has made is removed. A removal can't be
 * aborted.
 */
void cv_host_abort(struct cv_host *host, uint32_t id, const char *code, const char *message);

/*
 * Kills everything in the workspace, deletes what it stored, ends guard and supervisor and reaps.
 * Its execs end at once with `disposed`. The handle is gone when the operation has ended.
 */
uint32_t cv_host_remove(struct cv_host *host, uint32_t workspace, struct cv_err *err);

/* False, with `err` (closed), in a forked process and once the host was closed. */
bool cv_host_usable(const struct cv_host *host, struct cv_err *err);

/* True when the workspace's supervisor is lost or the handle unknown. */
bool cv_host_lost(const struct cv_host *host, uint32_t workspace);

/*
 * The oldest completion, or NULL when there is none or it is not the host's, and in a forked child
 * always. It stays the first until it is taken:
 * a chunk of its output by cv_host_take_chunk, or, when cv_op_chunk says there is none, the end by
 * cv_host_take.
 */
struct cv_op *cv_host_next(const struct cv_host *host);
void cv_host_take_chunk(struct cv_host *host, struct cv_op *op);
void cv_host_take(struct cv_host *host, struct cv_op *op);

/* For channels: ends the operation; `err` NULL means success. Harmless when it has ended. */
void cv_host_finish(struct cv_host *host, struct cv_op *op, const struct cv_err *err);
/* For channels: the operation has a new chunk. */
void cv_host_announce(struct cv_host *host, struct cv_op *op);

#endif
