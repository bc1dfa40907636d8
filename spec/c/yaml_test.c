/* YAML as a tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/yaml.h"

/* The tree in one line: maps as {k=v,...}, lists as [v,...], strings in quotes. */
static char *print(const struct cv_yaml *node, char *to)
{
    static const char *const words[] = {"null", "false", "true"};
    switch (node->type) {
    case CV_YAML_NUMBER:
        return to + sprintf(to, "%.17g", node->number);
    case CV_YAML_STRING:
        assert_int_equal(node->text.bytes[node->text.length], 0);
        return to + sprintf(to, "'%s'", node->text.bytes);
    case CV_YAML_LIST:
    case CV_YAML_MAP:
        *to++ = node->type == CV_YAML_LIST ? '[' : '{';
        for (const struct cv_yaml *element = node->first; element != NULL;
             element = element->next) {
            if (node->type == CV_YAML_MAP)
                to += sprintf(to, "%s=", element->key.bytes);
            to = print(element, to);
            if (element->next != NULL)
                *to++ = ',';
        }
        *to++ = node->type == CV_YAML_LIST ? ']' : '}';
        *to = '\0';
        return to;
    default:
        return to + sprintf(to, "%s", words[node->type]);
    }
}

static void assert_tree(const char *text, const char *expected)
{
    char printed[4096];
    struct cv_err err = {0};
    struct cv_yaml *root = cv_yaml_parse(text, strlen(text), &err);
    if (root == NULL)
        fail_msg("%s: %s", text, err.message);
    print(root, printed);
    assert_string_equal(printed, expected);
    cv_yaml_free(root);
}

static void assert_refused(const char *text, size_t length, const char *words)
{
    struct cv_err err = {0};
    struct cv_yaml *root = cv_yaml_parse(text, length, &err);
    if (root != NULL)
        fail_msg("taken: %s", text);
    assert_string_equal(err.code, "invalid_yaml");
    if (strstr(err.message, words) == NULL)
        fail_msg("%s", err.message);
}

#define BOM "\xef\xbb\xbf"
#define ASSERT_REFUSED(literal, words) assert_refused(literal, sizeof(literal) - 1, words)

static void documents_become_trees(void **state)
{
    (void)state;
    assert_tree("", "null");
    assert_tree("# nothing\n", "null");
    assert_tree("---\n...\n", "null");
    assert_tree("a: b\nc:\n- d\n- {e: f, g: []}\n-\n", "{a='b',c=['d',{e='f',g=[]},null]}");
    assert_tree("{\"a\": [1, true, null, \"x\"]}", "{a=[1,true,null,'x']}");
    assert_tree("a: |\n  one\n  two\nb: >-\n  three\n  four\n", "{a='one\ntwo\n',b='three four'}");
    assert_tree("a: 1\na: 2\n", "{a=1,a=2}");
    assert_tree("1: a\ntrue: b\n'': c\n", "{1='a',true='b',='c'}");
}

static void the_first_document_alone_is_read(void **state)
{
    (void)state;
    assert_tree("a\n---\n: ]\n", "'a'");
    assert_tree("a: b\n...\n: ]\n", "{a='b'}");
    assert_tree("{a: b}\n# c\n%YAML 1.1\n---\n: ]\n", "{a='b'}");
    ASSERT_REFUSED("{a: b}\nc: secret\n", "at line 2, column 1: did not find");
    ASSERT_REFUSED(" a: b\nc: secret\n", "at line 2, column 1: did not find");
    ASSERT_REFUSED("[a] secret\n", "at line 1, column 5: did not find");
    ASSERT_REFUSED("'a'\n'secret'\n", "at line 2, column 1: did not find");
}

static void byte_order_marks_are_skipped(void **state)
{
    (void)state;
    assert_tree(BOM, "null");
    assert_tree(BOM "a: b\nc: d\n", "{a='b',c='d'}");
    ASSERT_REFUSED(BOM BOM "a: b\nc: d\n", "at line 2, column 1: did not find");
    struct cv_err err;
    struct cv_yaml *root = cv_yaml_parse("\xfe\xff\0\xe9", 4, &err); /* UTF-16 */
    assert_non_null(root);
    assert_string_equal(root->text.bytes, "\xc3\xa9");
    cv_yaml_free(root);
    ASSERT_REFUSED("\xfe\xff\0[", "at line 2, column 1: did not find");
}

static void scalars_are_what_they_look_like(void **state)
{
    (void)state;
    assert_tree("[~, null, Null, NULL, nUll]", "[null,null,null,null,'nUll']");
    assert_tree("[y, Yes, on, TRUE, yEs, n, No, off, false]",
                "[true,true,true,true,'yEs',false,false,false,false]");
    assert_tree("[0, -1, +2, 0x1F, 0b11, 0o17, 017, 1_000, 08]", "[0,-1,2,31,3,15,15,1000,8]");
    assert_tree("[1.5, -.5, 2., 1e3, 1E-1, .e1, 1e, 1.2.3, 0x, 1e999]",
                "[1.5,-0.5,2,1000,0.10000000000000001,'.e1','1e','1.2.3','0x','1e999']");
    assert_tree("[_1, _, __1, -_1, 1_, 0_x1, 0x_, ._5, .5_, .5__0, .5_0, 0._5, +._5]",
                "['_1','_','__1',-1,1,1,'0x_','._5','.5_','.5__0',0.5,0.5,0.5]");
    assert_tree(
        "[-0x8000000000000000, -0x8000000000000001, +0x7fffffffffffffff, +0x8000000000000000]",
        "[-9.2233720368547758e+18,'-0x8000000000000001',9.2233720368547758e+18,"
        "'+0x8000000000000000']");
    assert_tree("[.inf, .nan, 2001-01-01, 1:30]", "['.inf','.nan','2001-01-01','1:30']");
    assert_tree("['1', \"true\", '~', '']", "['1','true','~','']");
    assert_tree("[!!str 1, ! 1, !!int 1, !!float 1, !!bool on, !!null '', !!int '2']",
                "['1','1',1,1,true,null,2]");
    assert_tree("[18446744073709551615, 18446744073709551616]",
                "[1.8446744073709552e+19,1.8446744073709552e+19]");
    /* The nearest double, though the digits before the last one are no double. */
    assert_tree("[99999949999999999, -12345678901234567, 0x20000000000001, 0777777777777777777777]",
                "[99999950000000000,-12345678901234568,9007199254740992,9.2233720368547758e+18]");
    assert_tree("[0x10000000000000000, 0xffffffffffffffff]",
                "['0x10000000000000000',1.8446744073709552e+19]");
}

static void strings_may_hold_a_nul(void **state)
{
    struct cv_err err;
    (void)state;
    struct cv_yaml *root = cv_yaml_parse("\"a\\0b\"", 6, &err);
    assert_non_null(root);
    assert_int_equal(root->text.length, 3);
    assert_memory_equal(root->text.bytes, "a\0b", 4);
    cv_yaml_free(root);
}

static void aliases_are_copies(void **state)
{
    (void)state;
    assert_tree("a: &x {k: [1, z]}\nb: *x\nc: [*x, &x 2, *x]\n",
                "{a={k=[1,'z']},b={k=[1,'z']},c=[{k=[1,'z']},2,2]}");
    ASSERT_REFUSED("a: *x\n", "at line 1, column 4: an alias has no anchor");
    ASSERT_REFUSED("&x [1, [*x]]", "an anchor holds itself");
    ASSERT_REFUSED("{a: &x b, *x : c}", "a key is an alias");
    ASSERT_REFUSED("{&x a: b}", "a key has an anchor");
}

/* A billion laughs: each level nine copies of the one below. */
static void copies_are_bounded(void **state)
{
    char text[1024] = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
    (void)state;
    for (int level = 1; level < 10; level++) {
        char *end = text + strlen(text);
        end += sprintf(end, "a%d: &a%d [", level, level);
        for (int i = 0; i < 9; i++)
            end += sprintf(end, "%s*a%d", i == 0 ? "" : ",", level - 1);
        strcpy(end, "]\n");
    }
    assert_refused(text, strlen(text), "the whole is too large");

    char *deep = calloc(1, 40 * 80);
    char *end = deep;
    end += sprintf(end, "- &a0 []\n");
    for (int level = 1; level < 80; level++)
        end += sprintf(end, "- &a%d [*a%d]\n", level, level - 1);
    assert_refused(deep, strlen(deep), "nested too deeply");
    free(deep);

    char *many = malloc(CV_YAML_ANCHORS_MAX * 16);
    end = many;
    for (int i = 0; i <= CV_YAML_ANCHORS_MAX; i++)
        end += sprintf(end, "- &a%d x\n", i);
    assert_refused(many, strlen(many), "too many anchors");
    free(many);
}

static void size_and_depth_are_bounded(void **state)
{
    (void)state;
    char deep[CV_YAML_DEPTH_MAX + 2];
    memset(deep, '[', sizeof deep);
    assert_refused(deep, CV_YAML_DEPTH_MAX + 1, "nested too deeply");
    char whole[2 * CV_YAML_DEPTH_MAX + 1];
    memset(whole, '[', CV_YAML_DEPTH_MAX);
    memset(whole + CV_YAML_DEPTH_MAX, ']', CV_YAML_DEPTH_MAX);
    whole[2 * CV_YAML_DEPTH_MAX] = '\0';
    assert_tree(whole, whole);

    char *large = malloc(CV_YAML_TEXT_MAX + 1);
    memset(large, ' ', CV_YAML_TEXT_MAX + 1);
    assert_refused(large, CV_YAML_TEXT_MAX + 1, "too long");
    for (size_t i = 0; i < CV_YAML_TEXT_MAX; i++)
        large[i] = i % 2 == 0 ? ',' : '1';
    large[0] = '[';
    assert_refused(large, CV_YAML_TEXT_MAX, "the whole is too large");
    free(large);
}

static void what_is_no_yaml_is_refused_with_its_place(void **state)
{
    (void)state;
    ASSERT_REFUSED("a: b\n  c: secret\n", "at line 2, column 4: mapping values are not allowed");
    ASSERT_REFUSED("a: [secret\n", "at line 2, column 1: ");
    ASSERT_REFUSED("a: \xff\n", "invalid leading UTF-8 octet");
    ASSERT_REFUSED("a\0b", "control characters are not allowed");
    ASSERT_REFUSED("<<: {a: b}\n", "at line 1, column 1: merge keys (<<) are not taken");
    assert_tree("'<<': a\n", "{<<='a'}");
    ASSERT_REFUSED("? [a]\n: b\n", "a key is a list or a map");
    ASSERT_REFUSED("~: a\n", "a key is null");
    ASSERT_REFUSED("a: !!int x\n", "not what its tag says");
    ASSERT_REFUSED("a: !!float x\n", "not what its tag says");
    ASSERT_REFUSED("a: !!bool x\n", "not what its tag says");
    ASSERT_REFUSED("a: !!null x\n", "not what its tag says");
    ASSERT_REFUSED("a: !!binary eA==\n", "the tag is not known");
    ASSERT_REFUSED("a: !other x\n", "the tag is not known");
    ASSERT_REFUSED("a: !!map {}\n", "a list or a map has a tag");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_become_trees),
        cmocka_unit_test(the_first_document_alone_is_read),
        cmocka_unit_test(byte_order_marks_are_skipped),
        cmocka_unit_test(scalars_are_what_they_look_like),
        cmocka_unit_test(strings_may_hold_a_nul),
        cmocka_unit_test(aliases_are_copies),
        cmocka_unit_test(copies_are_bounded),
        cmocka_unit_test(size_and_depth_are_bounded),
        cmocka_unit_test(what_is_no_yaml_is_refused_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
