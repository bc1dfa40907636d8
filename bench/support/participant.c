#include "participant.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_WORDS = 64 };

int64_t bench_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void bench_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("error ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    exit(1);
}

static void serve(const struct bench_verb *verbs, char *line)
{
    static int64_t latencies[BENCH_COUNT_MAX];
    char *words[MAX_WORDS + 1];
    int used = 0;
    const char *verb = strtok(line, " \n");
    const char *count = strtok(NULL, " \n");
    const char *bytes = strtok(NULL, " \n");

    while (used < MAX_WORDS && (words[used] = strtok(NULL, " \n")) != NULL)
        used++;
    words[used] = NULL;
    if (bytes == NULL)
        bench_die("bad request");
    struct bench_request request = {
        .count = strtol(count, NULL, 10),
        .bytes = strtoll(bytes, NULL, 10),
        .words = words,
        .latencies = latencies,
    };
    if (request.count < 1 || request.count > BENCH_COUNT_MAX)
        bench_die("bad count");
    while (verbs->name != NULL && strcmp(verbs->name, verb) != 0)
        verbs++;
    if (verbs->name == NULL)
        bench_die("no such request here: %s", verb);
    verbs->handle(&request);
    printf("%" PRId64, request.missing);
    for (long i = 0; i < request.timed; i++)
        printf(" %" PRId64, latencies[i]);
    printf("\n");
    fflush(stdout);
}

void bench_serve(const struct bench_verb *verbs)
{
    static char line[65536];

    while (fgets(line, sizeof line, stdin) != NULL)
        serve(verbs, line);
}
