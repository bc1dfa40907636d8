/* What the specs read about processes from /proc, and how they hold some. */
#ifndef CV_SPEC_PROC_H
#define CV_SPEC_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
    char state; /* R, S, D, T, Z, ... */
    pid_t parent;
    pid_t group;
    pid_t session;
    int tty;        /* 0: no controlling terminal */
    uint64_t start; /* clock ticks since boot: tells a recycled pid */
};

/* Reads /proc/PID/stat; false when there is no such process. */
bool proc_stat(pid_t pid, struct proc_stat *stat);
/* False for a zombie, and for a process that is not there. */
bool proc_alive(pid_t pid);
/*
 * The live processes whose environment holds the entry `tag` ("NAME=value"); at most `max` of them
 * are stored. Zombies have no environment and don't count.
 */
int proc_tagged(const char *tag, pid_t *pids, int max);
/* How many of these run the program of that name, whose execve(2) is over. */
int proc_running(const char *tag, const char *name);
/* The children of `parent`, zombies included; at most `max` of them are stored. */
int proc_children(pid_t parent, pid_t *pids, int max);
/* How many of the children of `parent` are zombies. */
int proc_zombies(pid_t parent);
/* A size in KiB from /proc/PID/status, by its label ("VmRSS:"); -1 when there is none. */
long proc_status_kib(pid_t pid, const char *label);

/*
 * Starts a process that holds others by ptrace(2) and never looks at them, so that their parents
 * can't reap them, dead or not. Its pid, to be killed and reaped by the caller, or -1.
 */
pid_t proc_hold(const pid_t *pids, int count);

#endif
