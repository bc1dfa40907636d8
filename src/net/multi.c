#include "net/multi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

/* Idle connections that are kept for later transfers. */
#define IDLE_CONNECTIONS 16
/* When an idle TCP connection is asked whether its peer lives, and how often then. */
#define KEEPALIVE_IDLE_S 30
#define KEEPALIVE_INTERVAL_S 15

/* A descriptor of libcurl: one that was made here, or one of its own that it wants watched. */
struct cv_multi_socket {
    struct cv_idnode by_fd;
    struct cv_source source; /* open while libcurl waits for it */
    struct cv_multi *multi;
    bool ours;
};

static struct cv_multi_socket *find_socket(const struct cv_multi *multi, int fd)
{
    struct cv_idnode *node = cv_idmap_find(&multi->sockets, (uint32_t)fd);
    return node == NULL ? NULL : cv_list_entry(node, struct cv_multi_socket, by_fd);
}

static void drop_socket(struct cv_multi *multi, struct cv_multi_socket *socket)
{
    cv_source_detach(multi->reactor, &socket->source);
    cv_idmap_remove(&multi->sockets, &socket->by_fd);
    free(socket);
}

/* ---- transfers that have ended ------------------------------------------------------------ */

static struct cv_transfer *owner_of(CURL *easy)
{
    char *transfer = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    return (struct cv_transfer *)(void *)transfer;
}

/* Tells who has ended; `done` may close transfers, so nothing is kept across a call. */
static void collect(struct cv_multi *multi)
{
    const CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(multi->curl, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE)
            continue;
        const CURLcode result = message->data.result;
        struct cv_transfer *transfer = owner_of(message->easy_handle);
        transfer->done(transfer, result);
    }
    while (!cv_list_empty(&multi->failed)) {
        struct cv_transfer *transfer =
            cv_list_entry(multi->failed.next, struct cv_transfer, failed);
        cv_list_remove(&transfer->failed);
        transfer->done(transfer, CURLE_COULDNT_CONNECT);
    }
}

static void act(struct cv_multi *multi, int fd, int events)
{
    int running;
    curl_multi_socket_action(multi->curl, fd, events, &running);
    collect(multi);
}

/* ---- libcurl's callbacks: none calls libcurl ---------------------------------------------- */

static void socket_ready(struct cv_source *source, uint32_t events)
{
    struct cv_multi_socket *socket = cv_list_entry(source, struct cv_multi_socket, source);
    int flags = 0;
    /* An error is found by the read or the write, which then also knows which. */
    if ((events & (EPOLLERR | EPOLLHUP)) != 0)
        events |= source->events;
    if ((events & EPOLLIN) != 0)
        flags |= CURL_CSELECT_IN;
    if ((events & EPOLLOUT) != 0)
        flags |= CURL_CSELECT_OUT;
    act(socket->multi, source->fd, flags);
}

static struct cv_multi_socket *add_socket(struct cv_multi *multi, int fd, bool ours)
{
    struct cv_multi_socket *socket = calloc(1, sizeof *socket);
    if (socket == NULL)
        return NULL;
    socket->source.fd = -1;
    socket->source.ready = socket_ready;
    socket->multi = multi;
    socket->ours = ours;
    if (cv_idmap_add(&multi->sockets, &socket->by_fd, (uint32_t)fd) == 0)
        return socket;
    free(socket);
    return NULL;
}

static bool watch(struct cv_multi *multi, int fd, uint32_t events)
{
    struct cv_multi_socket *socket = find_socket(multi, fd);
    if (socket == NULL) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        socket = add_socket(multi, fd, false);
    }
    if (socket == NULL)
        return false;
    if (socket->source.fd < 0)
        return cv_source_open(multi->reactor, &socket->source, fd, events) == 0;
    cv_source_want(multi->reactor, &socket->source, events);
    return true;
}

/* CURLMOPT_SOCKETFUNCTION */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *per_socket)
{
    struct cv_multi *multi = context;
    (void)per_socket;
    if (what == CURL_POLL_REMOVE) {
        struct cv_multi_socket *socket = find_socket(multi, fd);
        if (socket != NULL && socket->ours)
            cv_source_detach(multi->reactor, &socket->source);
        else if (socket != NULL)
            drop_socket(multi, socket);
        return 0;
    }
    uint32_t events = 0;
    if ((what & CURL_POLL_IN) != 0)
        events |= EPOLLIN;
    if ((what & CURL_POLL_OUT) != 0)
        events |= EPOLLOUT;
    if (!watch(multi, fd, events)) {
        /* A failure here would end the whole multi; only this transfer has to. */
        struct cv_transfer *transfer = owner_of(easy);
        transfer->errnum = errno;
        cv_list_remove(&transfer->failed);
        cv_list_append(&multi->failed, &transfer->failed);
        cv_alarm_set(multi->reactor, &multi->clock, 0);
    }
    return 0;
}

/* CURLMOPT_TIMERFUNCTION */
static int on_timer(CURLM *curl, long timeout_ms, void *context)
{
    struct cv_multi *multi = context;
    (void)curl;
    if (timeout_ms >= 0)
        return cv_alarm_set(multi->reactor, &multi->clock, timeout_ms);
    cv_alarm_clear(multi->reactor, &multi->clock);
    return 0;
}

static void clock_strikes(struct cv_alarm *alarm)
{
    struct cv_multi *multi = cv_list_entry(alarm, struct cv_multi, clock);
    act(multi, CURL_SOCKET_TIMEOUT, 0);
}

/* CURLOPT_OPENSOCKETFUNCTION: libcurl 7.88 makes sockets that programs inherit. */
static curl_socket_t on_open(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct cv_transfer *transfer = context;
    (void)purpose;
    int fd = cv_fd_above_stdio(socket(
        address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->protocol));
    struct cv_multi_socket *stale = fd < 0 ? NULL : find_socket(transfer->multi, fd);
    if (stale != NULL)
        drop_socket(transfer->multi, stale);
    if (fd >= 0 && add_socket(transfer->multi, fd, true) != NULL)
        return fd;
    transfer->errnum = errno;
    cv_fd_close(&fd);
    return CURL_SOCKET_BAD;
}

/* CURLOPT_CLOSESOCKETFUNCTION: the connection may have outlived its transfer. */
static int on_close(void *context, curl_socket_t fd)
{
    struct cv_multi *multi = context;
    struct cv_multi_socket *socket = find_socket(multi, fd);
    if (socket != NULL)
        drop_socket(multi, socket);
    return close(fd);
}

/* ---- the multi ---------------------------------------------------------------------------- */

int cv_multi_open(struct cv_multi *multi, struct cv_reactor *reactor, struct cv_err *err)
{
    memset(multi, 0, sizeof *multi);
    multi->reactor = reactor;
    multi->clock.strike = clock_strikes;
    cv_idmap_init(&multi->sockets);
    cv_list_init(&multi->failed);
    /* Counted by libcurl, and safe beside other threads since 7.84. */
    multi->global = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    multi->curl = multi->global ? curl_multi_init() : NULL;
    if (multi->curl == NULL) {
        cv_multi_close(multi);
        return cv_err_set(err, "start_failed", "libcurl does not start");
    }
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETDATA, multi);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERDATA, multi);
    curl_multi_setopt(multi->curl, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS);
    return 0;
}

void cv_multi_close(struct cv_multi *multi)
{
    struct cv_idnode *node;
    if (multi->curl != NULL)
        curl_multi_cleanup(multi->curl);
    multi->curl = NULL;
    if (multi->global)
        curl_global_cleanup();
    multi->global = false;
    if (multi->reactor == NULL)
        return;
    cv_alarm_clear(multi->reactor, &multi->clock);
    while ((node = cv_idmap_any(&multi->sockets)) != NULL) /* those of look-ups left alone */
        drop_socket(multi, cv_list_entry(node, struct cv_multi_socket, by_fd));
    cv_idmap_free(&multi->sockets);
    multi->reactor = NULL;
}

void cv_multi_abandon(struct cv_multi *multi)
{
    int pair[2];
    if (multi->curl == NULL ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return;
    struct cv_idnode *node;
    while ((node = cv_idmap_any(&multi->sockets)) != NULL) {
        struct cv_multi_socket *socket = cv_list_entry(node, struct cv_multi_socket, by_fd);
        if (socket->ours)
            dup3(pair[0], (int)node->id, O_CLOEXEC);
        drop_socket(multi, socket);
    }
    close(pair[0]);
    close(pair[1]);
}

/* ---- transfers ---------------------------------------------------------------------------- */

int cv_transfer_open(struct cv_transfer *transfer, struct cv_multi *multi,
                     void (*done)(struct cv_transfer *, CURLcode), struct cv_err *err)
{
    memset(transfer, 0, sizeof *transfer);
    cv_list_init(&transfer->failed);
    transfer->multi = multi;
    transfer->done = done;
    CURL *easy = transfer->easy = curl_easy_init();
    if (easy == NULL)
        return cv_err_set(err, "start_failed", "no memory for a request");
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* don't join a look-up that hangs */
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, multi);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_S);
    return 0;
}

int cv_transfer_start(struct cv_transfer *transfer, struct cv_err *err)
{
    CURLMcode code = curl_multi_add_handle(transfer->multi->curl, transfer->easy);
    if (code != CURLM_OK)
        return cv_err_set(err, "start_failed", "can't start a request: %s",
                          curl_multi_strerror(code));
    transfer->added = true;
    return 0;
}

void cv_transfer_close(struct cv_transfer *transfer)
{
    if (transfer->easy == NULL)
        return;
    cv_list_remove(&transfer->failed);
    if (transfer->added)
        curl_multi_remove_handle(transfer->multi->curl, transfer->easy);
    curl_easy_cleanup(transfer->easy);
    transfer->easy = NULL;
    transfer->added = false;
}
