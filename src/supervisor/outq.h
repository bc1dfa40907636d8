/*
 * What the supervisor has to send: control frames first, output after them, never a frame torn.
 *
 * Bounded: output is only produced while `cv_outq_room` says so and the host's credit lasts;
 * control frames answer frames of the host, so a host that sends nothing gets nothing more.
 */
#ifndef CV_SUPERVISOR_OUTQ_H
#define CV_SUPERVISOR_OUTQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct cv_outq {
    int fd; /* borrowed, non-blocking */
    struct cv_buf control;
    struct cv_buf ordered; /* output, and the frames that must follow it */
    size_t torn;           /* bytes of the first ordered frame that are still to be written */
};

void cv_outq_init(struct cv_outq *queue, int fd);

/* True while more output may be queued. */
bool cv_outq_room(const struct cv_outq *queue);

/* Queues a frame ahead of all output. False when the queue is over its bound: end the stream. */
bool cv_outq_control(struct cv_outq *queue, uint8_t type, uint32_t id, const void *payload,
                     size_t length);
/* Queues a frame behind all output. False as above. */
bool cv_outq_ordered(struct cv_outq *queue, uint8_t type, uint32_t id, const void *payload,
                     size_t length);

/*
 * Room for an output frame with up to `length` bytes of payload, to be written by the caller and
 * then claimed; NULL without memory.
 */
uint8_t *cv_outq_reserve(struct cv_outq *queue, size_t length);
void cv_outq_claim(struct cv_outq *queue, uint8_t type, uint8_t flags, uint32_t id, size_t length);

/* Writes what the descriptor takes. 1: all written. 0: it would block. -1: it is broken. */
int cv_outq_flush(struct cv_outq *queue);

#endif
