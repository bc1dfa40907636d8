/* The participants' side of the bench protocol (participant.lua describes it), for those in C. */
#ifndef BENCH_PARTICIPANT_H
#define BENCH_PARTICIPANT_H

#include <stdint.h>

/* The most latencies that one answer holds. */
#define BENCH_COUNT_MAX 100000

/* A handler sets `missing`, and `latencies` (BENCH_COUNT_MAX of them fit) up to `timed`. */
struct bench_request {
    long count;
    int64_t bytes;
    char **words; /* ends with NULL */
    int64_t missing;
    int64_t *latencies;
    long timed;
};

struct bench_verb {
    const char *name;
    void (*handle)(struct bench_request *request);
};

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t bench_now(void);

/* Answers the request with an error and ends: nothing after a failure would be comparable. */
__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *format, ...);

/* Serves requests until stdin ends. `verbs` ends with a name of NULL. */
void bench_serve(const struct bench_verb *verbs);

#endif
