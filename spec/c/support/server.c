#include "support/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct server_seen *seen; /* in the server's processes */

static void send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent < 0)
            _exit(0);
        bytes += sent;
        length -= (size_t)sent;
    }
}

static void trickle(int fd, const char *bytes, size_t length)
{
    const struct timespec pause = {.tv_nsec = 200000};
    for (size_t i = 0; i < length; i++) {
        send_all(fd, bytes + i, 1);
        nanosleep(&pause, NULL);
    }
}

static void flood(int fd, long number)
{
    char block[65536];
    memset(block, 'x', sizeof block);
    while (number > 0) {
        long count = number < (long)sizeof block ? number : (long)sizeof block;
        send_all(fd, block, (size_t)count);
        number -= count;
    }
}

/* False at the end of the stream. */
static int read_request(int fd)
{
    static char request[sizeof seen->request];
    size_t length = 0;
    long left = -1;
    while (left != 0) {
        char *end;
        ssize_t got = recv(fd, request + length, sizeof request - 1 - length, 0);
        if (got <= 0)
            return 0;
        if (left < 0) {
            length += (size_t)got;
            request[length] = '\0';
            if ((end = strstr(request, "\r\n\r\n")) == NULL)
                continue;
            const char *field = strcasestr(request, "\r\ncontent-length:");
            left = field == NULL ? 0 : atol(field + 17);
            left -= request + length - (end + 4);
            memcpy(seen->request, request, length + 1);
        } else {
            left -= got; /* a long body: only counted */
            __atomic_add_fetch(&seen->bytes, (unsigned long)got, __ATOMIC_SEQ_CST);
        }
        if (length > sizeof request / 2)
            length = sizeof request / 2;
    }
    __atomic_add_fetch(&seen->requests, 1, __ATOMIC_SEQ_CST);
    return 1;
}

static void take_all(int fd, int echo)
{
    char block[65536];
    ssize_t got;
    while ((got = recv(fd, block, sizeof block, 0)) > 0) {
        __atomic_add_fetch(&seen->bytes, (unsigned long)got, __ATOMIC_SEQ_CST);
        if (echo)
            send_all(fd, block, (size_t)got);
    }
    __atomic_add_fetch(&seen->drained, 1, __ATOMIC_SEQ_CST);
}

static void hold(int fd)
{
    struct pollfd watched = {.fd = fd, .events = POLLRDHUP};
    while (poll(&watched, 1, -1) < 0)
        continue;
}

static void play(int fd, const struct server_step *script)
{
    const struct linger at_once = {.l_onoff = 1};
    const struct timespec moment = {.tv_nsec = 1000000};
    for (const struct server_step *step = script;; step++) {
        size_t length = step->number > 0 ? (size_t)step->number
                        : step->text     ? strlen(step->text)
                                         : 0;
        const struct timespec pause = {step->number / 1000, step->number % 1000 * 1000000};
        switch (step->act) {
        case SERVER_CLOSE:
            return;
        case SERVER_REQUEST:
            if (!read_request(fd))
                return;
            break;
        case SERVER_SEND:
            send_all(fd, step->text, length);
            break;
        case SERVER_TRICKLE:
            trickle(fd, step->text, length);
            break;
        case SERVER_FLOOD:
            flood(fd, step->number);
            break;
        case SERVER_SLEEP:
            nanosleep(&pause, NULL);
            break;
        case SERVER_AWAIT:
            while (__atomic_load_n(&seen->go, __ATOMIC_SEQ_CST) == 0)
                nanosleep(&moment, NULL);
            break;
        case SERVER_RESET:
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            return;
        case SERVER_SHUT:
            shutdown(fd, SHUT_WR);
            break;
        case SERVER_DRAIN:
            take_all(fd, 0);
            break;
        case SERVER_ECHO:
            take_all(fd, 1);
            break;
        case SERVER_HOLD:
            hold(fd);
            break;
        case SERVER_AGAIN:
            step = script - 1;
            break;
        }
    }
}

static void serve(int listener, const struct server_step *script)
{
    const int one = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            _exit(1);
        __atomic_add_fetch(&seen->connections, 1, __ATOMIC_SEQ_CST);
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(listener);
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            play(fd, script);
            _exit(0);
        }
        close(fd);
    }
}

static int listen_unix(struct server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const char *folder = getenv("TMPDIR");
    int length = snprintf(server->path, sizeof server->path, "%s/chamvi-net-%d.sock",
                          folder == NULL ? "/tmp" : folder, (int)getpid());
    assert_in_range(length, 1, sizeof server->path - 1);
    unlink(server->path);
    memcpy(address.sun_path, server->path, sizeof address.sun_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    snprintf(server->url, sizeof server->url, "http://engine");
    return fd;
}

static int listen_tcp(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    server->port = ntohs(address.sin_port);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", server->port);
    return fd;
}

void server_start(struct server *server, int unix_socket, const struct server_step *script)
{
    memset(server, 0, sizeof *server);
    int listener = unix_socket ? listen_unix(server) : listen_tcp(server);
    assert_int_equal(listen(listener, 64), 0);
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
    server->seen = seen;
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0)
        serve(listener, script);
    close(listener);
}

const char *server_socket(const struct server *server)
{
    return server->path[0] == '\0' ? NULL : server->path;
}

void server_pause(const struct server *server)
{
    int status;
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(server->pid, &status, WUNTRACED), server->pid);
    assert_true(WIFSTOPPED(status));
}

void server_resume(const struct server *server)
{
    assert_int_equal(kill(server->pid, SIGCONT), 0);
}

void server_go(const struct server *server)
{
    __atomic_store_n(&server->seen->go, 1, __ATOMIC_SEQ_CST);
}

void server_stop(struct server *server)
{
    kill(server->pid, SIGKILL);
    assert_int_equal(waitpid(server->pid, NULL, 0), server->pid);
    munmap((void *)server->seen, sizeof *server->seen);
    if (server->path[0] != '\0')
        unlink(server->path);
}
