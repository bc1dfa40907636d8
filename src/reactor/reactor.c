#include "reactor/reactor.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/linux.h"

static void clock_ready(struct cv_source *source, uint32_t events)
{
    struct cv_reactor *reactor = cv_list_entry(source, struct cv_reactor, clock);
    uint64_t strikes;
    ssize_t got;
    (void)events;
    /* Only to make it unreadable; EAGAIN after it was set anew is normal. */
    do {
        got = read(source->fd, &strikes, sizeof strikes);
    } while (got < 0 && errno == EINTR);
    if (got > 0)
        reactor->clock_set = 0;
}

/* The mark costs one page and no system call per check; a vfork child counts as the parent. */
static void mark_owner(struct cv_reactor *reactor)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    reactor->pid = getpid();
    reactor->owner = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (reactor->owner == MAP_FAILED) {
        reactor->owner = NULL;
    } else if (madvise(reactor->owner, size, MADV_WIPEONFORK) != 0) {
        munmap(reactor->owner, size);
        reactor->owner = NULL;
    } else {
        *reactor->owner = 1;
    }
}

bool cv_reactor_foreign(const struct cv_reactor *reactor)
{
    return reactor->owner != NULL ? *reactor->owner == 0 : getpid() != reactor->pid;
}

int cv_reactor_open(struct cv_reactor *reactor, struct cv_err *err)
{
    memset(reactor, 0, sizeof *reactor);
    cv_heap_init(&reactor->alarms);
    cv_list_init(&reactor->completions);
    reactor->clock.fd = -1;
    reactor->clock.ready = clock_ready;
    reactor->epoll = cv_fd_above_stdio(epoll_create1(EPOLL_CLOEXEC));
    if (reactor->epoll < 0)
        return cv_err_system(err, "create_failed", errno, "can't make an epoll set");
    int clock = cv_fd_above_stdio(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (clock < 0 || cv_source_open(reactor, &reactor->clock, clock, EPOLLIN) != 0) {
        int saved = errno;
        cv_fd_close(&clock);
        cv_fd_close(&reactor->epoll);
        return cv_err_system(err, "create_failed", saved, "can't make a timer");
    }
    mark_owner(reactor);
    return 0;
}

void cv_reactor_close(struct cv_reactor *reactor)
{
    if (reactor->epoll < 0)
        return;
    cv_source_close(reactor, &reactor->clock);
    cv_fd_close(&reactor->epoll);
    cv_heap_free(&reactor->alarms);
    if (reactor->owner != NULL)
        munmap(reactor->owner, (size_t)sysconf(_SC_PAGESIZE));
    reactor->owner = NULL;
}

/* ---- sources ------------------------------------------------------------------------------ */

int cv_source_open(struct cv_reactor *reactor, struct cv_source *source, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    source->fd = -1;
    if (epoll_ctl(reactor->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return -1;
    source->fd = fd;
    source->events = events;
    return 0;
}

void cv_source_want(struct cv_reactor *reactor, struct cv_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (source->fd < 0 || events == source->events)
        return;
    if (epoll_ctl(reactor->epoll, EPOLL_CTL_MOD, source->fd, &event) == 0)
        source->events = events;
}

void cv_source_detach(struct cv_reactor *reactor, struct cv_source *source)
{
    if (source->fd < 0)
        return;
    if (!cv_reactor_foreign(reactor))
        epoll_ctl(reactor->epoll, EPOLL_CTL_DEL, source->fd, NULL);
    source->fd = -1;
    for (int i = reactor->batch_at; i < reactor->batch_count; i++) {
        if (reactor->batch[i].data.ptr == source)
            reactor->batch[i].data.ptr = NULL; /* an event of this step that came too late */
    }
}

void cv_source_close(struct cv_reactor *reactor, struct cv_source *source)
{
    int fd = source->fd;
    /* Explicitly: a fork may hold the descriptor, and then closing it here would not take it out.
     */
    cv_source_detach(reactor, source);
    cv_fd_close(&fd);
}

/* ---- alarms ------------------------------------------------------------------------------- */

/* The timerfd is only set when it would strike too late: an early strike costs less than a call. */
static void set_clock(struct cv_reactor *reactor, int64_t deadline)
{
    if (reactor->clock_set != 0 && reactor->clock_set <= deadline)
        return;
    struct itimerspec when = {0};
    when.it_value.tv_sec = deadline / 1000;
    when.it_value.tv_nsec = (deadline % 1000) * 1000000 + 1; /* all zero would disarm it */
    timerfd_settime(reactor->clock.fd, TFD_TIMER_ABSTIME, &when, NULL);
    reactor->clock_set = deadline;
}

static void set_clock_for_alarms(struct cv_reactor *reactor)
{
    const struct cv_timer *first = cv_heap_first(&reactor->alarms);
    if (first != NULL)
        set_clock(reactor, first->deadline);
}

int cv_alarm_set(struct cv_reactor *reactor, struct cv_alarm *alarm, int64_t delay_ms)
{
    /* One more, since the part of a millisecond that has passed must not shorten the delay. */
    int64_t deadline = cv_clock_ms() + delay_ms + (delay_ms > 0 ? 1 : 0);
    if (cv_heap_set(&reactor->alarms, &alarm->timer, deadline) != 0)
        return -1;
    set_clock_for_alarms(reactor);
    return 0;
}

void cv_alarm_clear(struct cv_reactor *reactor, struct cv_alarm *alarm)
{
    cv_heap_remove(&reactor->alarms, &alarm->timer);
}

static void run_alarms(struct cv_reactor *reactor)
{
    const int64_t now = cv_clock_ms();
    if (reactor->clock_set != 0 && reactor->clock_set <= now)
        reactor->clock_set = 0; /* it has struck */
    struct cv_timer *first;
    while ((first = cv_heap_first(&reactor->alarms)) != NULL && first->deadline <= now) {
        cv_heap_remove(&reactor->alarms, first);
        struct cv_alarm *alarm = cv_list_entry(first, struct cv_alarm, timer);
        alarm->strike(alarm);
    }
    set_clock_for_alarms(reactor);
}

/* ---- completions and the step ------------------------------------------------------------- */

void cv_reactor_complete(struct cv_reactor *reactor, struct cv_completion *completion,
                         const void *owner)
{
    completion->owner = owner;
    cv_list_append(&reactor->completions, &completion->link);
    if (!reactor->stepping && !cv_reactor_foreign(reactor))
        set_clock(reactor, 1); /* long ago */
}

struct cv_completion *cv_reactor_first(const struct cv_reactor *reactor)
{
    if (cv_list_empty(&reactor->completions))
        return NULL;
    return cv_list_entry(reactor->completions.next, struct cv_completion, link);
}

static int wait_time(const struct cv_reactor *reactor, int64_t timeout_ms)
{
    if (!cv_list_empty(&reactor->completions))
        return 0;
    if (timeout_ms < 0)
        return -1;
    return timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms;
}

int cv_reactor_step(struct cv_reactor *reactor, int64_t timeout_ms, struct cv_err *err)
{
    if (cv_reactor_foreign(reactor))
        return cv_err_set(err, "closed", "used in a forked process: start anew in the child");
    int count = epoll_wait(reactor->epoll, reactor->batch, CV_REACTOR_BATCH,
                           wait_time(reactor, timeout_ms));
    if (count < 0 && errno != EINTR)
        return cv_err_system(err, "closed", errno, "can't wait for events");
    reactor->batch_count = count < 0 ? 0 : count;
    reactor->stepping = true;
    for (reactor->batch_at = 0; reactor->batch_at < reactor->batch_count;) {
        const struct epoll_event *event = &reactor->batch[reactor->batch_at++];
        struct cv_source *source = event->data.ptr;
        if (source != NULL)
            source->ready(source, event->events);
    }
    reactor->batch_at = reactor->batch_count = 0;
    run_alarms(reactor);
    reactor->stepping = false;
    return 0;
}
