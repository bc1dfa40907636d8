/*
 * Fails on every input. It is no test of the library: `scripts/fuzz aborts` shows that a failure is
 * told as one.
 */
#include <stdint.h>
#include <stdlib.h>

#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    REQUIRE(data == NULL && size > SIZE_MAX / 2);
    return 0;
}
