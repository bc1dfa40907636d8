/* Deleting a folder that untrusted commands have filled. */
#ifndef CV_FS_REMOVE_H
#define CV_FS_REMOVE_H

/*
 * Removes the entry `name` (a single component) of the folder `dir`: a file, a link (never
 * followed) or a whole tree, of any depth with a bounded number of descriptors and stack. Folders
 * without permission bits are made passable (chmod 0700) first. Never crosses a mount point.
 *
 * `progress`, when not NULL, is called with `context` at least every 256 entries. A missing entry
 * is fine. The removal goes on past what can't be deleted. Returns 0, or -1 with the errno of the
 * first failure: EBUSY for a mount point, and at last for a tree that somebody keeps filling;
 * EINVAL for a name that is not a single component.
 */
int cv_remove_tree(int dir, const char *name, void (*progress)(void *context), void *context);

#endif
