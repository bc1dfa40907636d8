#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message is one line: bytes from outside must not be able to start another. */
static void flatten(char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f)
            *text = '?';
    }
}

static void fill(struct cv_err *err, const char *code, const char *format, va_list args)
{
    err->code = code;
    vsnprintf(err->message, sizeof err->message, format, args);
}

int cv_err_set(struct cv_err *err, const char *code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, code, format, args);
    va_end(args);
    flatten(err->message);
    return -1;
}

int cv_err_system(struct cv_err *err, const char *code, int errnum, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, code, format, args);
    va_end(args);
    size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", strerror(errnum));
    flatten(err->message);
    return -1;
}
