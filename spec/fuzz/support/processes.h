/*
 * A table of processes in place of the system's, for fuzzing what starts, signals and reaps them:
 * cv_spawn, kill(2), waitid(2), waitpid(2) and getpgid(2) of the program are these. A command is an
 * entry with real pipes; what it does, the fuzzer says. A signal to a process that the supervisor
 * may not know any more is a failure.
 *
 * The clock (base/clock.h) is the fuzzer's as well.
 */
#ifndef CV_SPEC_FUZZ_PROCESSES_H
#define CV_SPEC_FUZZ_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "supervisor/children.h"
#include "support/input.h"

#define PROCESSES_MAX 16
/* Bytes of one action at most; less than a pipe holds. */
#define PROCESS_PRINT_MAX 20000

enum process_pipe { PROCESS_STDIN, PROCESS_STDOUT, PROCESS_STDERR };

struct process {
    pid_t pid;
    pid_t group;
    int parent; /* its place in the table, or -1: the supervisor */
    bool alive;
    bool reaped;
    bool ignores_term;
    bool shared;  /* another one had or has its pipes too */
    unsigned tag; /* argv[1] of a command, a number */
    int how;      /* CLD_EXITED or CLD_KILLED, with `value` */
    int value;
    int pipes[3]; /* by enum process_pipe, -1: none, or closed */
    uint64_t printed[2];
    uint64_t taken; /* bytes of stdin */
    /* What cv_spawn_failure says. */
    int step;
    int errnum;
};

/* How the next starts go. */
enum process_start {
    START_GOOD,
    START_LATE_GROUP, /* in the supervisor's group until processes_settle */
    START_IGNORES_TERM,
    START_REFUSED, /* no process */
    START_BAD_CWD, /* fails in the child */
    START_BAD_EXEC,
    START_COUNT
};

/* Empties the table and starts the clock anew. */
void processes_begin(void);
/* Closes every pipe, and makes of all processes zombies that can be reaped, again if need be. */
void processes_end(void);
void processes_next_start(enum process_start how);
/* The supervisor's list of its children, a descriptor of its own that is kept up to date. */
int processes_list(void);
/* The processes that were started, 0 to processes_count() - 1. */
int processes_count(void);
struct process *process_at(int place);
/* Whether a child of the supervisor has ended and is not reaped. */
bool processes_zombie(void);
/* Those that are alive. */
int processes_alive(void);
void processes_settle(void);

/* Prints as much as the pipe takes: bytes of process_byte(). */
void process_print(struct process *process, enum process_pipe pipe, size_t count);
/* The byte that a process prints as its nth. */
uint8_t process_byte(uint64_t nth);
/* Takes what is there of its stdin, at most `count` bytes; which must be process_byte's, if asked.
 */
void process_take(struct process *process, size_t count, bool check);
void process_close(struct process *process, enum process_pipe pipe);
/* Starts a child that shares its pipes, in its group or in one of its own. */
void process_fork(int place, bool own_group);
void process_exit(struct process *process, int how, int value);

/* One act of one process, as the input says. */
#define PROCESSES_ACT_BYTES 3
void processes_act(struct input *input, bool check);

void clock_advance(int64_t ms);

#endif
