/* test_strings.c -- interned strings: equal text, equal id; cut, never split.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/unit.h"

static void test_equal_text_has_one_id(void **state)
{
    struct unit *unit = *state;
    struct vg_stacks *stacks = &unit->ledger.stacks;
    uint32_t first = vg_strings_intern_z(stacks, "cudaMalloc");
    uint32_t second = vg_strings_intern_z(stacks, "cudaMallocHost");
    assert_int_not_equal(first, 0);
    assert_int_not_equal(first, second);
    assert_int_equal(vg_strings_intern(stacks, "cudaMallocHost", 10), first);
    assert_int_equal(vg_strings_intern_z(stacks, "cudaMallocHost"), second);
}

static void test_nothing_is_id_0(void **state)
{
    struct unit *unit = *state;
    assert_int_equal(vg_strings_intern_z(&unit->ledger.stacks, NULL), 0);
    assert_int_equal(vg_strings_intern_z(&unit->ledger.stacks, ""), 0);
    assert_int_equal(vg_strings_intern(&unit->ledger.stacks, "\0x", 2), 0);
    assert_int_equal(vg_record_count(&unit->record, VG_SEC_STRINGS), 0);
}

static void test_the_reader_gets_them_back(void **state)
{
    struct unit *unit = *state;
    struct vg_view view;
    uint32_t ids[3000];
    char text[64];
    for (int i = 0; i < 3000; i++) {
        snprintf(text, sizeof text, "%.*s%d", i % 40,
                 "a/path/of/some/length/that/is/not/always/one", i);
        ids[i] = vg_strings_intern_z(&unit->ledger.stacks, text);
        assert_int_not_equal(ids[i], 0);
    }
    unit_open(unit, &view);
    for (int i = 0; i < 3000; i++) {
        snprintf(text, sizeof text, "%.*s%d", i % 40,
                 "a/path/of/some/length/that/is/not/always/one", i);
        assert_string_equal(vg_view_string(&view, ids[i]), text);
    }
    assert_string_equal(vg_view_string(&view, 0), "");
    assert_string_equal(vg_view_string(&view, UINT32_MAX), "");
    vg_view_close(&view);
}

static void test_long_text_is_cut_between_characters(void **state)
{
    struct unit *unit = *state;
    struct vg_view view;
    size_t length = VG_STRING_MAX + 100;
    char *text = malloc(length);
    memset(text, 'a', length);
    memcpy(text + VG_STRING_MAX - 2, "\xe2\x82\xac", 3);
    uint32_t id = vg_strings_intern(&unit->ledger.stacks, text, length);
    /* Some more long ones: they do not fit behind one another in the first chunks. */
    for (char c = 'b'; c < 'i'; c++) {
        text[0] = c;
        assert_int_not_equal(vg_strings_intern(&unit->ledger.stacks, text, length), 0);
    }
    unit_open(unit, &view);
    assert_int_equal(strlen(vg_view_string(&view, id)), VG_STRING_MAX - 2);
    vg_view_close(&view);
    free(text);
}

static void test_a_full_record_gives_id_0_and_finds_the_old_ones(void **state)
{
    struct unit *unit = *state;
    unit_end(unit);
    unit_begin(unit, MIB);
    uint32_t first = vg_strings_intern_z(&unit->ledger.stacks, "first");
    char text[2048];
    memset(text, 'x', sizeof text);
    uint32_t id = 1;
    for (int i = 0; i < 1000; i++) {
        memcpy(text, &(int){i + 0x01010101}, sizeof i);
        id = vg_strings_intern(&unit->ledger.stacks, text, sizeof text);
    }
    assert_int_equal(id, 0);
    assert_true(unit->record.header->saturated & VG_SAT_STRINGS);
    assert_int_equal(vg_strings_intern_z(&unit->ledger.stacks, "first"), first);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_setup, unit_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_equal_text_has_one_id),
        TEST(test_nothing_is_id_0),
        TEST(test_the_reader_gets_them_back),
        TEST(test_long_text_is_cut_between_characters),
        TEST(test_a_full_record_gives_id_0_and_finds_the_old_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
