/* Paths in a workspace as a model gives them. Lexical only: links are the business of src/fs. */
#ifndef CV_RULES_WORKSPACE_PATH_H
#define CV_RULES_WORKSPACE_PATH_H

#include <stddef.h>

#include "base/err.h"

#define CV_WORKSPACE_ROOT "/workspace" /* as a model sees it, on every provider */
#define CV_WORKSPACE_PATH_MAX 4096     /* bytes of a path that is given */
/* Room for every result, with its NUL. */
#define CV_WORKSPACE_PATH_SIZE (sizeof CV_WORKSPACE_ROOT "/" + CV_WORKSPACE_PATH_MAX)

/*
 * Resolves `path`, relative to the root or absolute, and writes the normalized absolute path with
 * its NUL to `absolute` and its length to *absolute_length: the root itself or something below it,
 * without empty, `.` and `..` parts and without a slash at the end. What leads out on the way
 * and comes back is fine.
 *
 * 0, or -1 with the code `invalid_path`.
 */
int cv_workspace_path(const char *path, size_t length, char absolute[CV_WORKSPACE_PATH_SIZE],
                      size_t *absolute_length, struct cv_err *err);

/* The part of such a result that is relative to the root; "" for the root itself. */
static inline const char *cv_workspace_path_relative(const char *absolute)
{
    const char *rest = absolute + sizeof CV_WORKSPACE_ROOT - 1;
    return *rest == '/' ? rest + 1 : rest;
}

#endif
