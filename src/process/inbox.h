/*
 * What a supervisor sends, each frame treated as hostile: one that no honest supervisor sends ends
 * the stream.
 */
#ifndef CV_PROCESS_INBOX_H
#define CV_PROCESS_INBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "process/channel.h"

/*
 * Handles the first `length` bytes of the host's scratch, as they were received. False for garbage;
 * then the caller gives the stream up.
 */
bool cv_inbox_read(struct cv_channel *channel, size_t length);

#endif
