/*
 * YAML as a hostile file may hold it. What is accepted is walked and written again as a document of
 * quoted scalars in brackets, which must be read as the same tree.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "codec/yaml.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(struct cv_buf *out, const char *text)
{
    REQUIRE(cv_buf_append(out, text, strlen(text)) == 0);
}

/* The character at `at`, of valid UTF-8; stores how many bytes it has. */
static uint32_t character(const unsigned char *at, size_t *length)
{
    *length = *at < 0x80 ? 1 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    uint32_t value = *length == 1 ? *at : *at & (0x7fu >> *length);
    for (size_t i = 1; i < *length; i++) {
        REQUIRE((at[i] & 0xc0) == 0x80);
        value = value << 6 | (at[i] & 0x3f);
    }
    return value;
}

static void put_string(struct cv_buf *out, const struct cv_yaml_text *text)
{
    char escape[16];
    size_t length;
    REQUIRE(text->bytes != NULL && text->bytes[text->length] == '\0');
    put(out, "\"");
    for (size_t i = 0; i < text->length; i += length) {
        uint32_t value = character((const unsigned char *)text->bytes + i, &length);
        REQUIRE(i + length <= text->length);
        snprintf(escape, sizeof escape, "\\U%08x", value);
        put(out, escape);
    }
    put(out, "\"");
}

static void put_node(struct cv_buf *out, const struct cv_yaml *node, int depth)
{
    static const char *const words[] = {"null", "false", "true"};
    char number[64];
    REQUIRE(depth <= CV_YAML_DEPTH_MAX);
    switch (node->type) {
    case CV_YAML_NUMBER:
        REQUIRE(isfinite(node->number));
        snprintf(number, sizeof number, "%.17g", node->number);
        put(out, number);
        break;
    case CV_YAML_STRING:
        put_string(out, &node->text);
        break;
    case CV_YAML_LIST:
    case CV_YAML_MAP:
        put(out, node->type == CV_YAML_LIST ? "[" : "{");
        for (const struct cv_yaml *element = node->first; element != NULL;
             element = element->next) {
            if (node->type == CV_YAML_MAP) {
                put(out, "? ");
                put_string(out, &element->key);
                put(out, " : ");
            }
            put_node(out, element, depth + 1);
            if (element->next != NULL)
                put(out, ",\n");
        }
        put(out, node->type == CV_YAML_LIST ? "]" : "}");
        break;
    default:
        put(out, words[node->type]);
    }
}

static bool same_text(const struct cv_yaml_text *left, const struct cv_yaml_text *right)
{
    return left->length == right->length &&
           (left->length == 0 || memcmp(left->bytes, right->bytes, left->length) == 0);
}

static void require_same(const struct cv_yaml *left, const struct cv_yaml *right)
{
    REQUIRE(left->type == right->type && left->number == right->number);
    REQUIRE(same_text(&left->text, &right->text) && same_text(&left->key, &right->key));
    const struct cv_yaml *l = left->first, *r = right->first;
    for (; l != NULL && r != NULL; l = l->next, r = r->next)
        require_same(l, r);
    REQUIRE(l == NULL && r == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cv_err err = {0};
    struct cv_buf out;
    char *text = malloc(size + 1); /* exactly as long, so that reading past its end is seen */
    if (size > 0)
        memcpy(text, data, size);
    struct cv_yaml *root = cv_yaml_parse(text, size, &err);
    free(text);
    if (root == NULL) {
        REQUIRE(strcmp(err.code, "invalid_yaml") == 0 && err.message[0] != '\0');
        return 0;
    }
    cv_buf_init(&out, SIZE_MAX / 2);
    put_node(&out, root, 0);
    if (cv_buf_length(&out) <= CV_YAML_TEXT_MAX) {
        struct cv_yaml *again =
            cv_yaml_parse((const char *)cv_buf_data(&out), cv_buf_length(&out), &err);
        REQUIRE(again != NULL);
        require_same(root, again);
        cv_yaml_free(again);
    }
    cv_buf_free(&out);
    cv_yaml_free(root);
    return 0;
}
