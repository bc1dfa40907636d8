#include "fs/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/uuid.h"

#define FOLDER_MODE 0755
#define FILE_MODE 0644
#define PERMISSIONS 0777
/* How much more is read at once of a file that turns out longer than it said. */
#define READ_MORE 65536
#define TEMP_PREFIX ".chamvi-"

/* ENXIO is what open(2) says of sockets. */
static int check_regular(const struct stat *info)
{
    if (S_ISREG(info->st_mode))
        return 0;
    errno = S_ISDIR(info->st_mode) ? EISDIR : ENXIO;
    return -1;
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Reads to the end of the file; one byte more than `max` proves it too large. */
static int read_all(int fd, size_t size, size_t max, struct cv_buf *content)
{
    for (;;) {
        size_t length = cv_buf_length(content);
        if (length > max) {
            errno = EFBIG;
            return -1;
        }
        size_t part = length <= size ? size + 1 - length : READ_MORE;
        if (part > max + 1 - length)
            part = max + 1 - length;
        uint8_t *room = cv_buf_reserve(content, part);
        if (room == NULL)
            return -1;
        ssize_t got = read(fd, room, part);
        if (got == 0)
            return 0;
        if (got > 0)
            cv_buf_commit(content, (size_t)got);
        else if (errno != EINTR)
            return -1;
    }
}

static int read_regular(int fd, size_t max, struct cv_buf *content)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || check_regular(&info) != 0)
        return -1;
    if (info.st_size < 0 || (uintmax_t)info.st_size > max) {
        errno = EFBIG;
        return -1;
    }
    return read_all(fd, (size_t)info.st_size, max, content);
}

int cv_file_read(const struct cv_root *root, const char *path, size_t max, struct cv_buf *content)
{
    cv_buf_init(content, max + 1);
    int fd = cv_open_beneath(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return -1;
    int done = read_regular(fd, max, content);
    int saved = errno;
    if (done != 0)
        cv_buf_free(content);
    close(fd);
    errno = saved;
    return done;
}

/* ---- writing ------------------------------------------------------------------------------ */

/* 1: *info is that of the regular file `name`. 0: there is nothing. -1: something else, or errno.
 */
static int look_at(int folder, const char *name, struct stat *info)
{
    if (fstatat(folder, name, info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : -1;
    if (S_ISLNK(info->st_mode)) { /* since the walk: who would replace it now would lose the link */
        errno = ELOOP;
        return -1;
    }
    return check_regular(info) == 0 ? 1 : -1;
}

static bool write_all(int fd, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        }
    }
    return true;
}

/* The owner first: chown(2) may take permission bits away. */
static bool dress(int fd, const struct stat *old)
{
    if (old == NULL)
        return fchmod(fd, FILE_MODE) == 0;
    if (fchown(fd, old->st_uid, old->st_gid) != 0 && errno != EPERM && errno != EINVAL)
        return false;
    return fchmod(fd, old->st_mode & PERMISSIONS) == 0;
}

/* A late error of the file system (quota, network) may only come with the close. */
static bool close_written(int *fd)
{
    int closed = close(*fd);
    *fd = -1;
    return closed == 0 || errno == EINTR;
}

/* Makes `name` a new file with this content, in the place of `old` when that is not NULL. */
static int replace(int folder, const char *name, const struct stat *old, const void *bytes,
                   size_t length)
{
    char uuid[CV_UUID_SIZE];
    char temp[sizeof TEMP_PREFIX + sizeof uuid];
    if (cv_uuid(uuid) != 0)
        return -1;
    snprintf(temp, sizeof temp, TEMP_PREFIX "%s", uuid);
    int fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (write_all(fd, bytes, length) && dress(fd, old) && close_written(&fd) &&
        renameat(folder, temp, folder, name) == 0)
        return 0;
    int saved = errno;
    cv_fd_close(&fd);
    unlinkat(folder, temp, 0);
    errno = saved;
    return -1;
}

int cv_file_write(const struct cv_root *root, const char *path, const void *bytes, size_t length)
{
    char name[NAME_MAX + 1];
    struct stat old;
    int folder = cv_open_parent_beneath(root, path, FOLDER_MODE, name);
    if (folder < 0)
        return -1;
    int found = look_at(folder, name, &old);
    int done = found < 0 ? -1 : replace(folder, name, found > 0 ? &old : NULL, bytes, length);
    cv_fd_close(&folder);
    return done;
}
