#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define FOLDER_MODE 0700

bool cv_trouble(struct cv_trouble *trouble, int errnum, const char *text)
{
    trouble->errnum = errnum;
    trouble->text = text;
    return false;
}

/* An existing folder is fine, also one that may not be made anew. */
static bool make_folder(const char *path)
{
    if (mkdir(path, FOLDER_MODE) == 0 || errno == EEXIST)
        return true;
    int failed = errno;
    bool exists = failed == EROFS && access(path, F_OK) == 0;
    errno = failed;
    return exists;
}

static bool make_path(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (size_t i = 1; i < length; i++) {
        if (path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (!make_folder(part))
            return false;
    }
    return make_folder(path);
}

static bool is_owned(int fd, const char *path, struct cv_trouble *trouble)
{
    struct stat entry;
    struct stat folder;
    if (fstat(fd, &folder) != 0 || lstat(path, &entry) != 0)
        return cv_trouble(trouble, errno, "opening the folder of the workspaces");
    if (folder.st_uid != geteuid() || entry.st_uid != geteuid())
        return cv_trouble(trouble, EPERM, "the folder of the workspaces belongs to another user");
    if ((folder.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH)
        return cv_trouble(trouble, EPERM,
                          "everyone may rename what lies in the folder of the workspaces");
    return true;
}

int cv_folder_open(const char *path, bool create, bool owned, struct cv_trouble *trouble)
{
    if (create && !make_path(path)) {
        cv_trouble(trouble, errno, "making the folder of the workspaces");
        return -1;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        cv_trouble(trouble, errno, "opening the folder of the workspaces");
    else if (owned && !is_owned(fd, path, trouble))
        cv_fd_close(&fd);
    return fd;
}
