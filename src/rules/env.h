/* Environment variables that a host program configures. */
#ifndef CV_RULES_ENV_H
#define CV_RULES_ENV_H

#include <stddef.h>

#include "base/err.h"

/* One string NAME=value of execve(2): MAX_ARG_STRLEN of the kernel less its NUL. */
#define CV_ENV_ENTRY_MAX 131071

/*
 * The name is [A-Za-z_][A-Za-z0-9_]*, the value has no NUL, and both fit into one entry.
 *
 * 0, or -1 with the code `invalid_option`. The message is to be read after the name of what holds
 * the variable. It names the variable but never shows its value, nor a name that is wrong, which
 * may hold a value.
 */
int cv_env_check(const char *name, size_t name_length, const char *value, size_t value_length,
                 struct cv_err *err);

#endif
