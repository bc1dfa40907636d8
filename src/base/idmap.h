/*
 * A hash map from a 32-bit id to a node inside the caller's structure. The map owns only its
 * buckets. An id is in the map at most once; adding it again is the caller's mistake.
 */
#ifndef CV_BASE_IDMAP_H
#define CV_BASE_IDMAP_H

#include <stddef.h>
#include <stdint.h>

struct cv_idnode {
    uint32_t id;
    struct cv_idnode *next;
};

struct cv_idmap {
    struct cv_idnode **buckets;
    size_t size; /* a power of two, or 0 */
    size_t count;
};

void cv_idmap_init(struct cv_idmap *map);
void cv_idmap_free(struct cv_idmap *map);
/* Adds the node under `id`. 0, or -1 without memory (errno ENOMEM). */
int cv_idmap_add(struct cv_idmap *map, struct cv_idnode *node, uint32_t id);
/* The node of `id`, or NULL. */
struct cv_idnode *cv_idmap_find(const struct cv_idmap *map, uint32_t id);
/* Takes the node out, which must be in the map. */
void cv_idmap_remove(struct cv_idmap *map, struct cv_idnode *node);
/* Any node of the map, or NULL when it is empty. */
struct cv_idnode *cv_idmap_any(const struct cv_idmap *map);

#endif
