#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/idmap.h"

#define COUNT 2000

static void empty_map(void **state)
{
    (void)state;
    struct cv_idmap map;
    cv_idmap_init(&map);
    assert_null(cv_idmap_find(&map, 0));
    assert_null(cv_idmap_find(&map, UINT32_MAX));
    assert_null(cv_idmap_any(&map));
    cv_idmap_free(&map);
    cv_idmap_free(&map);
}

static void finds_what_was_added(void **state)
{
    (void)state;
    struct cv_idmap map;
    static struct cv_idnode nodes[COUNT];
    cv_idmap_init(&map);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(cv_idmap_add(&map, &nodes[i], i * 3), 0);
        assert_int_equal(map.count, i + 1);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_ptr_equal(cv_idmap_find(&map, i * 3), &nodes[i]);
        assert_null(cv_idmap_find(&map, i * 3 + 1));
    }
    cv_idmap_free(&map);
}

/* Ids that all fall into one bucket, and the ends of the range. */
static void tells_apart_ids_of_one_bucket(void **state)
{
    (void)state;
    struct cv_idmap map;
    struct cv_idnode nodes[6];
    const uint32_t ids[6] = {0, 16, 32, 1U << 31, UINT32_MAX - 15, UINT32_MAX};
    cv_idmap_init(&map);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(cv_idmap_add(&map, &nodes[i], ids[i]), 0);
    cv_idmap_remove(&map, &nodes[1]);
    cv_idmap_remove(&map, &nodes[4]);
    for (size_t i = 0; i < 6; i++) {
        if (i == 1 || i == 4)
            assert_null(cv_idmap_find(&map, ids[i]));
        else
            assert_ptr_equal(cv_idmap_find(&map, ids[i]), &nodes[i]);
    }
    assert_int_equal(cv_idmap_add(&map, &nodes[1], ids[1]), 0);
    assert_ptr_equal(cv_idmap_find(&map, 16), &nodes[1]);
    cv_idmap_free(&map);
}

static void any_drains_the_map(void **state)
{
    (void)state;
    struct cv_idmap map;
    static struct cv_idnode nodes[COUNT];
    bool seen[COUNT] = {false};
    cv_idmap_init(&map);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(cv_idmap_add(&map, &nodes[i], i), 0);
    struct cv_idnode *node;
    while ((node = cv_idmap_any(&map)) != NULL) {
        assert_false(seen[node->id]);
        seen[node->id] = true;
        cv_idmap_remove(&map, node);
    }
    assert_int_equal(map.count, 0);
    assert_null(memchr(seen, false, sizeof seen));
    cv_idmap_free(&map);
}

static void holds_under_random_use(void **state)
{
    (void)state;
    struct cv_idmap map;
    static struct cv_idnode nodes[COUNT];
    bool in[COUNT] = {false};
    uint32_t random = 5;
    cv_idmap_init(&map);
    for (int round = 0; round < 50000; round++) {
        random = random * 1664525 + 1013904223;
        uint32_t id = (random >> 8) % COUNT;
        struct cv_idnode *expected = in[id] ? &nodes[id] : NULL;
        if (cv_idmap_find(&map, id) != expected)
            fail_msg("id %u in round %d", id, round);
        if (in[id])
            cv_idmap_remove(&map, &nodes[id]);
        else
            assert_int_equal(cv_idmap_add(&map, &nodes[id], id), 0);
        in[id] = !in[id];
    }
    cv_idmap_free(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_map),
        cmocka_unit_test(finds_what_was_added),
        cmocka_unit_test(any_drains_the_map),
        cmocka_unit_test(tells_apart_ids_of_one_bucket),
        cmocka_unit_test(holds_under_random_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
