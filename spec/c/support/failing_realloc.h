/*
 * Takes realloc(3), which all growing memory of the core comes from, and lets it fail on demand.
 * Included by one file of a program. With AddressSanitizer, which has its own realloc, nothing can
 * fail: HAVE_FAILING_REALLOC is 0 and such tests have nothing to do.
 */
#ifndef CV_SPEC_FAILING_REALLOC_H
#define CV_SPEC_FAILING_REALLOC_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_FAILING_REALLOC 0
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HAVE_FAILING_REALLOC 0
#endif
#ifndef HAVE_FAILING_REALLOC
#define HAVE_FAILING_REALLOC 1
#endif

#if HAVE_FAILING_REALLOC
/* While set, every call fails that would take more than `realloc_limit` bytes. */
static bool realloc_fails;
static size_t realloc_limit;

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

#endif
