/* An assertion of the fuzz targets, on in every build. */
#ifndef CV_SPEC_FUZZ_REQUIRE_H
#define CV_SPEC_FUZZ_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

/* box.h, in the targets that use it: libFuzzer writes the input down outside. */
void box_leave(void) __attribute__((weak));

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            if (box_leave != NULL)                                                                 \
                box_leave();                                                                       \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
