#include "base/idmap.h"

#include <stdlib.h>

void cv_idmap_init(struct cv_idmap *map)
{
    *map = (struct cv_idmap){0};
}

void cv_idmap_free(struct cv_idmap *map)
{
    free(map->buckets);
    cv_idmap_init(map);
}

/* Ids are counted up, so their low bits spread well enough. */
static struct cv_idnode **bucket_of(const struct cv_idmap *map, uint32_t id)
{
    return &map->buckets[id & (map->size - 1)];
}

static int grow(struct cv_idmap *map)
{
    struct cv_idmap larger = {.size = map->size == 0 ? 16 : map->size * 2, .count = map->count};
    larger.buckets = calloc(larger.size, sizeof *larger.buckets);
    if (larger.buckets == NULL)
        return -1;
    for (size_t i = 0; i < map->size; i++) {
        struct cv_idnode *node = map->buckets[i];
        while (node != NULL) {
            struct cv_idnode *next = node->next;
            struct cv_idnode **bucket = bucket_of(&larger, node->id);
            node->next = *bucket;
            *bucket = node;
            node = next;
        }
    }
    free(map->buckets);
    *map = larger;
    return 0;
}

int cv_idmap_add(struct cv_idmap *map, struct cv_idnode *node, uint32_t id)
{
    if (map->count == map->size && grow(map) != 0)
        return -1;
    node->id = id;
    struct cv_idnode **bucket = bucket_of(map, id);
    node->next = *bucket;
    *bucket = node;
    map->count++;
    return 0;
}

struct cv_idnode *cv_idmap_find(const struct cv_idmap *map, uint32_t id)
{
    if (map->size == 0)
        return NULL;
    struct cv_idnode *node = *bucket_of(map, id);
    while (node != NULL && node->id != id)
        node = node->next;
    return node;
}

void cv_idmap_remove(struct cv_idmap *map, struct cv_idnode *node)
{
    struct cv_idnode **link = bucket_of(map, node->id);
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    map->count--;
}

struct cv_idnode *cv_idmap_any(const struct cv_idmap *map)
{
    for (size_t i = 0; i < map->size; i++) {
        if (map->buckets[i] != NULL)
            return map->buckets[i];
    }
    return NULL;
}
