/*
 * Requests for files on a channel: few are under way at a time, the others wait in line, so that
 * neither what is queued for the supervisor nor what it must remember grows with their number.
 */
#ifndef CV_PROCESS_REQUEST_H
#define CV_PROCESS_REQUEST_H

#include <stdbool.h>

#include "process/channel.h"
#include "process/op.h"
#include "proto/supervise/frame.h"

/* True for an operation that is a request for a file. */
bool cv_request_is(const struct cv_op *op);
/* Queues those in line that may go now, each whole; `mark`: only while less than that is queued. */
void cv_request_send(struct cv_channel *channel, size_t mark);
/* Takes a frame of the supervisor for the request. False when no honest supervisor sends it. */
bool cv_request_answer(struct cv_channel *channel, struct cv_op *op, const struct cv_frame *frame);

#endif
