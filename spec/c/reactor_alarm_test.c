/* The reactor's alarms: never early, in order, and never lost. */
#include <sys/timerfd.h>

#include "support/reactor.h"

/* On a busy machine the time of a bell can be over before what had to come first. */
static bool is_over(const struct bell *bell, int64_t delay_ms)
{
    return cv_clock_ns() - bell->set_ns >= delay_ms * 1000000;
}

static void alarms_strike_once_in_order_and_never_early(void **state)
{
    (void)state;
    static const int delays[] = {30, 5, 0, 17, 5, 1, 44};
    enum { COUNT = sizeof delays / sizeof *delays };
    struct bell bells[COUNT] = {0};
    for (int i = 0; i < COUNT; i++)
        set_bell(&bells[i], delays[i]);
    await_bell(&bells[6], 1);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(bells[i].strikes, 1);
        assert_true(took(&bells[i], delays[i]));
        for (int j = 0; j < COUNT; j++) {
            if (bells[i].alarm.timer.deadline < bells[j].alarm.timer.deadline)
                assert_true(bells[i].order < bells[j].order);
        }
    }
    step(60);
    assert_int_equal(bells[6].strikes, 1);
    assert_false(readable(0));
}

static void alarm_set_within_a_millisecond_is_not_early(void **state)
{
    (void)state;
    struct bell bell = {0};
    for (unsigned round = 1; round <= 30; round++) {
        int64_t now = cv_clock_ns();
        while (cv_clock_ns() % 1000000 < 800000 && cv_clock_ns() - now < (int64_t)LATE_MS * 1000000)
            continue;
        set_bell(&bell, 1);
        await_bell(&bell, round);
        assert_true(took(&bell, 1));
    }
}

static void alarm_of_no_delay_strikes_in_the_next_step(void **state)
{
    (void)state;
    struct bell bell = {0};
    set_bell(&bell, 0);
    assert_int_equal(bell.strikes, 0);
    step(0);
    assert_int_equal(bell.strikes, 1);
}

static void alarm_set_again_has_its_new_time(void **state)
{
    (void)state;
    struct bell later = {0}, sooner = {0};
    set_bell(&later, 10);
    set_bell(&later, 60);
    await_bell(&later, 1);
    assert_true(took(&later, 60));
    set_bell(&sooner, 60000);
    set_bell(&sooner, 20);
    await_bell(&sooner, 1);
    assert_true(took(&sooner, 20));
}

static void alarm_before_the_armed_one_is_on_time(void **state)
{
    (void)state;
    struct bell far = {0}, near = {0};
    set_bell(&far, 60000);
    step(0);
    set_bell(&near, 20);
    assert_true(readable(LATE_MS)); /* the timerfd was set anew */
    await_bell(&near, 1);
    cv_alarm_clear(&reactor, &far.alarm);
    assert_int_equal(far.strikes, 0);
}

static void cleared_alarm_does_not_strike(void **state)
{
    (void)state;
    struct bell gone = {0}, left = {0};
    int64_t delay_ms = 150;
    bool spins;
    cv_alarm_clear(&reactor, &gone.alarm);
    do {
        delay_ms *= 2;
        left.strikes = 0;
        set_bell(&gone, 10);
        set_bell(&left, delay_ms);
        cv_alarm_clear(&reactor, &gone.alarm);
        cv_alarm_clear(&reactor, &gone.alarm);
        /* The timerfd strikes for the one that is gone. That step must set it for the one left. */
        assert_true(readable(LATE_MS));
        step(0);
        assert_int_equal(gone.strikes, 0);
        spins = readable(0);
    } while ((left.strikes > 0 || spins) && is_over(&left, delay_ms));
    assert_int_equal(left.strikes, 0);
    assert_false(spins);
    assert_true(readable(LATE_MS));
    step(0);
    assert_int_equal(left.strikes, 1);
    assert_true(took(&left, delay_ms));
    assert_int_equal(gone.strikes, 0);
}

/* A timer that runs ahead of the clock that the process reads. */
static void timer_that_strikes_early_loses_no_alarm(void **state)
{
    (void)state;
    struct bell bell = {0};
    const struct itimerspec soon = {.it_value.tv_nsec = 1};
    int64_t delay_ms = 25;
    do {
        delay_ms *= 2;
        bell.strikes = 0;
        set_bell(&bell, delay_ms);
        assert_int_equal(timerfd_settime(reactor.clock.fd, 0, &soon, NULL), 0);
        assert_true(readable(LATE_MS));
        step(0);
    } while (bell.strikes > 0 && is_over(&bell, delay_ms));
    assert_int_equal(bell.strikes, 0);
    assert_true(readable(LATE_MS));
    await_bell(&bell, 1);
    assert_true(took(&bell, delay_ms));
}

static void set_again(struct bell *bell)
{
    set_bell(bell, 10);
}

static void alarm_may_set_itself_again(void **state)
{
    (void)state;
    struct bell bell = {.act = set_again};
    set_bell(&bell, 10);
    int64_t start = cv_clock_ms();
    await_bell(&bell, 4);
    assert_true(cv_clock_ms() - start >= 40);
    cv_alarm_clear(&reactor, &bell.alarm);
}

static void set_at_once(struct bell *bell)
{
    set_bell(bell, 0);
}

static void alarm_of_no_delay_that_sets_itself_again_holds_no_step_up(void **state)
{
    (void)state;
    struct bell bell = {.act = set_at_once};
    set_bell(&bell, 0);
    int64_t start = cv_clock_ms();
    step(0);
    assert_true(cv_clock_ms() - start < LATE_MS);
    assert_true(bell.strikes > 0);
    cv_alarm_clear(&reactor, &bell.alarm);
}

static void clear_other(struct bell *bell)
{
    cv_alarm_clear(&reactor, &bell->other->alarm);
}

static void alarm_may_clear_another_that_is_due(void **state)
{
    (void)state;
    struct bell a = {.act = clear_other}, b = {.act = clear_other};
    a.other = &b;
    b.other = &a;
    set_bell(&a, 0);
    set_bell(&b, 0);
    step(0);
    step(10);
    assert_int_equal(a.strikes + b.strikes, 1);
}

static void alarms_strike_while_more_sources_are_ready_than_a_batch_holds(void **state)
{
    (void)state;
    static struct end ends[MANY];
    struct bell bell = {0};
    for (int i = 0; i < MANY; i++) {
        open_end(&ends[i], EPOLLIN);
        poke(&ends[i]);
    }
    set_bell(&bell, 5);
    await_bell(&bell, 1);
    for (int i = 0; i < MANY; i++)
        close_end(&ends[i]);
}

static void many_alarms(void **state)
{
    (void)state;
    static struct bell bells[1000];
    for (int i = 0; i < 1000; i++) {
        bells[i] = (struct bell){0};
        set_bell(&bells[i], i * 7919 % 50);
    }
    for (int i = 0; i < 1000; i += 3)
        cv_alarm_clear(&reactor, &bells[i].alarm);
    step(60);
    const int64_t until = cv_clock_ms() + LATE_MS;
    while (cv_heap_first(&reactor.alarms) != NULL && cv_clock_ms() < until)
        step(LATE_MS);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(bells[i].strikes, i % 3 == 0 ? 0 : 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(alarms_strike_once_in_order_and_never_early),
        TEST(alarm_set_within_a_millisecond_is_not_early),
        TEST(alarm_of_no_delay_strikes_in_the_next_step),
        TEST(alarm_set_again_has_its_new_time),
        TEST(alarm_before_the_armed_one_is_on_time),
        TEST(cleared_alarm_does_not_strike),
        TEST(timer_that_strikes_early_loses_no_alarm),
        TEST(alarm_may_set_itself_again),
        TEST(alarm_of_no_delay_that_sets_itself_again_holds_no_step_up),
        TEST(alarm_may_clear_another_that_is_due),
        TEST(alarms_strike_while_more_sources_are_ready_than_a_batch_holds),
        TEST(many_alarms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
