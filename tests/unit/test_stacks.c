/* test_stacks.c -- interned frames and stacks, written and read back.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/unit.h"

static void test_equal_frames_have_one_id(void **state)
{
    struct unit *unit = *state;
    struct vg_stacks *stacks = &unit->ledger.stacks;
    uint32_t native = vg_stacks_frame_native(stacks, 1, 0x1234);
    uint32_t python = vg_stacks_frame_python(stacks, 1, 2, 88);
    assert_int_not_equal(native, python);
    assert_int_equal(vg_stacks_frame_native(stacks, 1, 0x1234), native);
    assert_int_equal(vg_stacks_frame_python(stacks, 1, 2, 88), python);
    assert_int_not_equal(vg_stacks_frame_native(stacks, 2, 0x1234), native);
    assert_int_not_equal(vg_stacks_frame_python(stacks, 1, 2, 89), python);
}

static void test_the_reader_gets_a_stack_back(void **state)
{
    struct unit *unit = *state;
    struct vg_stacks *stacks = &unit->ledger.stacks;
    struct vg_module module = {.path = vg_strings_intern_z(stacks, "/lib/libx.so"), .low = 4096};
    uint32_t module_id = vg_stacks_module(stacks, &module);
    uint32_t file = vg_strings_intern_z(stacks, "train.py");
    uint32_t function = vg_strings_intern_z(stacks, "forward");
    uint32_t ids[3] = {vg_stacks_frame_native(stacks, module_id, 0x10),
                       vg_stacks_frame_native(stacks, 0, 0x7fff00001000),
                       vg_stacks_frame_python(stacks, file, function, 88)};
    uint32_t id = vg_stacks_intern(stacks, ids, 2, 1, true);
    struct vg_view view;
    uint32_t head;
    const uint32_t *frames;
    unit_open(unit, &view);
    assert_true(vg_view_stack(&view, id, &head, &frames));
    assert_int_equal(vg_stack_native(head), 2);
    assert_int_equal(vg_stack_python(head), 1);
    assert_true(vg_stack_is_cut(head));
    const struct vg_frame *frame = vg_view_frame(&view, frames[0] - 1);
    assert_string_equal(vg_view_string(&view, vg_view_module(&view, frame->module - 1)->path),
                        "/lib/libx.so");
    assert_int_equal(vg_view_frame(&view, frames[1] - 1)->offset, 0x7fff00001000);
    frame = vg_view_frame(&view, frames[2] - 1);
    assert_int_equal(frame->lang, VG_LANG_PYTHON);
    assert_int_equal(frame->line, 88);
    assert_string_equal(vg_view_string(&view, frame->function), "forward");
    assert_false(vg_view_stack(&view, 0, &head, &frames));
    assert_false(vg_view_stack(&view, UINT32_MAX, &head, &frames));
    vg_view_close(&view);
}

static void test_equal_lists_have_one_id_and_others_do_not(void **state)
{
    struct unit *unit = *state;
    struct vg_stacks *stacks = &unit->ledger.stacks;
    uint32_t frames[4] = {1, 2, 3, 4};
    uint32_t id = vg_stacks_intern(stacks, frames, 2, 2, false);
    assert_int_not_equal(id, 0);
    assert_int_equal(vg_stacks_intern(stacks, frames, 2, 2, false), id);
    assert_int_not_equal(vg_stacks_intern(stacks, frames, 3, 1, false), id);
    assert_int_not_equal(vg_stacks_intern(stacks, frames, 2, 1, false), id);
    assert_int_not_equal(vg_stacks_intern(stacks, frames, 2, 2, true), id);
    assert_int_equal(vg_stacks_intern(stacks, frames, 0, 0, false), 0);
}

static void test_too_many_frames_are_cut(void **state)
{
    struct unit *unit = *state;
    uint32_t frames[600];
    for (uint32_t i = 0; i < 600; i++) {
        frames[i] = i + 1;
    }
    uint32_t id = vg_stacks_intern(&unit->ledger.stacks, frames, 200, 400, false);
    struct vg_view view;
    uint32_t head;
    const uint32_t *read;
    unit_open(unit, &view);
    assert_true(vg_view_stack(&view, id, &head, &read));
    assert_int_equal(vg_stack_native(head), 200);
    assert_int_equal(vg_stack_python(head), 56);
    assert_true(vg_stack_is_cut(head));
    assert_int_equal(read[200], 201);
    vg_view_close(&view);
}

static void test_many_stacks_are_all_found_again(void **state)
{
    struct unit *unit = *state;
    enum { N = 20000 };
    uint32_t *ids = calloc(N, sizeof *ids);
    for (int pass = 0; pass < 2; pass++) {
        uint64_t random = 1;
        for (int i = 0; i < N; i++) {
            uint32_t frames[24], n = 1 + (uint32_t)(unit_random(&random) % 24);
            for (uint32_t k = 0; k < n; k++) {
                frames[k] = (uint32_t)unit_random(&random) | 1;
            }
            uint32_t id = vg_stacks_intern(&unit->ledger.stacks, frames, n, 0, false);
            assert_int_not_equal(id, 0);
            assert_true(pass == 0 || id == ids[i]);
            ids[i] = id;
        }
    }
    free(ids);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_setup, unit_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_equal_frames_have_one_id),
        TEST(test_the_reader_gets_a_stack_back),
        TEST(test_equal_lists_have_one_id_and_others_do_not),
        TEST(test_too_many_frames_are_cut),
        TEST(test_many_stacks_are_all_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
