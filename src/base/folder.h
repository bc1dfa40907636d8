/* The folder that holds workspaces: made private, and never another user's. */
#ifndef CV_BASE_FOLDER_H
#define CV_BASE_FOLDER_H

#include <stdbool.h>

/* What went wrong, for an error message. */
struct cv_trouble {
    int errnum;
    const char *text; /* static: what was being done */
};

/* Fills *trouble and returns false. */
bool cv_trouble(struct cv_trouble *trouble, int errnum, const char *text);

/*
 * Opens the folder `path` (O_RDONLY, close-on-exec), with `create` after making it and its missing
 * parents (0700). Refuses, with `owned`, a folder or a link to one that belongs to another user,
 * and one whose entries everyone may rename: who can swap an entry decides what is deleted in its
 * place. Returns the descriptor, or -1 with *trouble.
 */
int cv_folder_open(const char *path, bool create, bool owned, struct cv_trouble *trouble);

#endif
