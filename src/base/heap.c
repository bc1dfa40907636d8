#include "base/heap.h"

#include <stdlib.h>

void cv_heap_init(struct cv_heap *heap)
{
    *heap = (struct cv_heap){0};
}

void cv_heap_free(struct cv_heap *heap)
{
    free(heap->timers);
    cv_heap_init(heap);
}

static void place(struct cv_heap *heap, size_t at, struct cv_timer *timer)
{
    heap->timers[at] = timer;
    timer->index = at + 1;
}

static void sift_up(struct cv_heap *heap, size_t at, struct cv_timer *timer)
{
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (heap->timers[parent]->deadline <= timer->deadline)
            break;
        place(heap, at, heap->timers[parent]);
        at = parent;
    }
    place(heap, at, timer);
}

static void sift_down(struct cv_heap *heap, size_t at, struct cv_timer *timer)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count &&
            heap->timers[child + 1]->deadline < heap->timers[child]->deadline)
            child++;
        if (timer->deadline <= heap->timers[child]->deadline)
            break;
        place(heap, at, heap->timers[child]);
        at = child;
    }
    place(heap, at, timer);
}

int cv_heap_set(struct cv_heap *heap, struct cv_timer *timer, int64_t deadline)
{
    cv_heap_remove(heap, timer);
    if (heap->count == heap->size) {
        size_t size = heap->size == 0 ? 16 : heap->size * 2;
        struct cv_timer **timers = realloc(heap->timers, size * sizeof *timers);
        if (timers == NULL)
            return -1;
        heap->timers = timers;
        heap->size = size;
    }
    timer->deadline = deadline;
    sift_up(heap, heap->count++, timer);
    return 0;
}

void cv_heap_remove(struct cv_heap *heap, struct cv_timer *timer)
{
    if (timer->index == 0)
        return;
    size_t at = timer->index - 1;
    timer->index = 0;
    struct cv_timer *last = heap->timers[--heap->count];
    if (last == timer)
        return;
    if (at > 0 && last->deadline < heap->timers[(at - 1) / 2]->deadline)
        sift_up(heap, at, last);
    else
        sift_down(heap, at, last);
}

struct cv_timer *cv_heap_first(const struct cv_heap *heap)
{
    return heap->count == 0 ? NULL : heap->timers[0];
}
