/*
 * Drives one supervisor program as a host would, over a socketpair, and fails the running test
 * when an answer doesn't come in time. The program is $CHAMVI_SUPERVISOR.
 *
 * Nothing here is about speed: what must come is waited for as long as the slowest machine may
 * need, and a test that is about time compares what it has measured.
 */
#ifndef CV_SPEC_HARNESS_H
#define CV_SPEC_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "proto/supervise/frame.h"
#include "proto/supervise/message.h"
#include "support/acts.h"
#include "support/proc.h"

/* Commands have the ids from 1 on, below SUP_REMOVE_ID. */
#define SUP_RUNS_MAX 4096
/* Bytes of a stream that are kept; what comes behind them is hashed and counted. */
#define SUP_KEEP (4 * 1024 * 1024)
#define SUP_CREDIT (256 * 1024)
#define SUP_STDIN_CREDIT (64 * 1024)
#define SUP_CAP (64 * 1024)

/* How long anything that must come is waited for. */
#define SUP_PATIENCE_MS 30000

/* A time limit that no test reaches. */
#define SUP_NO_LIMIT_MS 600000

/* The id of a remove frame. */
#define SUP_REMOVE_ID (SUP_RUNS_MAX - 1)

/* A list of strings for argv, names and environments. */
#define SUP_LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

struct sup_stream {
    struct cv_buf kept;
    uint64_t bytes; /* that came in frames */
    uint64_t hash;  /* act_hash of all of them */
};

/* One command as the host sees it, or one request for a file: what was read is its `out`. */
struct sup_run {
    bool started;
    uint8_t answer; /* the type of a request's answer, 0: a command */
    bool aborted;
    bool has_stdin;
    uint64_t out_cap; /* of the bytes that may be sent; UINT64_MAX: all */
    uint64_t err_cap;
    struct sup_stream out;
    struct sup_stream err;
    bool ended; /* `end` holds */
    struct cv_ended end;
    bool failed; /* the fields below hold */
    uint32_t failure;
    uint32_t errnum;
    char text[CV_FAILURE_TEXT_MAX + 1];
    uint64_t stdin_credit;  /* bytes that may be sent now */
    uint64_t stdin_granted; /* in all, the first grant included */
    bool stdin_closed;
    const uint8_t *stdin_bytes; /* to be sent as credit comes; borrowed */
    size_t stdin_left;
    bool stdin_end; /* send the end behind them */
    int64_t start_ms;
    int64_t done_ms; /* when `ended` or `failed` was set */
};

struct sup {
    pid_t guard;
    uint64_t guard_start; /* known once ready; tells it from a later process of the same number */
    pid_t supervisor;     /* known once ready */
    uint64_t supervisor_start;
    int fd;
    int64_t spawn_ms;
    char tag[64];
    char temp[64]; /* a folder of this supervisor's own, removed at the end */
    char base[96]; /* the workspace's base folder, inside `temp` unless options name it */
    struct cv_frame_reader reader;
    struct cv_buf unsent;
    struct sup_run *runs;
    uint32_t last_id;
    uint64_t window; /* output bytes that may still come */
    uint32_t first_stdin_credit;
    bool hold_credit;
    bool deaf; /* pump doesn't read */
    bool ready;
    bool eof;
    int64_t eof_ms;
    bool failed; /* an error of the whole stream came */
    uint32_t failure;
    uint32_t errnum;
    bool removed;
    uint32_t survivors;
    unsigned pings;
    long resident_kib; /* of the supervisor's own, when sup_note_memory was called */
    bool guard_reaped;
    int guard_status;
    struct heartbeat *heartbeat;
    char heartbeat_path[96];
    bool heartbeat_used; /* some command may beat */
};

struct sup_options {
    uint32_t flags;        /* CV_HELLO_* */
    uint32_t credit;       /* 0: SUP_CREDIT */
    uint32_t stdin_credit; /* 0: SUP_STDIN_CREDIT */
    uint32_t ping_ms;
    uint32_t lease_ms;
    const char *base;         /* NULL: a fresh folder */
    const char *const *names; /* NULL: none */
    const char *const *env;   /* NULL: a plain PATH; the tag is added in any case */
    bool hold_credit;         /* give no credit back: sup_credit does it by hand */
    bool no_pidfd;
    void (*prepare)(struct sup *sup); /* runs in the new process before the program */
};

struct sup_exec {
    const char *const *argv;
    const char *cwd;     /* NULL: the root */
    uint32_t flags;      /* CV_START_* */
    uint32_t timeout_ms; /* 0: SUP_NO_LIMIT_MS */
    int64_t stdout_cap;  /* 0: SUP_CAP; -1: none at all */
    int64_t stderr_cap;
};

/* The path of the running test program, for commands that are acts. */
const char *sup_self(void);
void sup_sleep(int64_t ms);
/* Fails the test, or ends a forked host process (sup_fork_host) with a message. */
void sup_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Starts the program without a word to it. */
struct sup *sup_spawn(const struct sup_options *options);
void sup_hello(struct sup *sup, const struct sup_options *options);
/* Pumps until ready and finds the supervisor's process. */
void sup_wait_ready(struct sup *sup);
/* Spawn, hello, ready. NULL options: all defaults. */
struct sup *sup_start(const struct sup_options *options);

void sup_send(struct sup *sup, uint8_t type, uint32_t id, const void *bytes, size_t length);
void sup_send_u32(struct sup *sup, uint8_t type, uint32_t id, uint32_t value);
/* Bytes that need not be frames. */
void sup_send_raw(struct sup *sup, const void *bytes, size_t length);
/* Grants more output. */
void sup_credit(struct sup *sup, uint32_t bytes);
/* Starts a command and returns its id without waiting for anything. */
uint32_t sup_exec(struct sup *sup, const struct sup_exec *exec);
uint32_t sup_argv(struct sup *sup, const char *const *argv);
/* A line for /bin/sh. */
uint32_t sup_sh(struct sup *sup, const char *script);
/* An act (acts.h); "@" among the arguments becomes the heartbeat's path. */
uint32_t sup_act(struct sup *sup, const char *const *arguments);
/* Kills the command; what it printed and was not sent yet may be dropped then. */
void sup_abort(struct sup *sup, uint32_t id);
/* Asks for a file, or to write one; `ended` when it was answered. */
uint32_t sup_ask_read(struct sup *sup, const char *path, uint32_t max);
uint32_t sup_ask_write(struct sup *sup, const char *path, const void *bytes, size_t length);
/* Queues standard input, sent as credit comes; `bytes` must live until then. */
void sup_stdin(struct sup *sup, uint32_t id, const void *bytes, size_t length, bool end);
struct sup_run *sup_of(struct sup *sup, uint32_t id);

/* Moves bytes both ways for at most `ms`; returns when something came. */
void sup_pump(struct sup *sup, int64_t ms);
/* Pumps for the whole time. */
void sup_pump_for(struct sup *sup, int64_t ms);
/* Pumps until it ended; fails the test when it doesn't, or when the command failed. */
struct sup_run *sup_wait(struct sup *sup, uint32_t id);
/* Pumps until an error came for the id; fails the test when it is not `failure`. */
struct sup_run *sup_wait_failure(struct sup *sup, uint32_t id, uint32_t failure);
/*
 * Starts a line for /bin/sh under a time limit that strikes behind the first `bytes` of its stdout:
 * where `*timeout_ms` turns out to be too short for this machine, it grows.
 */
uint32_t sup_limited(struct sup *sup, const char *script, uint64_t bytes, uint32_t *timeout_ms);
uint32_t sup_limited_argv(struct sup *sup, const char *const *argv, uint64_t bytes,
                          uint32_t *timeout_ms);
/* Pumps until so many bytes of stdout have come. */
void sup_wait_out(struct sup *sup, uint32_t id, uint64_t bytes);
/* The kept stdout (stderr) as a string, which lives as long as the supervisor. */
const char *sup_out(struct sup *sup, uint32_t id);
const char *sup_err(struct sup *sup, uint32_t id);

/* Runs a command that must answer at once: the supervisor serves. */
void sup_expect_serving(struct sup *sup);
/* Waits for the id's end and compares: exited with `code`, no flag set. */
struct sup_run *sup_expect_exit(struct sup *sup, uint32_t id, uint32_t code);

/* Remembers the supervisor's own memory; sup_expect_small fails when it grew by more than `kib`. */
void sup_note_memory(struct sup *sup);
void sup_expect_small(struct sup *sup, long kib);
/* The live commands of the workspace (not guard and supervisor). */
int sup_commands(struct sup *sup);
/* Waits until as many commands live. */
void sup_wait_commands(struct sup *sup, int count);
/* Waits until at least one of them runs the program of that name. */
void sup_wait_running(struct sup *sup, const char *name);
/* Stops the process, a child of this one or of the guard, and waits until it has stopped. */
void sup_stop(pid_t pid);
/* Waits until there is a file of that name in the base folder. */
void sup_wait_file(struct sup *sup, const char *name);
/* Waits until so many pings have come in all. */
void sup_wait_pings(struct sup *sup, unsigned pings);
/* Waits until the heartbeat has moved. */
void sup_wait_heartbeat(struct sup *sup);
/* Starts one command of each kind that is hard to kill and waits until all live. */
#define SUP_POPULATION 10 /* those of them that sup_commands sees */
void sup_populate(struct sup *sup);

/* Lines for sup_sh that send a signal ("KILL") to the supervisor or to the guard, and stay. */
#define SUP_KILL_SUPERVISOR(signal) "kill -" signal " $PPID; sleep 1000"
#define SUP_KILL_GUARD(signal)                                                                     \
    "read -r a b c guard rest </proc/$PPID/stat; kill -" signal " $guard; sleep 1000"

/* Pumps until end of file, and checks at once that everything is dead. */
void sup_wait_eof(struct sup *sup);
/* Waits until nothing of the workspace lives: for a host that has closed. */
void sup_wait_dead(struct sup *sup);
/* The guard must exit with 0. */
void sup_expect_guard_exit(struct sup *sup);
/* Close frame, half close, end of file, everything dead, guard exited: the usual end of a test. */
void sup_end(struct sup *sup);

/*
 * Runs `body` in a forked host process, which starts supervisors itself and then waits; returns
 * its pid once it called sup_host_ready with the supervisor it made. `sup` then tells the test
 * what to look for (pids, tag, heartbeat); it can't be pumped.
 */
pid_t sup_fork_host(void (*body)(void), struct sup **sup);
/* In the forked host: tells the test, and never returns. */
void sup_host_ready(struct sup *sup) __attribute__((noreturn));

/* SIGKILL for a forked host, and nothing else. */
void sup_kill_host(pid_t pid);

/* Setup and teardown of every test: ends what the test left, removes its folders. */
int sup_setup(void **state);
int sup_teardown(void **state);
#define SUP_TEST(function) cmocka_unit_test_setup_teardown(function, sup_setup, sup_teardown)

/* What main does: an act when the arguments say so, else the tests (an array). */
#define SUP_MAIN(argc, argv, tests)                                                                \
    ((argc) > 1 && strcmp((argv)[1], "act") == 0 ? act_main((argc)-2, (argv) + 2)                  \
                                                 : cmocka_run_group_tests(tests, NULL, NULL))

/* A file with mode (whatever the umask); `folder` and `name` are joined. */
void sup_write_file(const char *folder, const char *name, const char *content, size_t length,
                    mode_t mode);
/* Joins two parts of a path; a few results live at a time. */
const char *sup_path(const char *folder, const char *name);

#endif
