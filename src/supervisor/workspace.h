/* The folders of a workspace as its supervisor holds them, and the environment of its commands. */
#ifndef CV_SUPERVISOR_WORKSPACE_H
#define CV_SUPERVISOR_WORKSPACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/folder.h"
#include "fs/beneath.h"
#include "proto/supervise/message.h"

struct cv_workspace {
    char *base_path;   /* owned */
    char *names_bytes; /* owned; `names` points into it */
    struct cv_strings names;
    bool with_record;    /* the last name is the record of the workspace, a file */
    int base;            /* descriptor of the folder that holds the names */
    struct cv_root root; /* fd -1 in a workspace that is only removed */
    char *root_path;     /* owned */
    char *real_path;     /* owned: the same without links, or NULL */
    dev_t device;        /* of the root, to notice that it was replaced */
    ino_t inode;
    char *env_bytes;  /* owned; `env` points into it */
    char **env;       /* NULL-terminated, for execve(2) */
    const char *path; /* the value of PATH in `env`, or NULL */
};

/*
 * Changes the hello of a workspace on which nothing is to be done any more but its removal. Of one
 * that was to be made only its record is there; what else has one of its names is another's.
 */
void cv_workspace_only_remove(struct cv_hello *hello);

/*
 * Makes or opens the folders that the hello names; on failure everything it made is gone again. A
 * base folder that belongs to another user is refused, since its owner could swap what lies in it.
 */
bool cv_workspace_open(struct cv_workspace *workspace, const struct cv_hello *hello,
                       struct cv_trouble *trouble);

/* False when the root folder was removed or replaced since it was opened. */
bool cv_workspace_present(const struct cv_workspace *workspace);

/*
 * True for a workspace whose record is there no more: the record goes last, so another process has
 * removed all of it.
 */
bool cv_workspace_removed(const struct cv_workspace *workspace);

/*
 * The descriptor of a working directory: the root's own for "" (then *owned is false), else one
 * that the caller closes. -1 with errno, EXDEV for a path that leads out.
 */
int cv_workspace_cwd(const struct cv_workspace *workspace, const char *path, bool *owned);

/*
 * Deletes everything that the workspace owns; goes on past failures and reports the first. The
 * record goes last, and only when all else is gone.
 */
bool cv_workspace_remove(struct cv_workspace *workspace, void (*progress)(void *context),
                         void *context, struct cv_trouble *trouble);

#endif
