/*
 * Newline-delimited JSON cut into lines, sans-I/O: LF or CRLF, empty lines skipped, a last line
 * without a line end. The lines are not looked into.
 */
#ifndef CV_PROTO_NDJSON_H
#define CV_PROTO_NDJSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct cv_ndjson {
    struct cv_buf carry; /* the line that began in earlier chunks */
    const char *chunk;
    size_t length;  /* of what is left of the chunk */
    bool carry_out; /* the last line returned lies in `carry` */
    bool broken;
};

/* Lines of at most `max` bytes; allocates nothing. */
void cv_ndjson_init(struct cv_ndjson *splitter, size_t max);
void cv_ndjson_free(struct cv_ndjson *splitter);
/* Gives the next chunk, which is borrowed; the one before must be used up. */
void cv_ndjson_push(struct cv_ndjson *splitter, const void *bytes, size_t length);
/*
 * 1: *line is the next one, not empty, without its line end and NUL, valid until the next call.
 * 0: the chunk is used up. -1: a line is too long, or there is no memory; the splitter stays
 * broken.
 */
int cv_ndjson_next(struct cv_ndjson *splitter, const char **line, size_t *length);
/* The stream has ended: 1 with the last line when it had no line end, else 0, or -1 as above. */
int cv_ndjson_end(struct cv_ndjson *splitter, const char **line, size_t *length);

#endif
