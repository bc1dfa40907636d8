/*
 * Opening paths that must stay beneath a folder. Runs in the supervisor, beside hostile commands
 * that may swap any part of a path at any time.
 */
#ifndef CV_FS_BENEATH_H
#define CV_FS_BENEATH_H

#include <stddef.h>
#include <sys/types.h>

/* A folder that paths are resolved beneath. */
struct cv_root {
    int fd;            /* O_PATH | O_DIRECTORY, owned */
    const char *path;  /* its absolute path, borrowed; absolute links below it are inside */
    const char *alias; /* another absolute name of it that links may use ("/workspace"), or NULL */
};

/*
 * Opens `path`, relative to the root ("" and "." are the root itself), with open(2)'s flags and
 * mode (O_CLOEXEC is added). Links are followed as long as they stay inside, absolute ones by the
 * root's path or alias, at most 40 in all; ".." never leaves the root.
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

#endif
