/*
 * Drives a cv_host as a host program would: steps it, takes every completion and keeps what each
 * operation has brought. Fails the running test when an operation ends twice, or not in time.
 */
#ifndef CV_SPEC_DRIVE_H
#define CV_SPEC_DRIVE_H

#include <limits.h>

#include "process/host.h"
#include "support/harness.h"

/* Operations of one host have the ids below. */
#define DRIVE_OPS_MAX 4096
#define DRIVE_CAP (64 * 1024)
/* What a host sees of itself comes sooner than what it only concludes from silence. */
#define DRIVE_SEEN_MS 15000
/* Folders of each workspace: its root and one more. */
#define DRIVE_NAMES 2

struct drive_op {
    bool ended;
    struct cv_err err;   /* code NULL: success */
    struct cv_ended end; /* of a successful exec */
    struct cv_buf
        text[2]; /* the kept output, by enum cv_stream_name, or a file as the first; with a NUL */
    bool truncated[2];
    unsigned chunks; /* with stream_all */
    uint64_t chunk_bytes[2];
    uint64_t chunk_hash[2]; /* act_hash of them */
    int64_t end_ms;
};

struct drive {
    struct cv_host host;
    bool open;
    bool hold; /* an output chunk that comes first stays there */
    struct drive_op *ops;
    unsigned launches;
    char tag[64];        /* NAME=value in the environment of every command */
    char temp[PATH_MAX]; /* removed at the end */
    char base[PATH_MAX + 8];
};

struct drive_exec {
    const char *const *argv;
    const char *cwd; /* NULL: the root */
    const void *stdin_bytes;
    size_t stdin_length;
    uint32_t timeout_ms; /* 0: SUP_NO_LIMIT_MS */
    size_t cap;          /* 0: DRIVE_CAP */
    bool stream_all;
};

/* Opens a host; `supervisor` NULL: $CHAMVI_SUPERVISOR. */
struct drive *drive_open(const char *supervisor);
/* Steps once, for at most `ms`, and takes the completions; returns when something has come. */
void drive_step(struct drive *drive, int64_t ms);
void drive_for(struct drive *drive, int64_t ms);
/* The operation of an id; fails the test for 0 and for ids of no operation. */
struct drive_op *drive_of(struct drive *drive, uint32_t id);
/* Steps until the operation has ended. */
struct drive_op *drive_wait(struct drive *drive, uint32_t id);
/* The same, and compares the code; NULL: success. */
struct drive_op *drive_expect(struct drive *drive, uint32_t id, const char *code);
/* The same of what ends without a word of the supervisor: one step and no wait. */
struct drive_op *drive_wait_now(struct drive *drive, uint32_t id);
struct drive_op *drive_expect_now(struct drive *drive, uint32_t id, const char *code);

/* The command exited, with this code and this output. */
void drive_expect_exit(struct drive *drive, uint32_t id, uint32_t code, const char *out,
                       const char *err);

/* Starts a workspace with fresh folders; returns the id, which is the workspace's handle too. */
uint32_t drive_launch(struct drive *drive);
/* A launch that only removes what the launch number `launch` (from 1) of this drive has made. */
uint32_t drive_launch_removal(struct drive *drive, unsigned launch);
/* drive_launch, and it is ready. */
uint32_t drive_ready(struct drive *drive);
uint32_t drive_exec(struct drive *drive, uint32_t workspace, const struct drive_exec *exec);
uint32_t drive_sh(struct drive *drive, uint32_t workspace, const char *script);
/* Begins to read or write a file of the workspace; the operation's id. */
uint32_t drive_read(struct drive *drive, uint32_t workspace, const char *path);
uint32_t drive_write(struct drive *drive, uint32_t workspace, const char *path, const void *bytes,
                     size_t length);
/* Begins the removal of a workspace; the operation's id. */
uint32_t drive_removal(struct drive *drive, uint32_t workspace);
/* Removes the workspace and waits for the end, which must have this code (NULL: success). */
void drive_remove(struct drive *drive, uint32_t workspace, const char *code);

/* A command of DRIVE_STAYS processes, one a daemon, that has printed all it will, and stays. */
#define DRIVE_STAYS 3
uint32_t drive_start_staying(struct drive *drive, uint32_t workspace);
/* That command ends with the code, and all that it had printed was kept. */
void drive_expect_cut(struct drive *drive, uint32_t id, const char *code);
void drive_expect_cut_now(struct drive *drive, uint32_t id, const char *code);

/* The path of a folder of a launch, by its number from 1 and the folder's from 0. */
const char *drive_folder(const struct drive *drive, unsigned launch, unsigned folder);
/* True when any folder of a launch is there. */
bool drive_folders_left(const struct drive *drive, unsigned launch);
/* The live commands. */
int drive_commands(const struct drive *drive);
void drive_wait_commands(struct drive *drive, int count);
/* Steps until none of the launch's folders is there. */
void drive_wait_folders_gone(struct drive *drive, unsigned launch);
/* Steps until the workspace is lost and this process has no child left, not even a dead one. */
void drive_wait_lost(struct drive *drive, uint32_t workspace);
/* The process ids of the workspace that was launched last: the youngest child, and its child. */
pid_t drive_guard(void);
pid_t drive_supervisor(void);

/*
 * The end of a test with its last host: no process may be left as its child, dead or alive, and
 * after the close no descriptor and no command.
 */
void drive_end(struct drive *drive);
/* Closes; what is left then ends, and its guards are reaped here. */
void drive_close_and_reap(struct drive *drive);

/* Setup and teardown of every test: counts descriptors, and cleans up behind a failed one. */
int drive_setup(void **state);
int drive_teardown(void **state);
#define DRIVE_TEST(function) cmocka_unit_test_setup_teardown(function, drive_setup, drive_teardown)

#endif
