/* A list of strings in one block of memory, as it travels in frames and comes from Lua. */
#ifndef CV_BASE_STRINGS_H
#define CV_BASE_STRINGS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* `count` strings lying one behind the other, each with its NUL. */
struct cv_strings {
    const char *bytes; /* NULL when count is 0 */
    size_t length;     /* of all strings with their NULs */
    uint32_t count;
};

/* The string behind `string` in its list. */
static inline const char *cv_strings_next(const char *string)
{
    return string + strlen(string) + 1;
}

#endif
