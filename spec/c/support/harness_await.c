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

/* Pumps for a moment of a wait for what is not seen on the stream; fails the test past `until`. */
static void pump_a_moment(struct sup *sup, int64_t until, const char *what)
{
    if (cv_clock_ms() > until)
        sup_fail("too late: %s", what);
    if (sup->eof)
        sup_sleep(5);
    sup_pump_for(sup, 5);
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

struct sup_run *sup_wait(struct sup *sup, uint32_t id)
{
    struct sup_run *run = sup_of(sup, id);
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; !run->ended;) {
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
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; !run->failed;) {
        if (run->ended)
            sup_fail("id %u ended (%u, %u) instead of failing", id, run->end.how, run->end.value);
        pump_until(sup, until, "failure", id);
    }
    if (run->failure != failure)
        sup_fail("id %u: failure %u (errno %u, %s), not %u", id, run->failure, run->errnum,
                 run->text, failure);
    return run;
}

void sup_wait_out(struct sup *sup, uint32_t id, uint64_t bytes)
{
    struct sup_run *run = sup_of(sup, id);
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; run->out.bytes < bytes;)
        pump_until(sup, until, "output", id);
}

uint32_t sup_limited_argv(struct sup *sup, const char *const *argv, uint64_t bytes,
                          uint32_t *timeout_ms)
{
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;; *timeout_ms *= 2) {
        uint32_t id = sup_exec(sup, &(struct sup_exec){.argv = argv, .timeout_ms = *timeout_ms});
        struct sup_run *run = sup_of(sup, id);
        while (run->out.bytes < bytes && !run->ended && !run->failed)
            pump_until(sup, until, "output under a time limit", id);
        if (run->out.bytes >= bytes)
            return id;
        if (run->failed || (run->end.flags & CV_ENDED_TIMED_OUT) == 0)
            sup_fail("id %u ended without its output, and not by its time limit", id);
    }
}

uint32_t sup_limited(struct sup *sup, const char *script, uint64_t bytes, uint32_t *timeout_ms)
{
    return sup_limited_argv(sup, SUP_LIST("/bin/sh", "-c", script), bytes, timeout_ms);
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

struct sup_run *sup_expect_exit(struct sup *sup, uint32_t id, uint32_t code)
{
    struct sup_run *run = sup_wait(sup, id);
    if (run->end.how != CV_ENDED_EXITED || run->end.value != code || run->end.flags != 0)
        sup_fail("id %u: how %u, value %u, flags 0x%x instead of exit code %u; stderr: %s", id,
                 run->end.how, run->end.value, run->end.flags, code, sup_err(sup, id));
    return run;
}

void sup_expect_serving(struct sup *sup)
{
    uint32_t id = sup_sh(sup, "echo served; exit 21");
    sup_expect_exit(sup, id, 21);
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
    sup->resident_kib = proc_status_kib(sup->supervisor, "RssAnon:");
    assert_true(sup->resident_kib > 0);
}

void sup_expect_small(struct sup *sup, long kib)
{
    long now = proc_status_kib(sup->supervisor, "RssAnon:");
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

void sup_wait_commands(struct sup *sup, int count)
{
    int now;
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; (now = sup_commands(sup)) != count;) {
        if (cv_clock_ms() > until)
            sup_fail("%d commands live, not %d", now, count);
        pump_a_moment(sup, until, "the commands");
    }
}

void sup_wait_running(struct sup *sup, const char *name)
{
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; proc_running(sup->tag, name) == 0;)
        pump_a_moment(sup, until, name);
}

void sup_stop(pid_t pid)
{
    struct proc_stat stat;
    kill(pid, SIGSTOP);
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; proc_stat(pid, &stat);) {
        if (stat.state == 'T' || stat.state == 'Z')
            return;
        if (cv_clock_ms() > until)
            sup_fail("process %d does not stop", (int)pid);
        sup_sleep(1);
    }
}

void sup_wait_file(struct sup *sup, const char *name)
{
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
         access(sup_path(sup->base, name), F_OK) != 0;)
        pump_a_moment(sup, until, name);
}

void sup_wait_pings(struct sup *sup, unsigned pings)
{
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; sup->pings < pings;)
        pump_a_moment(sup, until, "pings");
}

void sup_wait_heartbeat(struct sup *sup)
{
    unsigned long before = atomic_load(&sup->heartbeat->count);
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
         atomic_load(&sup->heartbeat->count) == before;)
        pump_a_moment(sup, until, "a heartbeat");
}

void sup_populate(struct sup *sup)
{
    int before = sup_commands(sup);
    /* These change their number or their environment first: the count must not see that. */
    sup->heartbeat_used = true;
    sup_argv(sup, SUP_LIST("/usr/bin/env", "-i", sup_self(), "act", "beat", sup->heartbeat_path));
    sup_wait_heartbeat(sup);
    sup_expect_exit(sup, sup_act(sup, SUP_LIST("daemon", "@")), 0);
    sup_sh(sup, "exec sleep 1000");
    sup_sh(sup, "setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000 & wait' & wait");
    sup_sh(sup, "trap '' TERM HUP INT QUIT; sleep 1000; :");
    sup_sh(sup, "kill -STOP $$");
    sup_wait_commands(sup, before + SUP_POPULATION);
}

/* True while this very process lives (and not a later one of its number). */
static bool lives(pid_t pid, uint64_t start)
{
    struct proc_stat stat;
    return pid > 0 && proc_stat(pid, &stat) && stat.start == start && stat.state != 'Z' &&
           stat.state != 'X';
}

static bool supervisor_lives(const struct sup *sup)
{
    return lives(sup->supervisor, sup->supervisor_start);
}

static bool guard_lives(const struct sup *sup)
{
    if (sup->guard_start != 0)
        return lives(sup->guard, sup->guard_start);
    return !sup->guard_reaped && proc_alive(sup->guard);
}

/* Waits for the deaths that are to be seen in /proc. */
static void wait_gone(struct sup *sup)
{
    int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
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
        sup_sleep(20);
    if (atomic_load(&sup->heartbeat->count) != then)
        sup_fail("a heartbeat goes on");
}

void sup_wait_dead(struct sup *sup)
{
    wait_gone(sup);
    expect_heartbeat_still(sup, atomic_load(&sup->heartbeat->count));
}

void sup_wait_eof(struct sup *sup)
{
    int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
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
    wait_gone(sup);
    expect_heartbeat_still(sup, beats);
}

void sup_expect_guard_exit(struct sup *sup)
{
    int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
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
    sup_wait_eof(sup);
    sup_expect_guard_exit(sup);
}
