#include "support/harness.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TAGGED_MAX 4096

int64_t sup_bound(int64_t ms)
{
    const char *factor = getenv("CHAMVI_SPEC_SLOWDOWN");
    return factor == NULL ? ms : (int64_t)((double)ms * strtod(factor, NULL));
}

void sup_sleep(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0) {
    }
}

void sup_pump_for(struct sup *sup, int64_t ms)
{
    int64_t until = cv_clock_ms() + ms;
    for (int64_t now; !sup->eof && (now = cv_clock_ms()) < until;)
        sup_pump(sup, until - now);
}

/* Pumps once towards `until`; fails the test when it has passed. */
static void pump_until(struct sup *sup, int64_t until, const char *what, uint32_t id)
{
    int64_t left = until - cv_clock_ms();
    if (left < 0)
        sup_fail("too late: %s of id %u", what, id);
    if (sup->eof)
        sup_fail("the stream ended (failure %u): %s of id %u", sup->failure, what, id);
    sup_pump(sup, left);
}

struct sup_run *sup_wait(struct sup *sup, uint32_t id, int64_t ms)
{
    struct sup_run *run = sup_of(sup, id);
    for (int64_t until = cv_clock_ms() + sup_bound(ms); !run->ended;) {
        if (run->failed)
            sup_fail("id %u failed: failure %u, errno %u, %s", id, run->failure, run->errnum,
                     run->text);
        pump_until(sup, until, "end", id);
    }
    return run;
}

struct sup_run *sup_wait_failure(struct sup *sup, uint32_t id, uint32_t failure)
{
    struct sup_run *run = sup_of(sup, id);
    for (int64_t until = cv_clock_ms() + sup_bound(3000); !run->failed;) {
        if (run->ended)
            sup_fail("id %u ended (%u, %u) instead of failing", id, run->end.how, run->end.value);
        pump_until(sup, until, "failure", id);
    }
    if (run->failure != failure)
        sup_fail("id %u: failure %u (errno %u, %s), not %u", id, run->failure, run->errnum,
                 run->text, failure);
    return run;
}

void sup_wait_out(struct sup *sup, uint32_t id, uint64_t bytes, int64_t ms)
{
    struct sup_run *run = sup_of(sup, id);
    for (int64_t until = cv_clock_ms() + sup_bound(ms); run->out.bytes < bytes;)
        pump_until(sup, until, "output", id);
}

static const char *as_text(struct sup_stream *stream)
{
    assert_int_equal(cv_buf_append(&stream->kept, "", 1), 0);
    stream->kept.end--;
    return (const char *)cv_buf_data(&stream->kept);
}

const char *sup_out(struct sup *sup, uint32_t id)
{
    return as_text(&sup_of(sup, id)->out);
}

const char *sup_err(struct sup *sup, uint32_t id)
{
    return as_text(&sup_of(sup, id)->err);
}

struct sup_run *sup_expect_exit(struct sup *sup, uint32_t id, uint32_t code, int64_t ms)
{
    struct sup_run *run = sup_wait(sup, id, ms);
    if (run->end.how != CV_ENDED_EXITED || run->end.value != code || run->end.flags != 0)
        sup_fail("id %u: how %u, value %u, flags 0x%x instead of exit code %u; stderr: %s", id,
                 run->end.how, run->end.value, run->end.flags, code, sup_err(sup, id));
    return run;
}

void sup_expect_serving(struct sup *sup)
{
    uint32_t id = sup_sh(sup, "echo served; exit 21");
    sup_expect_exit(sup, id, 21, 2000);
    assert_string_equal(sup_out(sup, id), "served\n");
}

/* The size of a program with a sanitizer says nothing; both programs are built with it or not. */
#if defined(__SANITIZE_ADDRESS__)
#define SIZE_IS_ITS_OWN false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIZE_IS_ITS_OWN false
#endif
#endif
#ifndef SIZE_IS_ITS_OWN
#define SIZE_IS_ITS_OWN true
#endif

void sup_note_memory(struct sup *sup)
{
    sup->resident_kib = proc_status_kib(sup->supervisor, "VmRSS:");
    assert_true(sup->resident_kib > 0);
}

void sup_expect_small(struct sup *sup, long kib)
{
    long now = proc_status_kib(sup->supervisor, "VmRSS:");
    if (SIZE_IS_ITS_OWN && now - sup->resident_kib > kib)
        sup_fail("the supervisor grew from %ld to %ld KiB", sup->resident_kib, now);
}

int sup_commands(struct sup *sup)
{
    static pid_t pids[TAGGED_MAX];
    int count = proc_tagged(sup->tag, pids, TAGGED_MAX);
    int commands = count;
    for (int i = 0; i < count && i < TAGGED_MAX; i++) {
        if (pids[i] == sup->guard || pids[i] == sup->supervisor)
            commands--;
    }
    return commands;
}

void sup_wait_commands(struct sup *sup, int count, int64_t ms)
{
    int now;
    for (int64_t until = cv_clock_ms() + sup_bound(ms); (now = sup_commands(sup)) != count;) {
        if (cv_clock_ms() > until)
            sup_fail("%d commands live, not %d", now, count);
        sup_pump_for(sup, 10);
    }
}

void sup_wait_heartbeat(struct sup *sup)
{
    unsigned long before = atomic_load(&sup->heartbeat->count);
    for (int64_t until = cv_clock_ms() + sup_bound(3000);
         atomic_load(&sup->heartbeat->count) == before;) {
        if (cv_clock_ms() > until)
            sup_fail("no heartbeat");
        sup_pump_for(sup, 5);
    }
}

void sup_populate(struct sup *sup)
{
    int before = sup_commands(sup);
    /* These change their number or their environment first: the count must not see that. */
    sup->heartbeat_used = true;
    sup_argv(sup, SUP_LIST("/usr/bin/env", "-i", sup_self(), "act", "beat", sup->heartbeat_path));
    sup_wait_heartbeat(sup);
    sup_expect_exit(sup, sup_act(sup, SUP_LIST("daemon", "@")), 0, 3000);
    sup_sh(sup, "exec sleep 1000");
    sup_sh(sup, "setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000 & wait' & wait");
    sup_sh(sup, "trap '' TERM HUP INT QUIT; sleep 1000; :");
    sup_sh(sup, "kill -STOP $$");
    sup_wait_commands(sup, before + SUP_POPULATION, 5000);
}

/* True while the supervisor itself lives (and not a later process of its number). */
static bool supervisor_lives(const struct sup *sup)
{
    struct proc_stat stat;
    return sup->supervisor > 0 && proc_stat(sup->supervisor, &stat) &&
           stat.start == sup->supervisor_start && stat.state != 'Z' && stat.state != 'X';
}

static bool guard_lives(const struct sup *sup)
{
    return !sup->guard_reaped && proc_alive(sup->guard);
}

/* Waits for the deaths that are to be seen in /proc. */
static void wait_gone(struct sup *sup, int64_t ms)
{
    int64_t until = cv_clock_ms() + sup_bound(ms);
    while (sup_commands(sup) > 0 || supervisor_lives(sup) || guard_lives(sup)) {
        if (cv_clock_ms() > until)
            sup_fail("%d commands live, supervisor %d, guard %d", sup_commands(sup),
                     supervisor_lives(sup), guard_lives(sup));
        sup_sleep(2);
    }
}

/* A heartbeat that has moved since it stood at `then` is of somebody who hid well. */
static void expect_heartbeat_still(struct sup *sup, unsigned long then)
{
    if (sup->heartbeat_used)
        sup_sleep(sup_bound(20));
    if (atomic_load(&sup->heartbeat->count) != then)
        sup_fail("a heartbeat goes on");
}

void sup_wait_dead(struct sup *sup, int64_t ms)
{
    wait_gone(sup, ms);
    expect_heartbeat_still(sup, atomic_load(&sup->heartbeat->count));
}

void sup_wait_eof(struct sup *sup, int64_t ms)
{
    int64_t until = cv_clock_ms() + sup_bound(ms);
    while (!sup->eof) {
        int64_t left = until - cv_clock_ms();
        if (left < 0)
            sup_fail("no end of file; %d commands live", sup_commands(sup));
        sup_pump(sup, left);
    }
    unsigned long beats = atomic_load(&sup->heartbeat->count);
    int commands = sup_commands(sup);
    if (commands > 0)
        sup_fail("%d commands live behind the end of file", commands);
    /* Whichever of guard and supervisor was last is still on its way out. */
    wait_gone(sup, 500);
    expect_heartbeat_still(sup, beats);
}

void sup_expect_guard_exit(struct sup *sup)
{
    int64_t until = cv_clock_ms() + sup_bound(1000);
    while (!sup->guard_reaped) {
        pid_t pid = waitpid(sup->guard, &sup->guard_status, WNOHANG);
        if (pid == sup->guard)
            sup->guard_reaped = true;
        else if (pid < 0 || cv_clock_ms() > until)
            sup_fail("the guard did not exit");
        else
            sup_sleep(1);
    }
    if (!WIFEXITED(sup->guard_status) || WEXITSTATUS(sup->guard_status) != 0)
        sup_fail("the guard's status is 0x%x", (unsigned)sup->guard_status);
}

void sup_end(struct sup *sup)
{
    sup->deaf = false;
    sup_send(sup, CV_FRAME_CLOSE, 0, NULL, 0);
    sup_pump(sup, 0);
    shutdown(sup->fd, SHUT_WR);
    sup_wait_eof(sup, 2000);
    sup_expect_guard_exit(sup);
}
