/* What a scalar of YAML stands for: YAML 1.1, types, as far as go-yaml and so kubectl read them. */
#ifndef CV_CODEC_YAML_SCALAR_H
#define CV_CODEC_YAML_SCALAR_H

#include <stdbool.h>

#include "codec/yaml.h"

struct cv_yaml_scalar {
    bool plain; /* given: it has no quotes and is no block */
    enum cv_yaml_type type;
    double number;
};

/*
 * Without a tag (NULL) a plain scalar is what it looks like, and any other is text; "!" and
 * !!str make text of any. With !!null, !!bool, !!int or !!float it has to look like one. Infinities
 * and numbers past the range of a double are text, and so are dates. 0, or -1 for any other tag or
 * one that the scalar doesn't fit.
 */
int cv_yaml_resolve(const char *bytes, size_t length, const char *tag,
                    struct cv_yaml_scalar *scalar);

#endif
