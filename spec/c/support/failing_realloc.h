/*
 * Takes realloc(3), which all growing memory of the core comes from, and lets it fail on demand.
 * Included by one file of a program. AddressSanitizer and valgrind have a realloc of their own:
 * there realloc_can_fail says so, and such tests are skipped.
 */
#ifndef CV_SPEC_FAILING_REALLOC_H
#define CV_SPEC_FAILING_REALLOC_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* While set, every call fails that would take more than `realloc_limit` bytes. */
static volatile bool realloc_fails;
static volatile size_t realloc_limit;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FOREIGN_REALLOC
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FOREIGN_REALLOC
#endif

#ifndef FOREIGN_REALLOC
void *realloc(void *memory, size_t size)
{
    static void *(*real)(void *, size_t);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "realloc");
    if (realloc_fails && size > realloc_limit) {
        errno = ENOMEM;
        return NULL;
    }
    return real(memory, size);
}
#endif

static bool realloc_can_fail(void)
{
    void *volatile memory = malloc(1); /* volatile: the compiler knows what realloc of NULL is */
    realloc_limit = 0;
    realloc_fails = true;
    void *larger = realloc(memory, 1000);
    realloc_fails = false;
    free(larger == NULL ? memory : larger);
    return larger == NULL;
}

#endif
