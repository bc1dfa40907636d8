/* Names of refs, against libgit2. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <git2.h>

#include "require.h"
#include "rules/git_ref.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    git_libgit2_init();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[sizeof "refs/heads/" + CV_GIT_REF_MAX] = "refs/heads/";
    struct cv_err err = {0};
    int valid = 0;
    bool accepted = cv_git_ref_check((const char *)data, size, &err) == 0;
    REQUIRE(accepted || (strcmp(err.code, "invalid_ref") == 0 && err.message[0] != '\0'));
    if (size == 0 || size > CV_GIT_REF_MAX || memchr(data, '\0', size) != NULL || data[0] == '-') {
        REQUIRE(!accepted);
        return 0;
    }
    memcpy(name + strlen(name), data, size);
    REQUIRE(git_reference_name_is_valid(&valid, name) == 0);
    /* libgit2 lets DEL pass, git doesn't. */
    REQUIRE(accepted == (valid != 0 && memchr(data, 0x7f, size) == NULL));
    return 0;
}
