#include "rules/workspace_path.h"

#include <string.h>

#define ROOT_LENGTH (sizeof CV_WORKSPACE_ROOT - 1)

static int refuse(struct cv_err *err, const char *why)
{
    cv_err_set(err, "invalid_path", "%s", why);
    return -1;
}

/* Adds one part of a path to what lies in `absolute`; the new length. */
static size_t enter(char *absolute, size_t length, const char *part, size_t part_length)
{
    if (part_length == 0 || (part_length == 1 && part[0] == '.'))
        return length;
    if (part_length == 2 && part[0] == '.' && part[1] == '.') {
        while (length > 0 && absolute[--length] != '/')
            ;
        return length;
    }
    absolute[length] = '/';
    memcpy(absolute + length + 1, part, part_length);
    return length + 1 + part_length;
}

int cv_workspace_path(const char *path, size_t length, char absolute[CV_WORKSPACE_PATH_SIZE],
                      size_t *absolute_length, struct cv_err *err)
{
    if (length == 0)
        return refuse(err, "the path is empty: \".\" is the workspace root");
    if (length > CV_WORKSPACE_PATH_MAX)
        return cv_err_set(err, "invalid_path", "the path has %zu bytes; at most %d are possible",
                          length, CV_WORKSPACE_PATH_MAX);
    if (memchr(path, '\0', length) != NULL)
        return refuse(err, "the path has a NUL byte");

    size_t got = 0;
    if (path[0] != '/') {
        memcpy(absolute, CV_WORKSPACE_ROOT, ROOT_LENGTH);
        got = ROOT_LENGTH;
    }
    for (size_t at = 0; at < length;) {
        const char *slash = memchr(path + at, '/', length - at);
        size_t end = slash == NULL ? length : (size_t)(slash - path);
        got = enter(absolute, got, path + at, end - at);
        at = end + 1;
    }
    absolute[got] = '\0';
    /* A part never holds a NUL, so the byte behind the root tells whether its name ends there. */
    if (strncmp(absolute, CV_WORKSPACE_ROOT, ROOT_LENGTH) != 0 ||
        (absolute[ROOT_LENGTH] != '\0' && absolute[ROOT_LENGTH] != '/'))
        return refuse(err, "the path leads out of the workspace: give one relative to its root, or "
                           "under " CV_WORKSPACE_ROOT);
    *absolute_length = got;
    return 0;
}
