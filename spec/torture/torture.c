#include "torture.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FRAMES 12
#define PATHS_MAX 4096

static unsigned long chosen;
static unsigned long count;
static bool holding;
static pid_t first_process;
static const char *count_file; /* NULL: nobody asks */
/* The call paths seen, as hashes, and the number of the first allocation on each. */
static uint64_t paths[PATHS_MAX];
static unsigned long first_on_path[PATHS_MAX];
static size_t path_count;

void torture_fail(unsigned long nth)
{
    chosen = nth;
    count = 0;
    holding = false;
}

void torture_hold(bool held)
{
    holding = held;
}

unsigned long torture_count(void)
{
    return count;
}

bool torture_struck(void)
{
    return chosen != 0 && count >= chosen;
}

/* A call path is that of the addresses on the stack. */
static void note_path(void)
{
    void *frames[FRAMES];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    int depth = backtrace(frames, FRAMES);
    for (int i = 0; i < depth; i++)
        hash = (hash ^ (uintptr_t)frames[i]) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < path_count; i++) {
        if (paths[i] == hash)
            return;
    }
    if (path_count == PATHS_MAX)
        return;
    paths[path_count] = hash;
    first_on_path[path_count++] = count;
}

static bool strikes(void)
{
    if (holding)
        return false;
    count++;
    if (count_file != NULL)
        note_path();
    if (count != chosen)
        return false;
    errno = ENOMEM;
    return true;
}

/* ---- the calls of src/ -------------------------------------------------------------------- */

void *torture_malloc(size_t size);
void *torture_calloc(size_t count, size_t size);
void *torture_realloc(void *memory, size_t size);
char *torture_strdup(const char *string);
int torture_asprintf(char **string, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *torture_realpath(const char *path, char *resolved);
DIR *torture_opendir(const char *path);
DIR *torture_fdopendir(int fd);

void *torture_malloc(size_t size)
{
    return strikes() ? NULL : malloc(size);
}

void *torture_calloc(size_t members, size_t size)
{
    return strikes() ? NULL : calloc(members, size);
}

void *torture_realloc(void *memory, size_t size)
{
    return strikes() ? NULL : realloc(memory, size);
}

char *torture_strdup(const char *string)
{
    return strikes() ? NULL : strdup(string);
}

int torture_asprintf(char **string, const char *format, ...)
{
    va_list arguments;
    if (strikes())
        return -1;
    va_start(arguments, format);
    int length = vasprintf(string, format, arguments);
    va_end(arguments);
    return length;
}

char *torture_realpath(const char *path, char *resolved)
{
    return resolved == NULL && strikes() ? NULL : realpath(path, resolved);
}

DIR *torture_opendir(const char *path)
{
    return strikes() ? NULL : opendir(path);
}

DIR *torture_fdopendir(int fd)
{
    return strikes() ? NULL : fdopendir(fd);
}

/* ---- the environment ---------------------------------------------------------------------- */

/* Not of a fork, which would write over what its parent has counted. */
static void write_count(void)
{
    FILE *file = getpid() != first_process ? NULL : fopen(count_file, "w");
    if (file == NULL)
        return;
    fprintf(file, "%lu\n", count);
    for (size_t i = 0; i < path_count; i++)
        fprintf(file, "%lu\n", first_on_path[i]);
    fclose(file);
}

/* cmocka's, in the programs that link it. */
void cmocka_set_test_filter(const char *pattern) __attribute__((weak));

static __attribute__((constructor)) void read_environment(void)
{
    const char *only = getenv("CHAMVI_TORTURE_CASE");
    if (only != NULL && cmocka_set_test_filter != NULL)
        cmocka_set_test_filter(only);
    const char *nth = getenv("CHAMVI_TORTURE_FAIL");
    if (nth != NULL)
        torture_fail(strtoul(nth, NULL, 10));
    count_file = getenv("CHAMVI_TORTURE_COUNT");
    first_process = getpid();
    if (count_file != NULL)
        atexit(write_count);
}
