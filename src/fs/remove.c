#include "fs/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/linux.h"

/* Folders that are open at the same time. */
#define LEVELS_MAX 32
#define PROGRESS_EVERY 256
/*
 * What a process that outlived its workspace can make a removal do at most: scan folders again that
 * it keeps filling, and entries in all, since some file systems list what is added while they are
 * being read. Both are far more than a removal needs that nobody disturbs.
 */
#define RESCANS_MAX 10000
#define STEPS_MAX (UINT32_C(1) << 24)
/* Names that are tried before a folder can't be moved to the top. */
#define MOVES_MAX 100

/*
 * A folder being emptied. The path to it is a chain of descriptors and ".." is never looked up, so
 * that a folder which is moved meanwhile leads nowhere else.
 */
struct level {
    DIR *stream;
    char name[NAME_MAX + 1]; /* in the level above */
    bool failed;             /* something in it can't be deleted */
    bool moved_in;           /* folders were moved into it, the stream may have missed them */
};

struct removal {
    int dir;      /* where the tree lies; borrowed */
    dev_t device; /* of `dir` */
    struct level levels[LEVELS_MAX];
    size_t depth; /* levels in use */
    int error;    /* errno of the first failure */
    uint32_t steps;
    uint32_t rescans;
    uint32_t moves; /* counts the names given to folders that were moved to the top */
    void (*progress)(void *context);
    void *context;
};

enum outcome {
    GONE,
    FILLED, /* a folder that is not empty, and no mount point */
    REFUSED /* with errno */
};

static struct level *top(struct removal *removal)
{
    return &removal->levels[removal->depth - 1];
}

/* The folder that the entries of the current level lie in. */
static int current(struct removal *removal)
{
    return removal->depth == 0 ? removal->dir : dirfd(top(removal)->stream);
}

static void fail(struct removal *removal, int errnum)
{
    if (removal->error == 0)
        removal->error = errnum;
    if (removal->depth > 0)
        top(removal)->failed = true;
}

/*
 * Deletes a file, a link or an empty folder. `folder` is a guess. rmdir(2) says EBUSY for a mount
 * point before it looks whether it is empty: no mount point is ever FILLED.
 */
static enum outcome remove_entry(int dir, const char *name, bool folder)
{
    /* The entry may change its kind in between, but not for ever. */
    for (int i = 0; i < 4; i++) {
        if (unlinkat(dir, name, folder ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT)
            return GONE;
        if (folder && (errno == ENOTEMPTY || errno == EEXIST))
            return FILLED;
        if (errno != (folder ? ENOTDIR : EISDIR))
            break;
        folder = !folder;
    }
    return REFUSED;
}

/*
 * Opens the entry `name` if it is a folder and no mount point. Where openat2 is missing, a bind
 * mount of the same file system can't be told from a folder: there only a name that rmdir(2) has
 * called FILLED (`filled`) is opened.
 */
static int open_entry(struct removal *removal, const char *name, int flags, bool filled)
{
    const struct cv_open_how how = {
        .flags = (uint64_t)(flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
        .resolve = CV_RESOLVE_NO_XDEV,
    };
    int fd = cv_openat2(current(removal), name, &how);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd;
    if (!filled) {
        errno = EXDEV;
        return -1;
    }
    fd = openat(current(removal), name, (int)how.flags);
    struct stat info;
    if (fd >= 0 && (fstat(fd, &info) != 0 || info.st_dev != removal->device)) {
        cv_fd_close(&fd);
        errno = EXDEV;
    }
    return fd;
}

/*
 * Gives the owner all permissions on a folder that can't be opened for reading. A name could be
 * swapped for a link and chmod(2) follows links, so the folder is named by its descriptor, as
 * open(2) says under O_PATH.
 */
static int make_passable(struct removal *removal, const char *name, bool filled)
{
    int fd = open_entry(removal, name, O_PATH, filled);
    if (fd < 0)
        return -1;
    char path[sizeof "/proc/self/fd/" + 3 * sizeof fd];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int done = chmod(path, S_IRWXU);
    cv_fd_close(&fd);
    return done;
}

/* Opens the folder `name` so that its entries can be listed and deleted. */
static int open_folder(struct removal *removal, const char *name, bool filled)
{
    int fd = open_entry(removal, name, O_RDONLY, filled);
    if (fd < 0 && errno == EACCES && make_passable(removal, name, filled) == 0)
        fd = open_entry(removal, name, O_RDONLY, filled);
    struct stat info;
    if (fd >= 0 && fstat(fd, &info) == 0 && (info.st_mode & S_IRWXU) != S_IRWXU)
        (void)fchmod(fd, S_IRWXU); /* when it fails, so does the deletion of an entry */
    return fd;
}

/* True for what an entry that is no folder any more, or not there, makes open(2) say. */
static bool has_changed(int errnum)
{
    return errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP;
}

static void descend(struct removal *removal, const char *name, bool filled)
{
    int fd = open_folder(removal, name, filled);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (stream == NULL) {
        if (!has_changed(errno))
            fail(removal, errno);
        cv_fd_close(&fd);
        return;
    }
    removal->depth++;
    top(removal)->stream = stream;
    top(removal)->failed = top(removal)->moved_in = false;
    memmove(top(removal)->name, name, strlen(name) + 1);
}

/*
 * Moves a folder that lies too deep to the top of the tree, which bounds the depth whatever it was.
 * rename(2) leaves mount points where they are (EBUSY, EXDEV).
 */
static void move_to_top(struct removal *removal, const char *name, bool filled)
{
    /* rename(2) wants to write into a folder that changes its parent. */
    int fd = open_folder(removal, name, filled);
    if (fd < 0) {
        if (!has_changed(errno))
            fail(removal, errno);
        return;
    }
    cv_fd_close(&fd);
    int to = dirfd(removal->levels[0].stream);
    for (int i = 0; i < MOVES_MAX; i++) {
        char free_name[32];
        snprintf(free_name, sizeof free_name, ".removed-%u", removal->moves++);
        if (renameat(current(removal), name, to, free_name) == 0) {
            removal->levels[0].moved_in = true;
            return;
        }
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            break;
    }
    if (errno != ENOENT)
        fail(removal, errno);
}

/* Deletes the entry `name` of the current level, or goes into it. */
static void visit(struct removal *removal, const char *name, bool folder)
{
    enum outcome outcome = remove_entry(current(removal), name, folder);
    if (outcome == GONE)
        return;
    if (outcome == REFUSED) {
        int errnum = errno;
        fail(removal, errnum);
        /* What lies in a folder that must stay may still be deleted. */
        if (errnum != EACCES && errnum != EPERM)
            return;
    }
    if (removal->depth < LEVELS_MAX)
        descend(removal, name, outcome == FILLED);
    else
        move_to_top(removal, name, outcome == FILLED);
}

/* At the end of a level: deletes the folder itself, or scans it once more. */
static void leave(struct removal *removal)
{
    struct level *level = top(removal);
    closedir(level->stream);
    removal->depth--;
    enum outcome outcome = remove_entry(current(removal), level->name, true);
    if (outcome == GONE) {
        if (removal->depth == 0)
            removal->error = 0; /* all is gone, so whatever had failed is, too */
        return;
    }
    int errnum = outcome == FILLED ? ENOTEMPTY : errno;
    /* Without a failure, somebody adds entries; or the stream missed some. */
    if (outcome == FILLED &&
        (level->moved_in || (!level->failed && removal->rescans++ < RESCANS_MAX)))
        descend(removal, level->name, true);
    else
        fail(removal, errnum);
}

static void take_step(struct removal *removal)
{
    if (++removal->steps % PROGRESS_EVERY == 0 && removal->progress != NULL)
        removal->progress(removal->context);
    errno = 0;
    const struct dirent *entry = readdir(top(removal)->stream);
    if (entry == NULL) {
        if (errno != 0)
            fail(removal, errno);
        leave(removal);
    } else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
        visit(removal, entry->d_name, entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
    }
}

int cv_remove_tree(int dir, const char *name, void (*progress)(void *context), void *context)
{
    struct stat info;
    if (name[0] == '\0' || strchr(name, '/') != NULL || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0) {
        errno = EINVAL;
        return -1;
    }
    if (fstat(dir, &info) != 0)
        return -1;
    struct removal removal = {
        .dir = dir, .device = info.st_dev, .progress = progress, .context = context};
    visit(&removal, name, true);
    while (removal.depth > 0 && removal.steps < STEPS_MAX)
        take_step(&removal);
    while (removal.depth > 0) {
        fail(&removal, EBUSY);
        closedir(top(&removal)->stream);
        removal.depth--;
    }
    if (removal.error == 0)
        return 0;
    errno = removal.error;
    return -1;
}
