/* Descriptors: small helpers that every layer needs. */
#ifndef CV_BASE_FD_H
#define CV_BASE_FD_H

/* Closes *fd unless it is negative and sets it to -1; errno is kept. */
void cv_fd_close(int *fd);

/*
 * Closes every descriptor from `first` up: close_range(2), else one by one through
 * /proc/self/fd, else up to the limit of open files.
 */
void cv_fd_close_from(int first);

/*
 * A copy of `fd` that is at least `least` and close-on-exec; `fd` is closed either way and may be
 * negative. -1 with errno on failure.
 */
int cv_fd_move_up(int fd, int least);

/*
 * `fd` itself, or a copy as by cv_fd_move_up when it is one of 0 to 2: a program that runs with
 * closed standard streams must not print into a descriptor of the library. -1 with errno.
 */
int cv_fd_above_stdio(int fd);

#endif
