/*
 * System calls and constants that musl 1.2.3 or an older glibc does not declare. Values are from
 * the Linux user API headers of 6.1; every wrapper returns -1 with errno, ENOSYS on a kernel that
 * lacks the call.
 */
#ifndef CV_BASE_LINUX_H
#define CV_BASE_LINUX_H

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif

/* struct open_how and its flags: openat2(2). */
struct cv_open_how {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};

#define CV_RESOLVE_NO_XDEV 0x01
#define CV_RESOLVE_NO_MAGICLINKS 0x02
#define CV_RESOLVE_NO_SYMLINKS 0x04
#define CV_RESOLVE_BENEATH 0x08

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef F_SETPIPE_SZ
#define F_SETPIPE_SZ 1031
#endif
/* waitid(2): musl has P_PIDFD in an enumeration, older libcs not at all. */
#define CV_P_PIDFD 3

static inline int cv_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static inline int cv_pidfd_signal(int pidfd, int signal)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}

static inline int cv_openat2(int dir, const char *path, const struct cv_open_how *how)
{
    return (int)syscall(SYS_openat2, dir, path, how, sizeof *how);
}

#endif
