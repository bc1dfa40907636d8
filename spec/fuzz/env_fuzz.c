/* An environment variable, given as NAME=value, against a regular expression. */
#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "require.h"
#include "rules/env.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static regex_t name_form;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return regcomp(&name_form, "^[A-Za-z_][A-Za-z0-9_]*$", REG_EXTENDED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[4096];
    struct cv_err err = {0};
    const uint8_t *equals = size == 0 ? NULL : memchr(data, '=', size);
    size_t length = equals == NULL ? size : (size_t)(equals - data);
    const uint8_t *value = equals == NULL ? data + size : equals + 1;
    size_t value_length = size - (size_t)(value - data);
    if (length >= sizeof name)
        return 0;
    if (length > 0)
        memcpy(name, data, length);
    name[length] = '\0';

    bool named = strlen(name) == length && strchr(name, '\n') == NULL &&
                 regexec(&name_form, name, 0, NULL, 0) == 0;
    bool expected = named && (value_length == 0 || memchr(value, '\0', value_length) == NULL) &&
                    length + 1 + value_length <= CV_ENV_ENTRY_MAX;
    bool accepted = cv_env_check(name, length, (const char *)value, value_length, &err) == 0;
    REQUIRE(accepted == expected);
    if (!accepted) {
        REQUIRE(strcmp(err.code, "invalid_option") == 0);
        /* The variable is only named when that is its name. */
        REQUIRE(named || strncmp(err.message, "has a name that is not", 22) == 0);
    }
    return 0;
}
