#include "supervisor/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "fs/remove.h"

#define FOLDER_MODE 0700
/* The root of every workspace as a model sees it; links may use that name. */
#define WORKSPACE_ALIAS "/workspace"

static bool fail(struct cv_trouble *trouble, int errnum, const char *text)
{
    trouble->errnum = errnum;
    trouble->text = text;
    return false;
}

static char *copy_bytes(const char *bytes, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy != NULL) {
        if (length > 0)
            memcpy(copy, bytes, length);
        copy[length] = '\0';
    }
    return copy;
}

static bool copy_env(struct cv_workspace *workspace, const struct cv_strings *env)
{
    workspace->env_bytes = copy_bytes(env->bytes, env->length);
    workspace->env = calloc((size_t)env->count + 1, sizeof *workspace->env);
    if (workspace->env_bytes == NULL || workspace->env == NULL)
        return false;
    char *entry = workspace->env_bytes;
    for (uint32_t i = 0; i < env->count; i++) {
        workspace->env[i] = entry;
        if (strncmp(entry, "PATH=", 5) == 0)
            workspace->path = entry + 5;
        entry += strlen(entry) + 1;
    }
    return true;
}

static bool copy_hello(struct cv_workspace *workspace, const struct cv_hello *hello)
{
    workspace->base_path = copy_bytes(hello->base, strlen(hello->base));
    workspace->names_bytes = copy_bytes(hello->names.bytes, hello->names.length);
    workspace->names = hello->names;
    workspace->names.bytes = workspace->names_bytes;
    const char *first = hello->names.count > 0 ? hello->names.bytes : NULL;
    int length = asprintf(&workspace->root_path, "%s%s%s", hello->base, first != NULL ? "/" : "",
                          first != NULL ? first : "");
    if (length < 0)
        workspace->root_path = NULL;
    return workspace->base_path != NULL && workspace->names_bytes != NULL &&
           workspace->root_path != NULL && copy_env(workspace, &hello->env);
}

/* Makes the folder and its missing parents; an existing one is fine. */
static bool make_path(char *path)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        bool made = mkdir(path, FOLDER_MODE) == 0 || errno == EEXIST || errno == EROFS;
        int saved = errno;
        *at = '/';
        errno = saved;
        if (!made)
            return false;
    }
    return mkdir(path, FOLDER_MODE) == 0 || errno == EEXIST;
}

static bool open_base(struct cv_workspace *workspace, bool create, struct cv_trouble *trouble)
{
    struct stat entry;
    struct stat folder;
    if (create && !make_path(workspace->base_path))
        return fail(trouble, errno, "making the folder of the workspaces");
    workspace->base = open(workspace->base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (workspace->base < 0 || fstat(workspace->base, &folder) != 0 ||
        lstat(workspace->base_path, &entry) != 0)
        return fail(trouble, errno, "opening the folder of the workspaces");
    bool owns_names = workspace->names.count > 0;
    if (owns_names && (folder.st_uid != geteuid() || entry.st_uid != geteuid()))
        return fail(trouble, EPERM, "the folder of the workspaces belongs to another user");
    if (owns_names && (folder.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH)
        return fail(trouble, EPERM,
                    "everyone may rename what lies in the folder of the workspaces");
    return true;
}

/* Makes every name; when one fails, those made before it are gone again. */
static bool create_names(struct cv_workspace *workspace, struct cv_trouble *trouble)
{
    const char *name = workspace->names.bytes;
    for (uint32_t i = 0; i < workspace->names.count; i++, name = cv_strings_next(name)) {
        if (mkdirat(workspace->base, name, FOLDER_MODE) == 0)
            continue;
        fail(trouble, errno, "making the workspace's folders");
        const char *made = workspace->names.bytes;
        for (uint32_t j = 0; j < i; j++, made = cv_strings_next(made))
            unlinkat(workspace->base, made, AT_REMOVEDIR);
        return false;
    }
    return true;
}

static bool open_root(struct cv_workspace *workspace, struct cv_trouble *trouble)
{
    struct stat folder;
    bool named = workspace->names.count > 0;
    int fd = openat(workspace->base, named ? workspace->names.bytes : ".",
                    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &folder) != 0)
        return fail(trouble, errno, "opening the workspace's folder");
    workspace->root.fd = fd;
    workspace->root.path = workspace->root_path;
    workspace->root.alias = WORKSPACE_ALIAS;
    workspace->device = folder.st_dev;
    workspace->inode = folder.st_ino;
    return true;
}

bool cv_workspace_open(struct cv_workspace *workspace, const struct cv_hello *hello,
                       struct cv_trouble *trouble)
{
    *workspace = (struct cv_workspace){.base = -1, .root.fd = -1};
    bool create = (hello->flags & CV_HELLO_CREATE) != 0;
    bool remove_only = (hello->flags & CV_HELLO_REMOVE_ONLY) != 0;
    if (!copy_hello(workspace, hello))
        return fail(trouble, ENOMEM, "reading the hello");
    if (!open_base(workspace, create, trouble)) {
        if (!remove_only || trouble->errnum != ENOENT)
            return false;
        workspace->names.count = 0; /* no folder, so nothing in it is left to remove */
        return true;
    }
    if (create && !create_names(workspace, trouble))
        return false;
    return remove_only || open_root(workspace, trouble);
}

bool cv_workspace_present(const struct cv_workspace *workspace)
{
    struct stat entry;
    bool named = workspace->names.count > 0;
    int dir = named ? workspace->base : AT_FDCWD;
    const char *path = named ? workspace->names.bytes : workspace->base_path;
    return fstatat(dir, path, &entry, named ? AT_SYMLINK_NOFOLLOW : 0) == 0 &&
           entry.st_dev == workspace->device && entry.st_ino == workspace->inode;
}

int cv_workspace_cwd(const struct cv_workspace *workspace, const char *path, bool *owned)
{
    *owned = path[0] != '\0';
    if (!*owned)
        return workspace->root.fd;
    return cv_open_beneath(&workspace->root, path, O_PATH | O_DIRECTORY, 0);
}

bool cv_workspace_remove(struct cv_workspace *workspace, void (*progress)(void *context),
                         void *context, struct cv_trouble *trouble)
{
    bool removed = true;
    const char *name = workspace->names.bytes;
    for (uint32_t i = 0; i < workspace->names.count; i++, name = cv_strings_next(name)) {
        if (cv_remove_tree(workspace->base, name, progress, context) == 0)
            continue;
        if (removed)
            fail(trouble, errno, "deleting the workspace's folders");
        removed = false;
    }
    return removed;
}
