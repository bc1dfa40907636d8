/*
 * What commands of the specs do where a shell line would not do: the test program starts itself
 * with the argument "act". Every act ends by itself when its heartbeat says so, so that a
 * supervisor that fails to kill leaves no storm behind.
 */
#ifndef CV_SPEC_ACTS_H
#define CV_SPEC_ACTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Shared by mapping a file: lives as long as anybody writes, whatever a process does to hide. */
struct heartbeat {
    atomic_ulong count;  /* grows as long as anything of the act lives */
    atomic_ulong forks;  /* processes started */
    atomic_int stop;     /* set by the test: every act ends */
    int64_t deadline_ms; /* every act ends then in any case (CLOCK_MONOTONIC) */
};

/* Makes the file `path` and maps it; aborts on failure. */
struct heartbeat *heartbeat_create(const char *path);
/* Maps a heartbeat that another process made. */
struct heartbeat *heartbeat_open(const char *path);
/* Stops the acts, unmaps and removes the file. */
void heartbeat_destroy(struct heartbeat *heartbeat, const char *path);

/* The byte at `offset` of what the act "print" writes. */
uint8_t act_print_byte(uint64_t offset);
/* FNV-1a of the bytes, going on from `hash`; start with ACT_HASH_START. */
#define ACT_HASH_START 0xcbf29ce484222325u
uint64_t act_hash(uint64_t hash, const uint8_t *bytes, size_t length);
/* The hash of the first `length` bytes of what the act "print" writes. */
uint64_t act_print_hash(uint64_t length);

/*
 * Runs an act; its exit code. argv:
 *   beat PATH              beats every millisecond, ignoring all signals that can be ignored
 *   daemon PATH            leaves a daemon (own session, no parent) that beats; returns
 *   regroup PATH           moves to the group of a child, leaves one in its own, prints "moved" and
 *                          beats; both children ignore all signals
 *   storm PATH stay|hop|reap   starts 200 daemons a second; with hop its own process changes each
 *                          time, with reap it is their subreaper
 *   chain PATH             forks and exits at full speed
 *   loud PATH BYTES        writes BYTES to stdout every 10 ms and beats; ends when that fails
 *   litter PATH            makes files and folders in the working directory at full speed
 *   print BYTES [CODE [both]]  writes a pattern to stdout (and to stderr), exits with CODE
 *   packets BYTES SIZE     writes the pattern to stdout, a pipe, in packets (O_DIRECT) of SIZE
 * bytes orphans COUNT          leaves COUNT daemons that exit at once
 */
int act_main(int argc, char **argv);

#endif
