/*
 * An intrusive doubly linked list with a head node of its own. A node that is in no list points to
 * itself, so removing it twice is harmless.
 */
#ifndef CV_BASE_LIST_H
#define CV_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct cv_list {
    struct cv_list *next;
    struct cv_list *prev;
};

/* The structure of type `type` whose member `member` is the node `node`. */
#define cv_list_entry(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

static inline void cv_list_init(struct cv_list *list)
{
    list->next = list->prev = list;
}

static inline bool cv_list_empty(const struct cv_list *list)
{
    return list->next == list;
}

/* Appends `node`, which must be in no list, at the end of `list`. */
static inline void cv_list_append(struct cv_list *list, struct cv_list *node)
{
    node->prev = list->prev;
    node->next = list;
    list->prev->next = node;
    list->prev = node;
}

static inline void cv_list_remove(struct cv_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    cv_list_init(node);
}

#endif
