/*
 * The reactor: sources, completions, steps, and the one descriptor for foreign loops.
 * valgrind: no, a forked child of it keeps the pages that a fork should wipe.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "support/reactor.h"

/* ---- sources ------------------------------------------------------------------------------ */

static void source_is_level_triggered(void **state)
{
    (void)state;
    struct end end;
    open_end(&end, EPOLLIN);
    step(0);
    assert_int_equal(end.calls, 0);
    poke(&end);
    for (unsigned i = 1; i <= 3; i++) {
        step(LATE_MS);
        assert_int_equal(end.calls, i);
        assert_int_equal(end.events, EPOLLIN);
    }
    drain(&end);
    step(0);
    assert_int_equal(end.calls, 3);
    close_end(&end);
}

static void source_waits_for_what_is_wanted(void **state)
{
    (void)state;
    struct end end;
    open_end(&end, EPOLLIN);
    cv_source_want(&reactor, &end.source, EPOLLIN | EPOLLOUT);
    step(0);
    assert_int_equal(end.events, EPOLLOUT);
    cv_source_want(&reactor, &end.source, 0);
    poke(&end);
    step(0);
    assert_int_equal(end.calls, 1);
    cv_source_want(&reactor, &end.source, EPOLLIN);
    step(0);
    assert_int_equal(end.calls, 2);
    assert_int_equal(end.events, EPOLLIN);
    close_end(&end);
    cv_source_want(&reactor, &end.source, EPOLLIN); /* harmless on a closed one */
}

static void source_sees_the_hang_up(void **state)
{
    (void)state;
    struct end end;
    open_end(&end, EPOLLIN);
    cv_fd_close(&end.peer);
    step(LATE_MS);
    assert_int_equal(end.calls, 1);
    assert_true((end.events & EPOLLHUP) != 0);
    close_end(&end);
}

static void source_that_cannot_be_watched_stays_the_callers(void **state)
{
    (void)state;
    struct cv_source source = {.fd = 5, .ready = end_ready};
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC); /* epoll takes no regular file */
    assert_true(file >= 0);
    assert_int_equal(cv_source_open(&reactor, &source, file, EPOLLIN), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(source.fd, -1);
    cv_source_close(&reactor, &source);
    assert_int_equal(close(file), 0);
}

static void every_ready_source_has_its_turn(void **state)
{
    (void)state;
    static struct end ends[MANY];
    for (int i = 0; i < MANY; i++) {
        open_end(&ends[i], EPOLLIN);
        poke(&ends[i]);
    }
    /* All stay ready all the time, and one step handles a batch of them. */
    for (int i = 0; i < 2 * MANY / CV_REACTOR_BATCH; i++)
        step(LATE_MS);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(ends[i].calls, 2);
    for (int i = 0; i < MANY; i++)
        close_end(&ends[i]);
}

static struct end *survivor;

static void close_other(struct end *end)
{
    survivor = end;
    close_end(end->other);
    free(end->other); /* so that a sanitizer sees a stale call */
}

static void source_closed_in_the_same_batch_is_not_called(void **state)
{
    (void)state;
    struct end *a = malloc(sizeof *a);
    struct end *b = malloc(sizeof *b);
    open_end(a, EPOLLIN);
    open_end(b, EPOLLIN);
    a->act = b->act = close_other;
    a->other = b;
    b->other = a;
    poke(a);
    poke(b);
    step(LATE_MS);
    assert_int_equal(survivor->calls, 1);
    close_end(survivor);
    free(survivor);
}

static void close_all_but_me(struct end *end)
{
    struct end *all = end->other;
    for (int i = 0; i < CV_REACTOR_BATCH; i++) {
        if (&all[i] != end)
            close_end(&all[i]);
    }
}

static void one_callback_may_close_a_whole_batch(void **state)
{
    (void)state;
    static struct end ends[CV_REACTOR_BATCH];
    unsigned calls = 0;
    for (int i = 0; i < CV_REACTOR_BATCH; i++) {
        open_end(&ends[i], EPOLLIN);
        ends[i].act = close_all_but_me;
        ends[i].other = ends;
        poke(&ends[i]);
    }
    step(LATE_MS);
    for (int i = 0; i < CV_REACTOR_BATCH; i++) {
        calls += ends[i].calls;
        close_end(&ends[i]);
    }
    assert_int_equal(calls, 1);
}

static void reopen_other(struct end *end)
{
    struct end *other = end->other;
    unsigned calls = other->calls;
    close_end(other);
    open_end(other, EPOLLIN);
    other->calls = calls;
    end->act = other->act = NULL;
}

static void reopened_source_gets_no_event_of_the_old_one(void **state)
{
    (void)state;
    struct end a, b;
    open_end(&a, EPOLLIN);
    open_end(&b, EPOLLIN);
    a.act = b.act = reopen_other;
    a.other = &b;
    b.other = &a;
    poke(&a);
    poke(&b);
    step(LATE_MS);
    assert_int_equal(a.calls + b.calls, 1);
    close_end(&a);
    close_end(&b);
}

static void close_me(struct end *end)
{
    close_end(end);
}

static void source_may_close_itself(void **state)
{
    (void)state;
    struct end end;
    open_end(&end, EPOLLIN);
    end.act = close_me;
    poke(&end);
    step(LATE_MS);
    step(0);
    assert_int_equal(end.calls, 1);
}

static void detached_source_is_quiet_and_its_descriptor_lives(void **state)
{
    (void)state;
    struct end end;
    open_end(&end, EPOLLIN);
    poke(&end);
    int fd = end.source.fd;
    cv_source_detach(&reactor, &end.source);
    cv_source_detach(&reactor, &end.source);
    assert_int_equal(end.source.fd, -1);
    step(0);
    assert_int_equal(end.calls, 0);
    assert_int_equal(cv_source_open(&reactor, &end.source, fd, EPOLLIN), 0);
    step(LATE_MS);
    assert_int_equal(end.calls, 1);
    close_end(&end);
}

static void detach_other(struct end *end)
{
    int fd = end->other->source.fd;
    cv_source_detach(&reactor, &end->other->source);
    close(fd);
}

static void source_detached_in_the_same_batch_is_not_called(void **state)
{
    (void)state;
    struct end a, b;
    open_end(&a, EPOLLIN);
    open_end(&b, EPOLLIN);
    a.act = b.act = detach_other;
    a.other = &b;
    b.other = &a;
    poke(&a);
    poke(&b);
    step(LATE_MS);
    assert_int_equal(a.calls + b.calls, 1);
    close_end(&a);
    close_end(&b);
}

/* ---- completions and the step ------------------------------------------------------------- */

static void completions_come_in_order_and_stay_until_taken(void **state)
{
    (void)state;
    struct cv_completion completions[3];
    assert_null(cv_reactor_first(&reactor));
    for (int i = 0; i < 3; i++) {
        cv_list_init(&completions[i].link);
        cv_reactor_complete(&reactor, &completions[i], &completions[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(cv_reactor_first(&reactor), &completions[i]);
        assert_ptr_equal(cv_reactor_first(&reactor)->owner, &completions[i]);
        cv_list_remove(&completions[i].link);
    }
    assert_null(cv_reactor_first(&reactor));
}

static void step_does_not_wait_behind_a_completion(void **state)
{
    (void)state;
    struct cv_completion completion;
    struct end end;
    open_end(&end, EPOLLIN);
    poke(&end);
    cv_list_init(&completion.link);
    cv_reactor_complete(&reactor, &completion, NULL);
    int64_t start = cv_clock_ms();
    step(-1);
    step(60000);
    assert_true(cv_clock_ms() - start < LATE_MS);
    assert_int_equal(end.calls, 2); /* and yet it handles what is there */
    cv_list_remove(&completion.link);
    close_end(&end);
}

static void descriptor_wakes_for_a_completion_queued_outside_of_a_step(void **state)
{
    (void)state;
    struct cv_completion completion;
    cv_list_init(&completion.link);
    cv_reactor_complete(&reactor, &completion, NULL);
    assert_true(readable(0));
    step(0);
    assert_false(readable(0));
    assert_ptr_equal(cv_reactor_first(&reactor), &completion);
    cv_list_remove(&completion.link);
}

static void step_waits_as_long_as_it_is_told(void **state)
{
    (void)state;
    int64_t start = cv_clock_ms();
    step(0);
    assert_true(cv_clock_ms() - start < LATE_MS);
    start = cv_clock_ms();
    step(50);
    int64_t took = cv_clock_ms() - start;
    assert_in_range(took, 49, 50 + LATE_MS);
    struct bell bell = {0};
    set_bell(&bell, 20);
    step(-1);
    assert_int_equal(bell.strikes, 1);
    set_bell(&bell, 20);
    step(INT64_MAX); /* more than epoll_wait(2) can be told */
    assert_int_equal(bell.strikes, 2);
}

static void on_signal(int number)
{
    (void)number;
}

static void signal_handler_of_the_host_does_no_harm(void **state)
{
    (void)state;
    struct bell bell = {0};
    struct sigaction action = {.sa_handler = on_signal}, before;
    const struct itimerval each = {{0, 2000}, {0, 2000}}, none = {0};
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &each, NULL), 0);
    set_bell(&bell, 30);
    await_bell(&bell, 1);
    assert_int_equal(setitimer(ITIMER_REAL, &none, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_true(took(&bell, 30));
}

/* ---- foreign loops ------------------------------------------------------------------------ */

static void descriptor_is_quiet_while_nothing_is_there(void **state)
{
    (void)state;
    struct end end;
    struct bell bell = {0};
    open_end(&end, EPOLLIN);
    set_bell(&bell, 60000);
    assert_false(readable(20));
    cv_alarm_clear(&reactor, &bell.alarm);
    close_end(&end);
}

static void descriptor_wakes_for_sources_and_alarms(void **state)
{
    (void)state;
    struct end end;
    struct bell bell = {0};
    open_end(&end, EPOLLIN);
    poke(&end);
    assert_true(readable(LATE_MS));
    step(0);
    assert_int_equal(end.calls, 1);
    drain(&end);
    assert_false(readable(0));
    bool early, over;
    int64_t delay_ms = 10;
    do { /* until the machine is quick enough for a look before the alarm's time */
        delay_ms *= 2;
        set_bell(&bell, delay_ms);
        early = readable(0);
        over = cv_clock_ns() - bell.set_ns >= delay_ms * 1000000;
    } while (early && over);
    assert_false(early);
    assert_true(readable(LATE_MS));
    step(0);
    assert_int_equal(bell.strikes, 1);
    assert_false(readable(0)); /* or the loop would spin */
    close_end(&end);
}

static void step_of_0_never_blocks(void **state)
{
    (void)state;
    struct bell bell = {0};
    set_bell(&bell, 3600000);
    int64_t start = cv_clock_ms();
    for (int i = 0; i < 1000; i++)
        step(0);
    assert_true(cv_clock_ms() - start < LATE_MS);
    cv_alarm_clear(&reactor, &bell.alarm);
}

/* ---- forks -------------------------------------------------------------------------------- */

/* Runs `body` in a forked child, which must return true there; waits for its end. */
static void in_child(bool (*body)(void *context), void *context)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(body(context) ? 0 : 1);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static bool step_fails(void *context)
{
    struct cv_err err = {0};
    (void)context;
    return cv_reactor_foreign(&reactor) && cv_reactor_step(&reactor, 0, &err) == -1 &&
           err.code != NULL && strcmp(err.code, "closed") == 0 && err.message[0] != '\0';
}

static void forked_child_cannot_step(void **state)
{
    (void)state;
    assert_false(cv_reactor_foreign(&reactor));
    in_child(step_fails, NULL);
    assert_false(cv_reactor_foreign(&reactor));
    step(0);
}

static void forked_child_is_known_without_the_mark_too(void **state)
{
    (void)state;
    munmap(reactor.owner, (size_t)sysconf(_SC_PAGESIZE));
    reactor.owner = NULL; /* as on a kernel before 4.14 */
    in_child(step_fails, NULL);
    step(0);
}

struct inherited {
    struct end end;
    struct bell bell;
};

static bool close_everything(void *context)
{
    struct inherited *inherited = context;
    close_end(&inherited->end);
    cv_alarm_clear(&reactor, &inherited->bell.alarm);
    cv_reactor_close(&reactor);
    return scratch_descriptors() == descriptors_before;
}

static void close_in_a_forked_child_does_not_disturb_the_parent(void **state)
{
    (void)state;
    struct inherited inherited = {0};
    open_end(&inherited.end, EPOLLIN);
    set_bell(&inherited.bell, 50);
    in_child(close_everything, &inherited);
    poke(&inherited.end);
    step(LATE_MS);
    assert_int_equal(inherited.end.calls, 1);
    drain(&inherited.end);
    assert_true(inherited.bell.strikes > 0 || readable(LATE_MS)); /* that step may have come late */
    await_bell(&inherited.bell, 1);
    set_bell(&inherited.bell, 20);
    await_bell(&inherited.bell, 2);
    close_end(&inherited.end);
}

/* The child's copy keeps the description of the socket alive, so closing it is not enough. */
static void source_closed_while_a_fork_holds_it_is_quiet(void **state)
{
    (void)state;
    struct end end;
    int hold[2];
    open_end(&end, EPOLLIN);
    assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    poke(&end);
    cv_source_close(&reactor, &end.source);
    assert_false(readable(20));
    step(0);
    assert_int_equal(end.calls, 0);
    close_end(&end);
    close(hold[0]);
    close(hold[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* ---- descriptors -------------------------------------------------------------------------- */

static void open_without_descriptors_fails_clean(void **state)
{
    (void)state;
    struct rlimit before, low;
    struct cv_reactor other;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    bool opened = false;
    int failures = 0;
    for (rlim_t limit = 0; !opened; limit++) {
        struct cv_err err = {0};
        low = (struct rlimit){.rlim_cur = limit, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        opened = cv_reactor_open(&other, &err) == 0;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (!opened) {
            failures++;
            assert_string_equal(err.code, "create_failed");
            assert_non_null(strstr(err.message, "Too many open files"));
        }
        cv_reactor_close(&other);
    }
    assert_true(failures > 1);
}

static bool open_without_stdio(void *context)
{
    struct cv_err err;
    (void)context;
    for (int fd = 0; fd <= 2; fd++)
        close(fd);
    bool above = cv_reactor_open(&reactor, &err) == 0 && reactor.epoll > 2 && reactor.clock.fd > 2;
    bool free_still = fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0;
    return above && free_still && cv_reactor_step(&reactor, 0, &err) == 0;
}

static void standard_streams_stay_free_where_they_are_closed(void **state)
{
    (void)state;
    in_child(open_without_stdio, NULL);
}

static void descriptors_are_closed_on_exec(void **state)
{
    (void)state;
    assert_int_equal(fcntl(reactor.epoll, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(reactor.clock.fd, F_GETFD), FD_CLOEXEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(source_is_level_triggered),
        TEST(source_waits_for_what_is_wanted),
        TEST(source_sees_the_hang_up),
        TEST(source_that_cannot_be_watched_stays_the_callers),
        TEST(every_ready_source_has_its_turn),
        TEST(source_closed_in_the_same_batch_is_not_called),
        TEST(one_callback_may_close_a_whole_batch),
        TEST(reopened_source_gets_no_event_of_the_old_one),
        TEST(source_may_close_itself),
        TEST(detached_source_is_quiet_and_its_descriptor_lives),
        TEST(source_detached_in_the_same_batch_is_not_called),
        TEST(completions_come_in_order_and_stay_until_taken),
        TEST(step_does_not_wait_behind_a_completion),
        TEST(descriptor_wakes_for_a_completion_queued_outside_of_a_step),
        TEST(step_waits_as_long_as_it_is_told),
        TEST(signal_handler_of_the_host_does_no_harm),
        TEST(descriptor_is_quiet_while_nothing_is_there),
        TEST(descriptor_wakes_for_sources_and_alarms),
        TEST(step_of_0_never_blocks),
        TEST(forked_child_cannot_step),
        TEST(forked_child_is_known_without_the_mark_too),
        TEST(close_in_a_forked_child_does_not_disturb_the_parent),
        TEST(source_closed_while_a_fork_holds_it_is_quiet),
        TEST(open_without_descriptors_fails_clean),
        TEST(standard_streams_stay_free_where_they_are_closed),
        TEST(descriptors_are_closed_on_exec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
