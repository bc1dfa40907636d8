#include "base/uuid.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

int cv_uuid(char out[CV_UUID_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[16];
    ssize_t got;
    do {
        got = getrandom(bytes, sizeof bytes, 0);
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof bytes)
        return -1;
    bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 0x0f];
    }
    *out = '\0';
    return 0;
}
