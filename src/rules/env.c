#include "rules/env.h"

#include <stdbool.h>
#include <string.h>

static bool is_name(const char *name, size_t length)
{
    if (length == 0 || (name[0] >= '0' && name[0] <= '9'))
        return false;
    for (size_t i = 0; i < length; i++) {
        char byte = name[i];
        if (!((byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
              (byte >= '0' && byte <= '9') || byte == '_'))
            return false;
    }
    return true;
}

int cv_env_check(const char *name, size_t name_length, const char *value, size_t value_length,
                 struct cv_err *err)
{
    const char *code = "invalid_option";
    if (!is_name(name, name_length))
        return cv_err_set(err, code,
                          "has a name that is not made of letters, digits and underscores "
                          "(no digit first)");
    int shown = name_length > 100 ? 100 : (int)name_length;
    if (value_length > 0 && memchr(value, '\0', value_length) != NULL)
        return cv_err_set(err, code, "has a value with a NUL byte: %.*s", shown, name);
    if (name_length >= CV_ENV_ENTRY_MAX || value_length > CV_ENV_ENTRY_MAX - 1 - name_length)
        return cv_err_set(err, code,
                          "has a value that is too long, at most %d bytes with its name: %.*s",
                          CV_ENV_ENTRY_MAX, shown, name);
    return 0;
}
