#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/heap.h"
#include "support/failing_realloc.h"

#define COUNT 500

static uint32_t next_random(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return *random >> 8;
}

/* Every timer knows its place and no child is due before its parent. */
static void check(const struct cv_heap *heap)
{
    for (size_t i = 0; i < heap->count; i++) {
        if (heap->timers[i]->index != i + 1)
            fail_msg("timer %zu has index %zu", i, heap->timers[i]->index);
        if (i > 0 && heap->timers[(i - 1) / 2]->deadline > heap->timers[i]->deadline)
            fail_msg("timer %zu is due before its parent", i);
    }
}

static void empty_heap(void **state)
{
    (void)state;
    struct cv_heap heap;
    struct cv_timer timer = {0};
    cv_heap_init(&heap);
    assert_null(cv_heap_first(&heap));
    assert_false(cv_timer_armed(&timer));
    cv_heap_remove(&heap, &timer);
    cv_heap_free(&heap);
    cv_heap_free(&heap);
}

static void gives_timers_in_order(void **state)
{
    (void)state;
    struct cv_heap heap;
    static struct cv_timer timers[COUNT];
    uint32_t random = 7;
    cv_heap_init(&heap);
    for (size_t i = 0; i < COUNT; i++) {
        timers[i] = (struct cv_timer){0};
        /* Few values: many timers are due at the same time. */
        int64_t deadline = (int64_t)(next_random(&random) % 50) - 25;
        assert_int_equal(cv_heap_set(&heap, &timers[i], deadline), 0);
        assert_true(cv_timer_armed(&timers[i]));
        check(&heap);
    }
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < COUNT; i++) {
        struct cv_timer *first = cv_heap_first(&heap);
        assert_true(first->deadline >= last);
        last = first->deadline;
        cv_heap_remove(&heap, first);
        assert_false(cv_timer_armed(first));
        check(&heap);
    }
    assert_null(cv_heap_first(&heap));
    cv_heap_free(&heap);
}

static void moves_a_timer(void **state)
{
    (void)state;
    struct cv_heap heap;
    struct cv_timer a = {0}, b = {0};
    cv_heap_init(&heap);
    cv_heap_set(&heap, &a, 10);
    cv_heap_set(&heap, &b, 20);
    assert_ptr_equal(cv_heap_first(&heap), &a);
    cv_heap_set(&heap, &a, INT64_MAX);
    assert_ptr_equal(cv_heap_first(&heap), &b);
    cv_heap_set(&heap, &a, INT64_MIN);
    assert_ptr_equal(cv_heap_first(&heap), &a);
    assert_int_equal(heap.count, 2);
    cv_heap_free(&heap);
}

/* Any order of adding, moving and removing, against the smallest deadline found by looking. */
static void holds_under_random_use(void **state)
{
    (void)state;
    struct cv_heap heap;
    static struct cv_timer timers[COUNT];
    uint32_t random = 99;
    cv_heap_init(&heap);
    for (size_t i = 0; i < COUNT; i++)
        timers[i] = (struct cv_timer){0};
    for (int round = 0; round < 20000; round++) {
        struct cv_timer *timer = &timers[next_random(&random) % COUNT];
        if (next_random(&random) % 3 == 0)
            cv_heap_remove(&heap, timer);
        else
            assert_int_equal(cv_heap_set(&heap, timer, next_random(&random) % 1000), 0);
        if (round % 16 != 0)
            continue;
        check(&heap);
        size_t armed = 0;
        int64_t least = INT64_MAX;
        for (size_t i = 0; i < COUNT; i++) {
            if (!cv_timer_armed(&timers[i]))
                continue;
            armed++;
            least = timers[i].deadline < least ? timers[i].deadline : least;
        }
        assert_int_equal(heap.count, armed);
        if (armed > 0)
            assert_int_equal(cv_heap_first(&heap)->deadline, least);
    }
    cv_heap_free(&heap);
}

static void refuses_a_timer_without_memory(void **state)
{
    (void)state;
    if (!realloc_can_fail())
        skip();
    struct cv_heap heap;
    static struct cv_timer timers[COUNT];
    struct cv_timer refused = {0};
    size_t count = 0;
    cv_heap_init(&heap);
    assert_int_equal(cv_heap_set(&heap, &timers[count++], 1), 0);
    while (heap.count < heap.size)
        assert_int_equal(cv_heap_set(&heap, &timers[count++], 1), 0);
    realloc_fails = true;
    errno = 0;
    assert_int_equal(cv_heap_set(&heap, &refused, 0), -1);
    assert_int_equal(errno, ENOMEM);
    assert_false(cv_timer_armed(&refused));
    /* A timer that is in the heap can always be moved. */
    assert_int_equal(cv_heap_set(&heap, &timers[0], -5), 0);
    realloc_fails = false;
    assert_ptr_equal(cv_heap_first(&heap), &timers[0]);
    assert_int_equal(heap.count, count);
    check(&heap);
    cv_heap_free(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_heap),
        cmocka_unit_test(gives_timers_in_order),
        cmocka_unit_test(moves_a_timer),
        cmocka_unit_test(holds_under_random_use),
        cmocka_unit_test(refuses_a_timer_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
