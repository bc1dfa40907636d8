#include "fs/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/linux.h"

/* As many as the kernel follows: path_resolution(7). */
#define LINKS_MAX 40
/* Descriptors of folders that a walk keeps open; see `held`. */
#define HELD_MAX 128
/* Times that openat2 is asked again after a rename elsewhere made it give up on "..". */
#define TRIES_MAX 8
/* PROC_SUPER_MAGIC of linux/magic.h, which musl-gcc can't include. */
#define PROC_MAGIC 0x9fa0

#define FOLDER_FLAGS (O_PATH | O_NOFOLLOW | O_CLOEXEC)

/*
 * A walk in progress. The kernel never resolves ".." for it: a folder that is moved while the walk
 * is in it would lead out of the root. The folders above the current one are kept instead, the
 * deepest as descriptors and all of them by name, to be walked again when ".." goes above those.
 */
struct walk {
    const struct cv_root *root;
    mode_t make;       /* of folders that are missing on the way; 0: they are not made */
    int links;         /* followed so far */
    size_t depth;      /* of the current folder; the root is 0 */
    size_t held;       /* the deepest `held` folders have a descriptor */
    int fds[HELD_MAX]; /* the one at depth d is at d modulo HELD_MAX */
    size_t names_length;
    char names[PATH_MAX]; /* from the root to the current folder, each name behind a '/' */
    char *rest;           /* what is still to be walked; lies at the end of `text` */
    char text[2 * PATH_MAX];
};

static int current(const struct walk *walk)
{
    return walk->depth == 0 ? walk->root->fd : walk->fds[walk->depth % HELD_MAX];
}

/* Leaves the current folder, whose descriptor is held. */
static void drop(struct walk *walk)
{
    close(walk->fds[walk->depth % HELD_MAX]);
    walk->held--;
    walk->depth--;
    while (walk->names[--walk->names_length] != '/')
        continue;
}

static void drop_all(struct walk *walk)
{
    while (walk->held > 0)
        drop(walk);
    walk->depth = 0;
    walk->names_length = 0;
}

/* Enters the folder `name` of the current one; `fd` is its descriptor, taken even on failure. */
static int push(struct walk *walk, int fd, const char *name)
{
    size_t length = strlen(name);
    if (length + 1 > sizeof walk->names - walk->names_length) {
        close(fd);
        errno = ENAMETOOLONG;
        return -1;
    }
    walk->names[walk->names_length] = '/';
    memcpy(walk->names + walk->names_length + 1, name, length);
    walk->names_length += length + 1;
    walk->depth++;
    if (walk->held == HELD_MAX)
        close(walk->fds[walk->depth % HELD_MAX]);
    else
        walk->held++;
    walk->fds[walk->depth % HELD_MAX] = fd;
    return 0;
}

/* Enters the folders of `names` again from the root; refuses one that has become a link. */
static int walk_again(struct walk *walk)
{
    size_t length = walk->names_length;
    walk->depth = 0;
    walk->names_length = 0;
    while (walk->names_length < length) {
        const char *from = walk->names + walk->names_length + 1;
        const char *to = memchr(from, '/', (size_t)(walk->names + length - from));
        size_t size = to == NULL ? (size_t)(walk->names + length - from) : (size_t)(to - from);
        char name[NAME_MAX + 1];
        memcpy(name, from, size);
        name[size] = '\0';
        int fd = openat(current(walk), name, FOLDER_FLAGS | O_DIRECTORY);
        if (fd < 0 || push(walk, fd, name) != 0)
            return -1;
    }
    return 0;
}

/* The folder above the current one. */
static int go_up(struct walk *walk)
{
    if (walk->depth == 0) {
        errno = EXDEV;
        return -1;
    }
    drop(walk);
    return walk->depth > 0 && walk->held == 0 ? walk_again(walk) : 0;
}

/* What follows the folder `prefix` in the absolute path `path`, or NULL when it is not below it. */
static const char *below(const char *prefix, const char *path)
{
    if (prefix == NULL)
        return NULL;
    size_t length = strlen(prefix);
    while (length > 0 && prefix[length - 1] == '/')
        length--;
    if (strncmp(path, prefix, length) != 0 || (path[length] != '/' && path[length] != '\0'))
        return NULL;
    return path + length;
}

/* Puts `path` before the rest. An absolute one starts at the root if it lies below it. */
static int prepend(struct walk *walk, const char *path)
{
    if (path[0] == '/') {
        const char *inside = below(walk->root->path, path);
        if (inside == NULL)
            inside = below(walk->root->alias, path);
        if (inside == NULL)
            inside = below(walk->root->real, path);
        if (inside == NULL) {
            errno = EXDEV;
            return -1;
        }
        drop_all(walk);
        path = inside;
    }
    size_t length = strlen(path);
    if (length > (size_t)(walk->rest - walk->text)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    walk->rest -= length;
    memcpy(walk->rest, path, length);
    return 0;
}

/*
 * Takes the next name off the rest, and whether slashes follow it. 1, 0 when nothing is left, or
 * -1 when it is too long.
 */
static int take_name(struct walk *walk, char name[NAME_MAX + 1], bool *slash)
{
    walk->rest += strspn(walk->rest, "/");
    size_t length = strcspn(walk->rest, "/");
    if (length > NAME_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(name, walk->rest, length);
    name[length] = '\0';
    walk->rest += length;
    *slash = *walk->rest == '/';
    return length > 0;
}

static bool nothing_left(const struct walk *walk)
{
    return walk->rest[strspn(walk->rest, "/")] == '\0';
}

/*
 * Goes on with the target of the link behind `link`, which is closed. A link of /proc may be a
 * magic one, whose text is not where it leads.
 */
static int follow(struct walk *walk, int link)
{
    char target[PATH_MAX];
    struct statfs fs;
    ssize_t length = -1;
    if (walk->links++ >= LINKS_MAX)
        errno = ELOOP;
    else if (fstatfs(link, &fs) == 0 && fs.f_type == PROC_MAGIC)
        errno = ELOOP;
    else
        length = readlinkat(link, "", target, sizeof target);
    cv_fd_close(&link);
    if (length < 0)
        return -1;
    if (length == 0 || (size_t)length == sizeof target) {
        errno = length == 0 ? ENOENT : ENAMETOOLONG;
        return -1;
    }
    target[length] = '\0';
    return prepend(walk, target);
}

/* The type bits of what is open; 0 when the system can't tell. */
static mode_t type_of(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 ? info.st_mode & S_IFMT : 0;
}

/* Enters the folder `name`, or goes on with the link `name`. */
static int enter(struct walk *walk, const char *name)
{
    int fd = openat(current(walk), name, FOLDER_FLAGS);
    if (fd < 0 && errno == ENOENT && walk->make != 0) {
        if (mkdirat(current(walk), name, walk->make) != 0 && errno != EEXIST)
            return -1;
        fd = openat(current(walk), name, FOLDER_FLAGS);
    }
    if (fd < 0)
        return -1;
    mode_t type = type_of(fd);
    if (type == S_IFLNK)
        return follow(walk, fd);
    if (type == S_IFDIR)
        return push(walk, fd, name);
    close(fd);
    errno = ENOTDIR;
    return -1;
}

/*
 * Opens the last name of the path. 1: *fd is the answer. 0: it was a link, go on with its target.
 * -1: failed.
 */
static int open_last(struct walk *walk, const char *name, bool slash, int flags, mode_t mode,
                     int *fd)
{
    bool follows = slash || (flags & O_NOFOLLOW) == 0;
    if (slash && (flags & O_CREAT) != 0) {
        errno = EISDIR;
        return -1;
    }
    flags |= O_NOFOLLOW | (slash ? O_DIRECTORY : 0);
    for (;;) {
        *fd = openat(current(walk), name, flags, mode);
        if (*fd >= 0 && (!follows || (flags & O_PATH) == 0 || type_of(*fd) != S_IFLNK))
            return 1;
        if (*fd < 0) {
            /* Was it a link? O_NOFOLLOW says ELOOP, with O_DIRECTORY ENOTDIR. */
            bool not_folder = errno == ENOTDIR;
            if (!follows || (errno != ELOOP && !not_folder))
                return -1;
            *fd = openat(current(walk), name, FOLDER_FLAGS);
            if (*fd < 0)
                return -1;
            mode_t type = type_of(*fd);
            if (type != S_IFLNK) {
                close(*fd);
                errno = not_folder && type != S_IFDIR ? ENOTDIR : ELOOP;
                /* It has changed in between: again, as often as a link may be followed. */
                if (errno == ELOOP && walk->links++ < LINKS_MAX)
                    continue;
                return -1;
            }
        }
        return follow(walk, *fd);
    }
}

/*
 * Walks until the last name of the path is left, which is no "." or "..". 1: it is in `name`. 0:
 * the path ends with the current folder. -1: failed.
 */
static int walk_to_last(struct walk *walk, char name[NAME_MAX + 1], bool *slash)
{
    for (;;) {
        int got = take_name(walk, name, slash);
        if (got <= 0)
            return got;
        int done = 0;
        if (strcmp(name, "..") == 0)
            done = go_up(walk);
        else if (strcmp(name, ".") != 0 && nothing_left(walk))
            return 1;
        else if (strcmp(name, ".") != 0)
            done = enter(walk, name);
        if (done < 0)
            return -1;
    }
}

static int walk_path(struct walk *walk, int flags, mode_t mode)
{
    for (;;) {
        char name[NAME_MAX + 1];
        bool slash;
        int fd;
        int got = walk_to_last(walk, name, &slash);
        if (got < 0)
            return -1;
        if (got == 0)
            return openat(current(walk), ".", flags, mode);
        int done = open_last(walk, name, slash, flags, mode, &fd);
        if (done != 0)
            return done < 0 ? -1 : fd;
    }
}

/* A descriptor of the folder that `name`, at the end of all links, lies in. */
static int walk_to_parent(struct walk *walk, char name[NAME_MAX + 1])
{
    for (;;) {
        bool slash;
        int got = walk_to_last(walk, name, &slash);
        if (got < 0)
            return -1;
        if (got == 0 || slash) {
            errno = EISDIR;
            return -1;
        }
        int fd = openat(current(walk), name, FOLDER_FLAGS);
        if (fd < 0 && errno != ENOENT)
            return -1;
        if (fd < 0 || type_of(fd) != S_IFLNK) {
            cv_fd_close(&fd);
            return fcntl(current(walk), F_DUPFD_CLOEXEC, 0);
        }
        if (follow(walk, fd) != 0)
            return -1;
    }
}

/* At the root, with the whole path before it. */
static int begin(struct walk *walk, const struct cv_root *root, const char *path, mode_t make)
{
    walk->root = root;
    walk->make = make;
    walk->links = 0;
    walk->depth = walk->held = walk->names_length = 0;
    walk->rest = walk->text + sizeof walk->text - 1;
    *walk->rest = '\0';
    if (strlen(path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return prepend(walk, path);
}

/* Closes what the walk holds; errno is kept. */
static void finish(struct walk *walk)
{
    int saved = errno;
    drop_all(walk);
    errno = saved;
}

/* As open(2), which ignores all other flags beside O_PATH; openat2 and the walk would not. */
static int clean_flags(int flags)
{
    if ((flags & O_PATH) != 0)
        flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW;
    return flags | O_CLOEXEC;
}

int cv_open_beneath_walk(const struct cv_root *root, const char *path, int flags, mode_t mode)
{
    struct walk walk;
    int fd = begin(&walk, root, path, 0) != 0 ? -1 : walk_path(&walk, clean_flags(flags), mode);
    finish(&walk);
    return fd;
}

int cv_open_parent_beneath(const struct cv_root *root, const char *path, mode_t mode,
                           char name[NAME_MAX + 1])
{
    struct walk walk;
    int fd = begin(&walk, root, path, mode) != 0 ? -1 : walk_to_parent(&walk, name);
    finish(&walk);
    return fd;
}

int cv_open_beneath(const struct cv_root *root, const char *path, int flags, mode_t mode)
{
    flags = clean_flags(flags);
    bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    const struct cv_open_how how = {
        .flags = (uint64_t)flags,
        .mode = creates ? mode & 07777 : 0, /* any other mode is refused */
        .resolve = CV_RESOLVE_BENEATH | CV_RESOLVE_NO_MAGICLINKS,
    };
    const char *name = path[0] == '\0' ? "." : path;
    int fd = -1;
    for (int i = 0; i < TRIES_MAX; i++) {
        fd = cv_openat2(root->fd, name, &how);
        if (fd >= 0 || errno != EAGAIN)
            break;
    }
    /* EPERM: a seccomp filter that is older than the call. */
    if (fd < 0 && (errno == EXDEV || errno == ENOSYS || errno == EPERM || errno == EAGAIN))
        return cv_open_beneath_walk(root, path, flags, mode);
    return fd;
}
