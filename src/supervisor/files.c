#include "supervisor/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/file.h"
#include "proto/supervise/frame.h"
#include "supervisor/runtime.h"

/* A read that waits for its turn. */
struct waiting_read {
    struct cv_list link;
    uint32_t id;
    uint32_t max;
    char path[];
};

void cv_files_init(struct cv_files *files)
{
    *files = (struct cv_files){0};
    cv_list_init(&files->waiting);
}

/* ---- answers ------------------------------------------------------------------------------ */

static uint32_t failure_of(int errnum)
{
    switch (errnum) {
    case ENOENT:
        return CV_FAILURE_FILE_NOT_FOUND;
    case EISDIR:
    case ENOTDIR:
    case ENXIO:
    case ENODEV:
        return CV_FAILURE_NOT_A_FILE;
    case EFBIG:
        return CV_FAILURE_FILE_TOO_LARGE;
    case EXDEV:
        return CV_FAILURE_OUTSIDE;
    case EACCES:
    case EPERM:
    case EROFS:
        return CV_FAILURE_PERMISSION;
    case ENOSPC:
    case EDQUOT:
        return CV_FAILURE_NO_SPACE;
    case ENAMETOOLONG:
        return CV_FAILURE_FILE_PATH;
    default:
        return CV_FAILURE_FILE;
    }
}

/* True when the root is there; else the host is told that it is gone. */
static bool check_present(struct cv_runtime *runtime, uint32_t id)
{
    if (cv_workspace_present(&runtime->workspace))
        return true;
    cv_runtime_fail(runtime, id, CV_FAILURE_GONE, 0, "the workspace's folder is gone");
    return false;
}

void cv_files_write(struct cv_runtime *runtime, uint32_t id, const struct cv_write_file *request)
{
    if (!check_present(runtime, id))
        return;
    if (cv_file_write(&runtime->workspace.root, request->path, request->bytes, request->length) !=
        0) {
        /* The content is checked by the host, so it is a limit of the system that is lower. */
        uint32_t code = errno == EFBIG ? CV_FAILURE_FILE : failure_of(errno);
        cv_runtime_fail(runtime, id, code, errno, "writing the file");
        return;
    }
    if (!cv_outq_ordered(&runtime->out, CV_FRAME_WRITTEN, id, NULL, 0))
        runtime->broken = true;
}

/* ---- reads -------------------------------------------------------------------------------- */

bool cv_files_read(struct cv_runtime *runtime, uint32_t id, const struct cv_read_file *request)
{
    struct cv_files *files = &runtime->requests;
    if (files->count >= CV_FILE_READS_MAX)
        return false;
    size_t size = strlen(request->path) + 1;
    struct waiting_read *read = malloc(sizeof *read + size);
    if (read == NULL) {
        cv_runtime_fail(runtime, id, CV_FAILURE_FILE, ENOMEM, "reading the file");
        return true;
    }
    read->id = id;
    read->max = request->max;
    memcpy(read->path, request->path, size);
    cv_list_append(&files->waiting, &read->link);
    files->count++;
    return true;
}

bool cv_files_busy(const struct cv_files *files)
{
    return files->id != 0 || files->count > 0;
}

bool cv_files_ready(const struct cv_runtime *runtime)
{
    return cv_files_busy(&runtime->requests) && runtime->credit > 0 && cv_outq_room(&runtime->out);
}

/* Reads the next file in line into memory, or reports why it can't be read. */
static void begin_next(struct cv_runtime *runtime)
{
    struct cv_files *files = &runtime->requests;
    struct waiting_read *next = cv_list_entry(files->waiting.next, struct waiting_read, link);
    cv_list_remove(&next->link);
    files->count--;
    if (check_present(runtime, next->id)) {
        if (cv_file_read(&runtime->workspace.root, next->path, next->max, &files->content) == 0)
            files->id = next->id;
        else
            cv_runtime_fail(runtime, next->id, failure_of(errno), errno, "reading the file");
    }
    free(next);
}

static void send_part(struct cv_runtime *runtime)
{
    struct cv_files *files = &runtime->requests;
    size_t left = cv_buf_length(&files->content);
    size_t part = left < CV_FRAME_PAYLOAD_MAX ? left : CV_FRAME_PAYLOAD_MAX;
    if (part > runtime->credit)
        part = (size_t)runtime->credit;
    uint8_t *room = cv_outq_reserve(&runtime->out, part);
    if (room == NULL) {
        runtime->broken = true;
        return;
    }
    if (part > 0)
        memcpy(room, cv_buf_data(&files->content), part);
    cv_outq_claim(&runtime->out, CV_FRAME_FILE, part < left ? CV_FRAME_MORE : 0, files->id, part);
    cv_buf_consume(&files->content, part);
    runtime->credit -= part;
    if (part == left) {
        cv_buf_free(&files->content);
        files->id = 0;
    }
}

void cv_files_turn(struct cv_runtime *runtime)
{
    if (!cv_files_ready(runtime))
        return;
    if (runtime->requests.id == 0)
        begin_next(runtime);
    if (runtime->requests.id != 0)
        send_part(runtime);
}
