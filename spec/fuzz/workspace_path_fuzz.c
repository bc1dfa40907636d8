/* Paths of a workspace, against a second resolution that works from the end of the path. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "require.h"
#include "rules/workspace_path.h"

#define ROOT CV_WORKSPACE_ROOT "/"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Resolves the absolute path before `end`; the start of the result, which ends with `out`. */
static char *resolve_backwards(const char *path, size_t end, char *out)
{
    size_t skip = 0;
    while (end > 0) {
        size_t start = end;
        while (start > 0 && path[start - 1] != '/')
            start--;
        size_t length = end - start;
        if (length == 2 && memcmp(path + start, "..", 2) == 0) {
            skip++;
        } else if (length > 1 || (length == 1 && path[start] != '.')) {
            if (skip > 0) {
                skip--;
            } else {
                out -= length + 1;
                out[0] = '/';
                memcpy(out + 1, path + start, length);
            }
        }
        end = start == 0 ? 0 : start - 1;
    }
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[sizeof ROOT + CV_WORKSPACE_PATH_MAX];
    static char expected[2 * sizeof path];
    char absolute[CV_WORKSPACE_PATH_SIZE];
    char again[CV_WORKSPACE_PATH_SIZE];
    size_t length;
    size_t again_length;
    struct cv_err err = {0};
    bool accepted = cv_workspace_path((const char *)data, size, absolute, &length, &err) == 0;
    REQUIRE(accepted || (strcmp(err.code, "invalid_path") == 0 && err.message[0] != '\0'));
    if (size == 0 || size > CV_WORKSPACE_PATH_MAX || memchr(data, '\0', size) != NULL) {
        REQUIRE(!accepted);
        return 0;
    }

    size_t root = data[0] == '/' ? 0 : strlen(ROOT);
    memcpy(path, ROOT, root);
    memcpy(path + root, data, size);
    char *end = expected + sizeof expected - 1;
    char *start = resolve_backwards(path, root + size, end);
    bool inside = strcmp(start, CV_WORKSPACE_ROOT) == 0 || strncmp(start, ROOT, strlen(ROOT)) == 0;
    REQUIRE(accepted == inside);
    if (!accepted)
        return 0;
    REQUIRE(strcmp(absolute, start) == 0 && strlen(absolute) == length);

    const char *relative = cv_workspace_path_relative(absolute);
    REQUIRE(relative[0] != '/');
    if (relative[0] != '\0' && strlen(relative) <= CV_WORKSPACE_PATH_MAX) {
        REQUIRE(cv_workspace_path(relative, strlen(relative), again, &again_length, &err) == 0);
        REQUIRE(again_length == length && strcmp(again, absolute) == 0);
    }
    return 0;
}
