/*
 * Opening paths that must stay beneath a folder. Runs in the supervisor, beside hostile commands
 * that may swap any part of a path at any time.
 */
#ifndef CV_FS_BENEATH_H
#define CV_FS_BENEATH_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

/* A folder that paths are resolved beneath. */
struct cv_root {
    int fd;            /* O_PATH | O_DIRECTORY, owned */
    const char *path;  /* its absolute path, borrowed; absolute links below it are inside */
    const char *alias; /* another absolute name of it that links may use ("/workspace"), or NULL */
    const char *real;  /* `path` without links, as getcwd(3) names it to a command; or NULL */
};

/*
 * Opens `path`, relative to the root ("" and "." are the root itself), with open(2)'s flags and
 * mode (O_CLOEXEC is added). Links are followed as long as they stay inside, absolute ones by any
 * name of the root, at most 40 in all; ".." never leaves the root.
 *
 * Uses openat2(2) with RESOLVE_BENEATH first. Where the kernel lacks it, and where it answers EXDEV
 * (an absolute link that may stay inside), a walk opens one component after the other with
 * O_NOFOLLOW. Returns the descriptor, or -1 with errno: EXDEV for a path that leads out, ELOOP for
 * too many links and for a magic link of /proc, else as openat(2). The walk says ENAMETOOLONG, too,
 * for a folder whose own path beneath the root is longer than PATH_MAX.
 */
int cv_open_beneath(const struct cv_root *root, const char *path, int flags, mode_t mode);

/* The walk alone, for tests of the fallback. Same contract. */
int cv_open_beneath_walk(const struct cv_root *root, const char *path, int flags, mode_t mode);

/*
 * Opens, with O_PATH, the folder that holds what `path` leads to, and puts the last name into
 * `name`. Links are followed as above, one in the last place too: `name` was no link when it was
 * looked at, and may be missing. Missing folders on the way are made with `mode`; 0: none is made.
 *
 * Returns the descriptor, or -1 with errno as above; EISDIR for a path that can only be a folder's:
 * the root, one that ends with a slash, "." or "..".
 */
int cv_open_parent_beneath(const struct cv_root *root, const char *path, mode_t mode,
                           char name[NAME_MAX + 1]);

#endif
