/*
 * A binary min-heap of timers, keyed by a deadline. The timer structures belong to the caller and
 * must stay in place while they are in the heap.
 */
#ifndef CV_BASE_HEAP_H
#define CV_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cv_timer {
    int64_t deadline; /* in the caller's unit */
    size_t index;     /* place in the heap plus one; 0: in no heap */
};

struct cv_heap {
    struct cv_timer **timers;
    size_t count;
    size_t size;
};

void cv_heap_init(struct cv_heap *heap);
/* Releases the heap's own memory, not the timers. */
void cv_heap_free(struct cv_heap *heap);
/* Adds the timer, or moves it to its new deadline. 0, or -1 without memory (errno ENOMEM). */
int cv_heap_set(struct cv_heap *heap, struct cv_timer *timer, int64_t deadline);
/* Takes the timer out; harmless when it is in no heap. */
void cv_heap_remove(struct cv_heap *heap, struct cv_timer *timer);
/* The timer with the smallest deadline, or NULL. */
struct cv_timer *cv_heap_first(const struct cv_heap *heap);

static inline bool cv_timer_armed(const struct cv_timer *timer)
{
    return timer->index != 0;
}

#endif
