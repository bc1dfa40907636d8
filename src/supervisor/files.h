/*
 * Whole files that the host reads and writes. A write is done as it comes. Reads wait in line and
 * are answered one at a time, a part a turn under the credit of the output, so that neither many of
 * them nor a host that takes nothing makes the supervisor grow.
 */
#ifndef CV_SUPERVISOR_FILES_H
#define CV_SUPERVISOR_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "proto/supervise/message.h"

struct cv_runtime;

struct cv_files {
    struct cv_list waiting; /* reads not begun */
    unsigned count;         /* of them */
    uint32_t id;            /* of the read that is being answered, 0: none */
    struct cv_buf content;  /* what is still to be sent of it */
};

void cv_files_init(struct cv_files *files);
/* Puts a read in line. False when CV_FILE_READS_MAX are there. */
bool cv_files_read(struct cv_runtime *runtime, uint32_t id, const struct cv_read_file *request);
/* Writes the file and queues the answer. */
void cv_files_write(struct cv_runtime *runtime, uint32_t id, const struct cv_write_file *request);
/* True while a read is not answered. */
bool cv_files_busy(const struct cv_files *files);
/* True when a turn would bring an answer on. */
bool cv_files_ready(const struct cv_runtime *runtime);
/* One bounded turn: reads a file, or sends a part of it. */
void cv_files_turn(struct cv_runtime *runtime);

#endif
