#include "supervisor/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/remove.h"

#define FOLDER_MODE 0700
/* The root of every workspace as a model sees it; links may use that name. */
#define WORKSPACE_ALIAS "/workspace"

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

/* How many of the names are folders: all but the record, which comes last. */
static uint32_t folder_count(const struct cv_workspace *workspace)
{
    return workspace->names.count - (workspace->with_record ? 1 : 0);
}

/*
 * Makes the folders; when one fails, those made before it are gone again, and the record with them,
 * which is the last name and was made by the host.
 */
static bool create_folders(struct cv_workspace *workspace, struct cv_trouble *trouble)
{
    const char *name = workspace->names.bytes;
    uint32_t folders = folder_count(workspace);
    for (uint32_t i = 0; i < folders; i++, name = cv_strings_next(name)) {
        if (mkdirat(workspace->base, name, FOLDER_MODE) == 0)
            continue;
        cv_trouble(trouble, errno, "making the workspace's folders");
        const char *made = workspace->names.bytes;
        for (uint32_t j = 0; j < workspace->names.count; j++, made = cv_strings_next(made)) {
            if (j < i || j >= folders)
                unlinkat(workspace->base, made, j < i ? AT_REMOVEDIR : 0);
        }
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
        return cv_trouble(trouble, errno, "opening the workspace's folder");
    workspace->root.fd = fd;
    workspace->root.path = workspace->root_path;
    workspace->root.alias = WORKSPACE_ALIAS;
    workspace->real_path = realpath(workspace->root_path, NULL);
    workspace->root.real = workspace->real_path;
    workspace->device = folder.st_dev;
    workspace->inode = folder.st_ino;
    return true;
}

void cv_workspace_only_remove(struct cv_hello *hello)
{
    const uint32_t made = (hello->flags & CV_HELLO_RECORD) != 0 ? 1 : 0;
    while ((hello->flags & CV_HELLO_CREATE) != 0 && hello->names.count > made) {
        const char *next = cv_strings_next(hello->names.bytes);
        hello->names.length -= (size_t)(next - hello->names.bytes);
        hello->names.bytes = next;
        hello->names.count--;
    }
    hello->flags = (hello->flags & ~(uint32_t)CV_HELLO_CREATE) | CV_HELLO_REMOVE_ONLY;
}

bool cv_workspace_open(struct cv_workspace *workspace, const struct cv_hello *hello,
                       struct cv_trouble *trouble)
{
    *workspace = (struct cv_workspace){.base = -1, .root.fd = -1};
    bool create = (hello->flags & CV_HELLO_CREATE) != 0;
    bool remove_only = (hello->flags & CV_HELLO_REMOVE_ONLY) != 0;
    workspace->with_record = (hello->flags & CV_HELLO_RECORD) != 0;
    if (!copy_hello(workspace, hello))
        return cv_trouble(trouble, ENOMEM, "reading the hello");
    workspace->base =
        cv_folder_open(workspace->base_path, create, workspace->names.count > 0, trouble);
    if (workspace->base < 0) {
        if (!remove_only || trouble->errnum != ENOENT)
            return false;
        workspace->names.count = 0; /* no folder, so nothing in it is left to remove */
        return true;
    }
    if (create && !create_folders(workspace, trouble))
        return false;
    if (remove_only || open_root(workspace, trouble))
        return true;
    struct cv_trouble left;
    if (create)
        cv_workspace_remove(workspace, NULL, NULL, &left);
    return false;
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

bool cv_workspace_removed(const struct cv_workspace *workspace)
{
    struct stat entry;
    const char *name = workspace->names.bytes;
    if (!workspace->with_record || workspace->names.count == 0)
        return false;
    for (uint32_t i = 0; i < folder_count(workspace); i++)
        name = cv_strings_next(name);
    return fstatat(workspace->base, name, &entry, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
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
        if (i == folder_count(workspace) && !removed)
            break; /* the record stays, so that a collection tries again */
        if (cv_remove_tree(workspace->base, name, progress, context) == 0)
            continue;
        if (removed)
            cv_trouble(trouble, errno, "deleting the workspace's folders");
        removed = false;
    }
    return removed;
}
