/*
 * Reading and writing whole files beneath a folder that untrusted commands use at the same time.
 * Nothing here waits for a command: not for the other end of a fifo, nor for whoever holds a lease.
 */
#ifndef CV_FS_FILE_H
#define CV_FS_FILE_H

#include <stddef.h>

#include "base/buf.h"
#include "fs/beneath.h"

/*
 * Reads the regular file that `path` (relative to the root) leads to; links are followed as by
 * cv_open_beneath. `content` is initialized here and gets at most `max` bytes; the caller frees it.
 *
 * Returns 0, or -1 with errno, `content` then being empty: EFBIG for a file of more than `max`
 * bytes (one that grows meanwhile, too), EISDIR for a folder, ENXIO for what is neither folder nor
 * regular file, EXDEV for a path that leads out, EAGAIN when another process holds a lease on the
 * file, else as open(2) and read(2).
 */
int cv_file_read(const struct cv_root *root, const char *path, size_t max, struct cv_buf *content);

/*
 * Writes a whole file. Missing folders are made (0755 less the umask). An existing file is replaced
 * in one step, so that a reader sees the old content or the new one; the new file gets its
 * permission bits (not the set-ID and sticky ones) and, as far as the system allows it, its owner
 * and group. A file that did not exist gets 0644, whatever the umask. Links are followed as by
 * cv_open_beneath: the target is replaced, or made where a link dangles, and the link stays. Only
 * the folder's permissions count, not those of the file that is replaced.
 *
 * Links and folders that are swapped meanwhile never lead out. A folder that a command moves out of
 * the root at that moment takes the file along, as it would a moment later.
 *
 * Returns 0, or -1 with errno, the file then being as it was and nothing but folders left behind:
 * EISDIR and ENXIO as above, EXDEV for a path that leads out, ELOOP also when the file becomes a
 * link meanwhile, else as open(2), write(2) and rename(2).
 */
int cv_file_write(const struct cv_root *root, const char *path, const void *bytes, size_t length);

#endif
