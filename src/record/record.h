/*
 * Records of local workspaces: `<root>/<id>.json`, a file beside the folders of each workspace that
 * says when it expires, locked by the workspace's guard for as long as it lives.
 *
 * The commands of a workspace run as the same user and may change or replace any record, so nothing
 * in one is trusted: ids come from file names alone, and a record is never opened through a link
 * nor read without a bound.
 */
#ifndef CV_RECORD_RECORD_H
#define CV_RECORD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/uuid.h"

/* Longer records are read as malformed. */
#define CV_RECORD_MAX 65536
/* "<id>.json" with its NUL. */
#define CV_RECORD_NAME_SIZE (CV_UUID_SIZE + 5)

struct cv_record {
    char id[CV_UUID_SIZE];
    int64_t modified_ms; /* of the file, epoch milliseconds */
    struct cv_buf text;  /* its content, empty when it could not be read; owned */
};

struct cv_records {
    struct cv_record *list; /* owned */
    size_t count;
};

/*
 * Makes the record of a new workspace, after making the root (0700) if need be. Returns a
 * descriptor that the caller owns, or -1 with `err` (create_failed); then no record is left.
 */
int cv_record_create(const char *root, const char *id, const char *text, size_t length,
                     struct cv_err *err);
/*
 * Opens an existing record for a guard to lock. -1 with errno, ENOENT when there is none (any
 * more), else when it can't be opened.
 */
int cv_record_open(const char *root, const char *id);
/* Deletes a record whose workspace could not be started. */
void cv_record_drop(const char *root, const char *id);

/*
 * Reads every record of the root. A root that does not exist has none; entries that are no records
 * are passed over. 0, or -1 with `err` (gc_failed). Either way to be freed by cv_records_free.
 */
int cv_records_read(const char *root, struct cv_records *records, struct cv_err *err);
void cv_records_free(struct cv_records *records);

/*
 * A pidfd of the process that holds the lock on the record's first byte, as the guard of a living
 * workspace does (fcntl(2), F_GETLK), or -1: with errno ESRCH
 * when nobody does, else because the system can't tell. `*holder` is the process's id, also where
 * there are no pidfds (ENOSYS, or EPERM of a filter), or 0.
 */
int cv_record_owner(const char *root, const char *id, pid_t *holder);

/* True for the 36 bytes of a UUID in lower case, the form of every id. */
bool cv_record_id_valid(const char *id);

#endif
