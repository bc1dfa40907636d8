#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/linux.h"

void cv_fd_close(int *fd)
{
    if (*fd < 0)
        return;
    int saved = errno;
    close(*fd);
    *fd = -1;
    errno = saved;
}

static int close_from_proc(int first)
{
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        return -1;
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd >= first && fd != dirfd(dir))
            close(fd);
    }
    closedir(dir);
    return 0;
}

void cv_fd_close_from(int first)
{
    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0) == 0)
        return;
    if (close_from_proc(first) == 0)
        return;
    struct rlimit limit = {.rlim_cur = 1024};
    getrlimit(RLIMIT_NOFILE, &limit);
    for (rlim_t fd = (rlim_t)first; fd < limit.rlim_cur && fd < INT_MAX; fd++)
        close((int)fd);
}

int cv_fd_move_up(int fd, int least)
{
    if (fd < 0)
        return -1;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, least);
    if (moved < 0 && errno == EINVAL) /* `least` is past the limit of open files: fcntl(2) */
        errno = EMFILE;
    cv_fd_close(&fd);
    return moved;
}

int cv_fd_above_stdio(int fd)
{
    return fd > STDERR_FILENO ? fd : cv_fd_move_up(fd, STDERR_FILENO + 1);
}
