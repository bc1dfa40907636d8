#include "process/op.h"

#include <stdlib.h>

struct cv_op *cv_op_new(enum cv_op_kind kind, size_t output_cap)
{
    struct cv_op *op = calloc(1, sizeof *op);
    if (op == NULL)
        return NULL;
    op->kind = kind;
    op->source.fd = -1;
    cv_list_init(&op->completion.link);
    cv_list_init(&op->feeding);
    cv_list_init(&op->chunks);
    cv_buf_init(&op->content, 0);
    cv_collector_init(&op->output[CV_STDOUT], output_cap);
    cv_collector_init(&op->output[CV_STDERR], output_cap);
    return op;
}

void cv_op_free(struct cv_op *op)
{
    cv_op_drop_chunks(op);
    cv_collector_free(&op->output[CV_STDOUT]);
    cv_collector_free(&op->output[CV_STDERR]);
    cv_buf_free(&op->content);
    free(op->input.bytes);
    free(op);
}

struct cv_chunk *cv_op_chunk(const struct cv_op *op)
{
    if (cv_list_empty(&op->chunks))
        return NULL;
    return cv_list_entry(op->chunks.next, struct cv_chunk, link);
}

size_t cv_op_drop_chunks(struct cv_op *op)
{
    size_t dropped = 0;
    struct cv_chunk *chunk;
    while ((chunk = cv_op_chunk(op)) != NULL) {
        dropped += chunk->length;
        cv_list_remove(&chunk->link);
        free(chunk);
    }
    return dropped;
}

bool cv_op_truncated(const struct cv_op *op, enum cv_stream_name stream)
{
    const struct cv_collector *collector = &op->output[stream];
    uint64_t printed = stream == CV_STDOUT ? op->ended.stdout_bytes : op->ended.stderr_bytes;
    return cv_collector_incomplete(collector) || printed > collector->total;
}
