#include "codec/yaml.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "codec/yaml_scalar.h"

struct anchor {
    char *name;
    const struct cv_yaml *node;
};

struct parse {
    yaml_parser_t parser;
    yaml_mark_t mark; /* of the event at hand */
    struct cv_yaml *root;
    struct cv_yaml *open;    /* the list or map that is being filled; NULL outside the root */
    struct cv_yaml_text key; /* of the value that comes next, in a map */
    bool has_key;
    struct anchor anchors[CV_YAML_ANCHORS_MAX];
    size_t anchor_count;
    unsigned depth;
    size_t cost;
    bool unmarked_end; /* the document has ended without a "..." */
    struct cv_err *err;
};

static int wrong(struct parse *p, const char *what)
{
    return cv_err_set(p->err, "invalid_yaml", "at line %zu, column %zu: %s", p->mark.line + 1,
                      p->mark.column + 1, what);
}

static int no_memory(struct parse *p)
{
    return cv_err_set(p->err, "invalid_yaml", "not enough memory");
}

static int spend(struct parse *p, size_t cost)
{
    if (cost > CV_YAML_COST_MAX - p->cost)
        return wrong(p, "the whole is too large");
    p->cost += cost;
    return 0;
}

static int copy_text(struct parse *p, struct cv_yaml_text *to, const char *bytes, size_t length)
{
    if (spend(p, length + 1) != 0)
        return -1;
    to->bytes = malloc(length + 1);
    if (to->bytes == NULL)
        return no_memory(p);
    memcpy(to->bytes, bytes, length);
    to->bytes[length] = '\0';
    to->length = length;
    return 0;
}

/* ---- the tree ----------------------------------------------------------------------------- */

void cv_yaml_free(struct cv_yaml *root)
{
    while (root != NULL) {
        struct cv_yaml *next = root->next;
        if (root->first != NULL) { /* its elements first, then itself */
            root->last->next = root;
            next = root->first;
            root->first = NULL;
            root->last = NULL;
        } else {
            free(root->text.bytes);
            free(root->key.bytes);
            free(root);
        }
        root = next;
    }
}

/* A new node at its place in the tree, under the key that was read; NULL with the error set. */
static struct cv_yaml *add_node(struct parse *p, struct cv_yaml *parent, enum cv_yaml_type type)
{
    if (spend(p, CV_YAML_NODE_COST) != 0)
        return NULL;
    struct cv_yaml *node = calloc(1, sizeof *node);
    if (node == NULL) {
        no_memory(p);
        return NULL;
    }
    node->type = type;
    node->parent = parent;
    node->key = p->key;
    p->key = (struct cv_yaml_text){0};
    p->has_key = false;
    if (parent == NULL)
        p->root = node;
    else if (parent->last == NULL)
        parent->first = node;
    else
        parent->last->next = node;
    if (parent != NULL)
        parent->last = node;
    return node;
}

static bool expects_key(const struct parse *p)
{
    return p->open != NULL && p->open->type == CV_YAML_MAP && !p->has_key;
}

static int set_anchor(struct parse *p, const struct cv_yaml *node, const yaml_char_t *name)
{
    if (name == NULL)
        return 0;
    if (p->anchor_count == CV_YAML_ANCHORS_MAX)
        return wrong(p, "there are too many anchors");
    struct anchor *anchor = &p->anchors[p->anchor_count];
    anchor->name = strdup((const char *)name);
    if (anchor->name == NULL)
        return no_memory(p);
    anchor->node = node;
    p->anchor_count++;
    return 0;
}

/* ---- scalars ------------------------------------------------------------------------------ */

static int take_key(struct parse *p, const struct cv_yaml_scalar *scalar, const char *bytes,
                    size_t length)
{
    if (scalar->type == CV_YAML_NULL)
        return wrong(p, "a key is null");
    if (scalar->plain && length == 2 && memcmp(bytes, "<<", 2) == 0)
        return wrong(p, "merge keys (<<) are not taken");
    p->has_key = true;
    return copy_text(p, &p->key, bytes, length);
}

static int take_scalar(struct parse *p, const yaml_event_t *event)
{
    const char *bytes = (const char *)event->data.scalar.value;
    const char *tag = (const char *)event->data.scalar.tag;
    const size_t length = event->data.scalar.length;
    struct cv_yaml_scalar scalar = {
        .plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE,
    };
    if (cv_yaml_resolve(bytes, length, tag, &scalar) != 0)
        return wrong(p, "a scalar is not what its tag says, or the tag is not known");
    if (expects_key(p)) {
        if (event->data.scalar.anchor != NULL)
            return wrong(p, "a key has an anchor");
        return take_key(p, &scalar, bytes, length);
    }
    struct cv_yaml *node = add_node(p, p->open, scalar.type);
    if (node == NULL || set_anchor(p, node, event->data.scalar.anchor) != 0)
        return -1;
    node->number = scalar.number;
    return scalar.type == CV_YAML_STRING ? copy_text(p, &node->text, bytes, length) : 0;
}

/* ---- lists and maps ----------------------------------------------------------------------- */

static int enter(struct parse *p, enum cv_yaml_type type, const yaml_char_t *anchor,
                 const yaml_char_t *tag)
{
    if (expects_key(p))
        return wrong(p, "a key is a list or a map");
    if (tag != NULL)
        return wrong(p, "a list or a map has a tag");
    if (++p->depth > CV_YAML_DEPTH_MAX)
        return wrong(p, "the whole is nested too deeply");
    struct cv_yaml *node = add_node(p, p->open, type);
    if (node == NULL || set_anchor(p, node, anchor) != 0)
        return -1;
    p->open = node;
    return 0;
}

static void leave(struct parse *p)
{
    p->open = p->open->parent;
    p->depth--;
}

/* ---- aliases ------------------------------------------------------------------------------ */

/* The last one of that name: an anchor may be set again. */
static const struct cv_yaml *find_anchor(const struct parse *p, const char *name)
{
    for (size_t i = p->anchor_count; i > 0; i--) {
        if (strcmp(p->anchors[i - 1].name, name) == 0)
            return p->anchors[i - 1].node;
    }
    return NULL;
}

static int copy_tree(struct parse *p, struct cv_yaml *parent, const struct cv_yaml *node,
                     unsigned depth)
{
    if (depth > CV_YAML_DEPTH_MAX)
        return wrong(p, "the whole is nested too deeply");
    struct cv_yaml *copy = add_node(p, parent, node->type);
    if (copy == NULL)
        return -1;
    copy->number = node->number;
    if (node->text.bytes != NULL && copy_text(p, &copy->text, node->text.bytes, node->text.length))
        return -1;
    for (const struct cv_yaml *element = node->first; element != NULL; element = element->next) {
        if (element->key.bytes != NULL &&
            copy_text(p, &p->key, element->key.bytes, element->key.length) != 0)
            return -1;
        if (copy_tree(p, copy, element, depth + 1) != 0)
            return -1;
    }
    return 0;
}

static int take_alias(struct parse *p, const char *name)
{
    if (expects_key(p))
        return wrong(p, "a key is an alias");
    const struct cv_yaml *node = find_anchor(p, name);
    if (node == NULL)
        return wrong(p, "an alias has no anchor");
    for (const struct cv_yaml *outer = p->open; outer != NULL; outer = outer->parent) {
        if (outer == node)
            return wrong(p, "an anchor holds itself");
    }
    return copy_tree(p, p->open, node, p->depth);
}

/* ---- the document ------------------------------------------------------------------------- */

/* 1 once the first document has ended. */
static int take_event(struct parse *p, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return take_scalar(p, event);
    case YAML_SEQUENCE_START_EVENT:
        return enter(p, CV_YAML_LIST, event->data.sequence_start.anchor,
                     event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return enter(p, CV_YAML_MAP, event->data.mapping_start.anchor,
                     event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        leave(p);
        return 0;
    case YAML_ALIAS_EVENT:
        return take_alias(p, (const char *)event->data.alias.anchor);
    case YAML_DOCUMENT_END_EVENT:
        p->unmarked_end = event->data.document_end.implicit != 0;
        return 1;
    case YAML_STREAM_END_EVENT:
        return 1;
    default:
        return 0;
    }
}

/* libyaml's texts are fixed; they hold nothing of what it reads. */
static int parser_wrong(struct parse *p)
{
    const yaml_parser_t *parser = &p->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return no_memory(p);
    p->mark = parser->error == YAML_READER_ERROR ? parser->mark : parser->problem_mark;
    return wrong(p, parser->problem == NULL ? "this is no YAML" : parser->problem);
}

/* Only a marker may follow, or nothing: what libyaml takes for no part of the document, such as a
 * line that is indented less than the first one, must not be lost. */
static int check_end(struct parse *p)
{
    yaml_event_t event;
    if (yaml_parser_parse(&p->parser, &event) == 0)
        return parser_wrong(p);
    yaml_event_delete(&event);
    return 0;
}

static int parse_document(struct parse *p)
{
    yaml_event_t event;
    int result = 0;
    while (result == 0) {
        if (yaml_parser_parse(&p->parser, &event) == 0)
            return parser_wrong(p);
        p->mark = event.start_mark;
        result = take_event(p, &event);
        yaml_event_delete(&event);
    }
    if (result < 0 || (p->unmarked_end && check_end(p) != 0))
        return -1;
    return p->root == NULL && add_node(p, NULL, CV_YAML_NULL) == NULL ? -1 : 0;
}

struct cv_yaml *cv_yaml_parse(const char *text, size_t length, struct cv_err *err)
{
    struct parse p = {.err = err};
    if (length > CV_YAML_TEXT_MAX) {
        cv_err_set(err, "invalid_yaml", "the text is too long");
        return NULL;
    }
    if (yaml_parser_initialize(&p.parser) == 0) {
        no_memory(&p);
        return NULL;
    }
    yaml_parser_set_input_string(&p.parser, (const unsigned char *)text, length);
    int result = parse_document(&p);
    yaml_parser_delete(&p.parser);
    free(p.key.bytes);
    while (p.anchor_count > 0)
        free(p.anchors[--p.anchor_count].name);
    if (result == 0)
        return p.root;
    cv_yaml_free(p.root);
    return NULL;
}
