#include "record/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/folder.h"
#include "base/linux.h"

#define RECORD_MODE 0600
#define RECORD_SUFFIX ".json"
/* Never through a link, and never waiting for the other end of a fifo. */
#define RECORD_FLAGS (O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

bool cv_record_id_valid(const char *id)
{
    for (size_t i = 0; i < CV_UUID_SIZE - 1; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool digit = (id[i] >= '0' && id[i] <= '9') || (id[i] >= 'a' && id[i] <= 'f');
        if (dash ? id[i] != '-' : !digit)
            return false;
    }
    return id[CV_UUID_SIZE - 1] == '\0';
}

static void record_name(char name[CV_RECORD_NAME_SIZE], const char *id)
{
    snprintf(name, CV_RECORD_NAME_SIZE, "%s" RECORD_SUFFIX, id);
}

/* Takes the id off the name of a record; false for any other name. */
static bool name_to_id(const char *name, char id[CV_UUID_SIZE])
{
    if (strlen(name) != CV_RECORD_NAME_SIZE - 1 ||
        strcmp(name + CV_UUID_SIZE - 1, RECORD_SUFFIX) != 0)
        return false;
    memcpy(id, name, CV_UUID_SIZE - 1);
    id[CV_UUID_SIZE - 1] = '\0';
    return cv_record_id_valid(id);
}

static bool write_whole(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        text += written;
        length -= (size_t)written;
    }
    return true;
}

/*
 * The same under a limit of file sizes (RLIMIT_FSIZE) that it meets: an error, where the signal
 * SIGXFSZ would end the program. As it is this thread's own, the one that the write has caused can
 * be taken away again, unless the thread had blocked it anyway: setrlimit(2), sigtimedwait(2).
 */
static bool write_limited(int fd, const char *text, size_t length)
{
    sigset_t limit;
    sigset_t before;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    if (pthread_sigmask(SIG_BLOCK, &limit, &before) != 0)
        return write_whole(fd, text, length);
    bool written = write_whole(fd, text, length);
    int failed = errno;
    if (!written && failed == EFBIG && sigismember(&before, SIGXFSZ) == 0) {
        const struct timespec at_once = {0};
        while (sigtimedwait(&limit, NULL, &at_once) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = failed;
    return written;
}

int cv_record_create(const char *root, const char *id, const char *text, size_t length,
                     struct cv_err *err)
{
    char name[CV_RECORD_NAME_SIZE];
    struct cv_trouble trouble;
    int folder = cv_folder_open(root, true, true, &trouble);
    if (folder < 0)
        return cv_err_system(err, "create_failed", trouble.errnum, "%s", trouble.text);
    record_name(name, id);
    int fd = openat(folder, name, RECORD_FLAGS | O_RDWR | O_CREAT | O_EXCL, RECORD_MODE);
    int failed = fd < 0 ? errno : 0;
    if (fd >= 0 && !write_limited(fd, text, length)) {
        failed = errno;
        unlinkat(folder, name, 0);
        cv_fd_close(&fd);
    }
    close(folder);
    if (failed != 0)
        return cv_err_system(err, "create_failed", failed, "writing the workspace's record");
    return fd;
}

/* Opens a record that is a plain file of this user. */
static int open_record(int folder, const char *name, int flags)
{
    struct stat info;
    int fd = openat(folder, name, RECORD_FLAGS | flags);
    if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid())) {
        cv_fd_close(&fd);
        errno = EINVAL;
    }
    return fd;
}

int cv_record_open(const char *root, const char *id)
{
    char name[CV_RECORD_NAME_SIZE];
    struct cv_trouble trouble;
    int folder = cv_folder_open(root, false, true, &trouble);
    if (folder < 0) {
        errno = trouble.errnum;
        return -1;
    }
    record_name(name, id);
    int fd = open_record(folder, name, O_RDWR);
    cv_fd_close(&folder);
    return fd;
}

void cv_record_drop(const char *root, const char *id)
{
    char name[CV_RECORD_NAME_SIZE];
    struct cv_trouble trouble;
    int folder = cv_folder_open(root, false, true, &trouble);
    if (folder < 0)
        return;
    record_name(name, id);
    unlinkat(folder, name, 0);
    close(folder);
}

/*
 * Reads at most CV_RECORD_MAX bytes; a record that can't be read stays empty. False when there is
 * none any more: its workspace was removed meanwhile.
 */
static bool read_text(int folder, const char *name, struct cv_record *record)
{
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    record->modified_ms = (int64_t)info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1000000;
    int fd = open_record(folder, name, O_RDONLY);
    while (fd >= 0) {
        uint8_t *room = cv_buf_reserve(&record->text, 4096);
        ssize_t got = room == NULL ? -1 : read(fd, room, 4096);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            cv_buf_free(&record->text);
        if (got <= 0)
            break;
        cv_buf_commit(&record->text, (size_t)got);
    }
    cv_fd_close(&fd);
    return true;
}

static struct cv_record *add_record(struct cv_records *records)
{
    /* Grown at every power of two. */
    if ((records->count & (records->count - 1)) == 0) {
        size_t size = records->count == 0 ? 1 : records->count * 2;
        struct cv_record *list = realloc(records->list, size * sizeof *list);
        if (list == NULL)
            return NULL;
        records->list = list;
    }
    struct cv_record *record = &records->list[records->count++];
    *record = (struct cv_record){0};
    cv_buf_init(&record->text, CV_RECORD_MAX + 4096);
    return record;
}

static int read_all(DIR *root, struct cv_records *records, struct cv_err *err)
{
    const struct dirent *entry;
    for (errno = 0; (entry = readdir(root)) != NULL; errno = 0) {
        char id[CV_UUID_SIZE];
        if (!name_to_id(entry->d_name, id))
            continue;
        struct cv_record *record = add_record(records);
        if (record == NULL)
            return cv_err_set(err, "gc_failed", "no memory for the records of the workspaces");
        memcpy(record->id, id, sizeof id);
        if (!read_text(dirfd(root), entry->d_name, record))
            records->count--;
    }
    if (errno != 0)
        return cv_err_system(err, "gc_failed", errno, "reading the folder of the workspaces");
    return 0;
}

int cv_records_read(const char *root, struct cv_records *records, struct cv_err *err)
{
    struct cv_trouble trouble;
    *records = (struct cv_records){0};
    int folder = cv_folder_open(root, false, true, &trouble);
    if (folder < 0 && trouble.errnum == ENOENT)
        return 0;
    if (folder < 0)
        return cv_err_system(err, "gc_failed", trouble.errnum, "%s", trouble.text);
    DIR *stream = fdopendir(folder);
    if (stream == NULL) {
        int saved = errno;
        close(folder);
        return cv_err_system(err, "gc_failed", saved, "reading the folder of the workspaces");
    }
    int result = read_all(stream, records, err);
    closedir(stream);
    return result;
}

void cv_records_free(struct cv_records *records)
{
    for (size_t i = 0; i < records->count; i++)
        cv_buf_free(&records->list[i].text);
    free(records->list);
    *records = (struct cv_records){0};
}

/* Closing the descriptor releases no lock: this process holds none on a record. */
static pid_t holder_of(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    if (fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return 0;
    return lock.l_pid;
}

int cv_record_owner(const char *root, const char *id, pid_t *holder)
{
    *holder = 0;
    int fd = cv_record_open(root, id);
    if (fd < 0) {
        errno = ESRCH;
        return -1;
    }
    pid_t pid = holder_of(fd);
    int pidfd = -1;
    if (pid <= 0) {
        errno = pid == 0 ? ESRCH : EPERM; /* -1: an open file description's, or another host's */
    } else {
        *holder = pid;
        pidfd = cv_pidfd_open(pid);
        /* A filter may know one of the two calls only. */
        if (pidfd >= 0 && cv_pidfd_signal(pidfd, 0) != 0)
            cv_fd_close(&pidfd);
        /* Still the holder, so the number was not recycled before it was opened. */
        if (pidfd >= 0 && holder_of(fd) != pid) {
            cv_fd_close(&pidfd);
            errno = ESRCH;
        }
    }
    cv_fd_close(&fd);
    return pidfd;
}
