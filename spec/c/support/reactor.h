/*
 * What the tests of the reactor share: one reactor per test, sources with the other end of their
 * socket, alarms that note when they struck. Included by one file of a program.
 */
#ifndef CV_SPEC_REACTOR_H
#define CV_SPEC_REACTOR_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "reactor/reactor.h"
#include "support/scratch.h"

/* How late a step or an alarm may be on a busy machine. */
#define LATE_MS 20000
/* Sources that no single batch holds. */
#define MANY (3 * CV_REACTOR_BATCH)

static struct cv_reactor reactor;
static int descriptors_before;

static inline int open_reactor(void **state)
{
    struct cv_err err;
    (void)state;
    descriptors_before = scratch_descriptors();
    return cv_reactor_open(&reactor, &err);
}

static inline int close_reactor(void **state)
{
    (void)state;
    cv_reactor_close(&reactor);
    cv_reactor_close(&reactor);
    assert_int_equal(scratch_descriptors(), descriptors_before);
    return 0;
}

static inline void step(int64_t timeout_ms)
{
    struct cv_err err;
    if (cv_reactor_step(&reactor, timeout_ms, &err) != 0)
        fail_msg("step: %s: %s", err.code, err.message);
}

/* What a foreign loop sees. */
static inline bool readable(int timeout_ms)
{
    struct pollfd watched = {.fd = reactor.epoll, .events = POLLIN};
    int count = poll(&watched, 1, timeout_ms);
    assert_true(count >= 0);
    return count == 1;
}

/* A source with the other end of its socket. */
struct end {
    struct cv_source source;
    int peer;
    unsigned calls;
    uint32_t events;
    void (*act)(struct end *end); /* what the callback does more, or NULL */
    struct end *other;
};

static inline void end_ready(struct cv_source *source, uint32_t events)
{
    struct end *end = cv_list_entry(source, struct end, source);
    end->calls++;
    end->events = events;
    if (end->act != NULL)
        end->act(end);
}

static inline void open_end(struct end *end, uint32_t events)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    *end = (struct end){.source.ready = end_ready, .peer = pair[1]};
    assert_int_equal(cv_source_open(&reactor, &end->source, pair[0], events), 0);
    assert_int_equal(end->source.fd, pair[0]);
}

static inline void close_end(struct end *end)
{
    cv_source_close(&reactor, &end->source);
    cv_source_close(&reactor, &end->source);
    assert_int_equal(end->source.fd, -1);
    cv_fd_close(&end->peer);
}

static inline void poke(const struct end *end)
{
    assert_int_equal(write(end->peer, "x", 1), 1);
}

static inline void drain(struct end *end)
{
    char bytes[16];
    while (read(end->source.fd, bytes, sizeof bytes) > 0)
        continue;
}

struct bell {
    struct cv_alarm alarm;
    int64_t set_ns;
    int64_t struck_ns;
    unsigned strikes;
    unsigned order;
    void (*act)(struct bell *bell);
    struct bell *other;
};

static unsigned struck;

static inline void bell_strikes(struct cv_alarm *alarm)
{
    struct bell *bell = cv_list_entry(alarm, struct bell, alarm);
    bell->strikes++;
    bell->struck_ns = cv_clock_ns();
    bell->order = ++struck;
    if (bell->act != NULL)
        bell->act(bell);
}

static inline void set_bell(struct bell *bell, int64_t delay_ms)
{
    bell->alarm.strike = bell_strikes;
    bell->set_ns = cv_clock_ns();
    assert_int_equal(cv_alarm_set(&reactor, &bell->alarm, delay_ms), 0);
}

/* True when the last strike came no earlier than that after the bell was set. */
static inline bool took(const struct bell *bell, int64_t delay_ms)
{
    return bell->struck_ns - bell->set_ns >= delay_ms * 1000000;
}

/* Steps until the bell has struck so often. */
static inline void await_bell(const struct bell *bell, unsigned strikes)
{
    const int64_t until = cv_clock_ms() + LATE_MS;
    while (bell->strikes < strikes && cv_clock_ms() < until)
        step(LATE_MS);
    assert_int_equal(bell->strikes, strikes);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_reactor, close_reactor)

#endif
