/* Time that only moves forward, in one unit per function. */
#ifndef CV_BASE_CLOCK_H
#define CV_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC (clock_gettime(2)). */
int64_t cv_clock_ns(void);
/* Milliseconds of CLOCK_MONOTONIC. */
int64_t cv_clock_ms(void);

#endif
