#include "bell/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"

#define SOCKET_NAME "bell"

static int fail(struct cv_bell *bell, struct cv_err *err, int errnum, const char *text)
{
    cv_bell_close(bell, false);
    return cv_err_system(err, "create_failed", errnum, "can't wake the host's loop: %s", text);
}

/* ---- the socket --------------------------------------------------------------------------- */

/* Binds the listener in `folder` and leaves a descriptor of the file, but no name. */
static int bind_in(struct cv_bell *bell, int folder)
{
    /* The folder's own path may be longer than an address. */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" SOCKET_NAME, folder);
    if (bind(bell->listener, (struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    bell->place = cv_fd_above_stdio(openat(folder, SOCKET_NAME, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    int failed = errno;
    unlinkat(folder, SOCKET_NAME, 0);
    errno = failed;
    return bell->place < 0 ? -1 : 0;
}

static int bind_nameless(struct cv_bell *bell, const char *folder)
{
    char private[PATH_MAX];
    int length = snprintf(private, sizeof private, "%s/chamvi-bell-XXXXXX", folder);
    if (length < 0 || (size_t)length >= sizeof private) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (mkdtemp(private) == NULL)
        return -1;
    int opened = cv_fd_above_stdio(open(private, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    int result = opened < 0 ? -1 : bind_in(bell, opened);
    int failed = errno;
    cv_fd_close(&opened);
    rmdir(private);
    errno = failed;
    return result;
}

int cv_bell_open(struct cv_bell *bell, int watched, const char *folder, struct cv_err *err)
{
    *bell = CV_BELL_CLOSED;
    bell->watched = watched;
    bell->listener =
        cv_fd_above_stdio(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (bell->listener < 0)
        return fail(bell, err, errno, "socket");
    if (bind_nameless(bell, folder) != 0)
        return fail(bell, err, errno, "a socket in the folder for temporary files");
    if (listen(bell->listener, SOMAXCONN) != 0)
        return fail(bell, err, errno, "listen");
    snprintf(bell->path, sizeof bell->path, "/proc/self/fd/%d", bell->place);
    return 0;
}

/* ---- the thread --------------------------------------------------------------------------- */

/* Waits until the watched descriptor is readable; false when the peer has closed or broke the
 * rules. */
static bool await_news(const struct cv_bell *bell)
{
    struct pollfd fds[] = {
        {.fd = bell->watched, .events = POLLIN},
        {.fd = bell->line, .events = POLLIN},
    };
    int count;
    do {
        count = poll(fds, 2, -1);
    } while (count < 0 && errno == EINTR);
    return count > 0 && fds[1].revents == 0;
}

static bool ring_once(const struct cv_bell *bell)
{
    char byte = '!';
    ssize_t count;
    do {
        count = send(bell->line, &byte, 1, MSG_NOSIGNAL);
    } while (count < 0 && errno == EINTR);
    if (count != 1)
        return false;
    do {
        count = recv(bell->line, &byte, 1, 0);
    } while (count < 0 && errno == EINTR);
    return count == 1;
}

static void *ring(void *argument)
{
    const struct cv_bell *bell = argument;
    while (await_news(bell) && ring_once(bell))
        continue;
    shutdown(bell->line, SHUT_RDWR); /* the peer need not wait for a bell that won't ring */
    return NULL;
}

/* The host's signals go to its own threads. Returns an errno. */
static int start_ringer(struct cv_bell *bell)
{
    sigset_t all, before;
    sigfillset(&all);
    int failed = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (failed != 0)
        return failed;
    failed = pthread_create(&bell->ringer, NULL, ring, bell);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bell->ringing = failed == 0;
    return failed;
}

/* ---- answering and closing ---------------------------------------------------------------- */

static bool is_own(int line)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(line, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid();
}

int cv_bell_answer(struct cv_bell *bell, struct cv_err *err)
{
    do {
        cv_fd_close(&bell->line);
        bell->line = cv_fd_above_stdio(accept4(bell->listener, NULL, NULL, SOCK_CLOEXEC));
        if (bell->line < 0)
            return fail(bell, err, errno, "nobody of this process has connected");
    } while (!is_own(bell->line));
    cv_fd_close(&bell->listener);
    cv_fd_close(&bell->place);
    int failed = start_ringer(bell);
    if (failed != 0)
        return fail(bell, err, failed, "a thread");
    return 0;
}

void cv_bell_close(struct cv_bell *bell, bool foreign)
{
    if (bell->ringing && !foreign) {
        shutdown(bell->line, SHUT_RDWR);
        pthread_join(bell->ringer, NULL);
    }
    bell->ringing = false;
    cv_fd_close(&bell->line);
    cv_fd_close(&bell->listener);
    cv_fd_close(&bell->place);
}
