#include "process/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/linux.h"

#define CHILD_PIDFD 3
#define CHILD_SOCKET 4
/* Above the descriptors of the child, so that no dup2 there overwrites the source of the next. */
#define FIRST_SAFE_FD 10

struct ends {
    int host;  /* this process's end of the socket */
    int child; /* the supervisor's end */
    int self;  /* a pidfd of this process, or on an old kernel the child's end once more */
};

static void close_ends(struct ends *ends)
{
    cv_fd_close(&ends->host);
    cv_fd_close(&ends->child);
    cv_fd_close(&ends->self);
}

/* Moves up even the host's own end: a host with closed standard streams must not get 0 to 2. */
static bool open_ends(struct ends *ends, bool *with_pidfd)
{
    int pair[2];
    *ends = (struct ends){-1, -1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return false;
    ends->host = cv_fd_move_up(pair[0], FIRST_SAFE_FD);
    ends->child = cv_fd_move_up(pair[1], FIRST_SAFE_FD);
    if (ends->host < 0 || ends->child < 0)
        return false;
    int self = cv_pidfd_open(getpid());
    *with_pidfd = self >= 0;
    if (self >= 0)
        ends->self = cv_fd_move_up(self, FIRST_SAFE_FD);
    else if (errno != EMFILE && errno != ENFILE && errno != ENOMEM) /* no such call, or forbidden */
        ends->self = fcntl(ends->child, F_DUPFD_CLOEXEC, FIRST_SAFE_FD);
    return ends->self >= 0;
}

/* The supervisor resets signals by itself; unblocked and default only spares it surprises before.
 */
static int spawn_guard(const char *path, const struct ends *ends, bool with_pidfd, pid_t *guard)
{
    char *const argv[] = {"chamvi-supervisor", with_pidfd ? NULL : "no-pidfd", NULL};
    char *const env[] = {NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0)
        return failed;
    failed = posix_spawnattr_init(&attributes);
    if (failed != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return failed;
    }
    failed = posix_spawn_file_actions_adddup2(&actions, ends->self, CHILD_PIDFD);
    if (failed == 0)
        failed = posix_spawn_file_actions_adddup2(&actions, ends->child, CHILD_SOCKET);
    if (failed == 0)
        failed = posix_spawnattr_setsigmask(&attributes, &none);
    if (failed == 0)
        failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (failed == 0)
        failed = posix_spawn(guard, path, &actions, &attributes, argv, env);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

int cv_launch(const char *path, struct cv_launched *launched, struct cv_err *err)
{
    struct ends ends;
    bool with_pidfd;
    if (!open_ends(&ends, &with_pidfd)) {
        int saved = errno;
        close_ends(&ends);
        return cv_err_system(err, "create_failed", saved, "can't make a socket for the supervisor");
    }
    int failed = spawn_guard(path, &ends, with_pidfd, &launched->guard);
    if (failed != 0) {
        close_ends(&ends);
        return cv_err_system(err, "create_failed", failed, "can't start %s", path);
    }
    launched->socket = ends.host;
    ends.host = -1;
    close_ends(&ends);
    return 0;
}

void cv_launch_undo(pid_t guard)
{
    if (waitpid(guard, NULL, WNOHANG) != 0)
        return;           /* it has ended, and its number may be another's */
    kill(guard, SIGKILL); /* its supervisor sees the end of file, or ends with it */
    while (waitpid(guard, NULL, 0) < 0 && errno == EINTR)
        continue;
}
