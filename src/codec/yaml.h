/*
 * YAML text as a tree, by libyaml: the only code that knows that library.
 *
 * The text is UTF-8, or UTF-16 behind a byte order mark. The first document alone is read; what
 * follows it without a document marker is an error. What a plain scalar stands for is what YAML 1.1
 * says and kubectl does: null, the booleans (yes, on and y among them), numbers, else text. A key
 * may come twice, as for kubectl: the last one counts, which is the reader's business. An alias is
 * a copy of what its anchor holds, and copies count like everything else against the bounds, so
 * that a short text can't become a large tree. Refused: merge keys, keys that are no scalars, tags
 * other than YAML's own for scalars.
 */
#ifndef CV_CODEC_YAML_H
#define CV_CODEC_YAML_H

#include <stddef.h>

#include "base/err.h"

/* How deep lists and maps may be nested: trees are walked recursively, also by their users. */
#define CV_YAML_DEPTH_MAX 64
/* The longest text, and the most that a tree may cost: the bytes of its scalars and keys, and
 * CV_YAML_NODE_COST for each node. */
#define CV_YAML_TEXT_MAX ((size_t)4 * 1024 * 1024)
#define CV_YAML_COST_MAX ((size_t)32 * 1024 * 1024)
#define CV_YAML_NODE_COST 128
/* How many anchors a text may have: each alias looks through them. */
#define CV_YAML_ANCHORS_MAX 256

enum cv_yaml_type {
    CV_YAML_NULL,
    CV_YAML_FALSE,
    CV_YAML_TRUE,
    CV_YAML_NUMBER,
    CV_YAML_STRING,
    CV_YAML_LIST,
    CV_YAML_MAP,
};

/* A string of its own length, which may hold a NUL; there is always one behind it. */
struct cv_yaml_text {
    char *bytes;
    size_t length;
};

struct cv_yaml {
    enum cv_yaml_type type;
    double number;            /* finite */
    struct cv_yaml_text text; /* of a string, UTF-8 */
    struct cv_yaml_text key;  /* of an element of a map, UTF-8 */
    struct cv_yaml *first;    /* of the elements of a list or map */
    struct cv_yaml *next;     /* the element behind this one */
    /* The parser's own. */
    struct cv_yaml *last, *parent;
};

/*
 * NULL with `err` (invalid_yaml; the message says at which line and column, and holds nothing of
 * the text) for what is no YAML or is refused. A text without a document is a null.
 */
struct cv_yaml *cv_yaml_parse(const char *text, size_t length, struct cv_err *err);
/* Frees the whole tree; NULL is fine. */
void cv_yaml_free(struct cv_yaml *root);

#endif
