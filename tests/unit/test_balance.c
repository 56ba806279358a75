/* test_balance.c -- the terms of a device's balance sum to its total on the integers.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/report_fixture.h"

static const char *const PROG = "/usr/bin/prog";

static void test_balance_adds_up_with_nvml_figures(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    alloc_of(&f, VG_KIND_DEVICE, MIB(100) + 1, STACK(&f, PROG));
    alloc_of(&f, VG_KIND_ARRAY, KIB(3), STACK(&f, PROG));
    sample_of(&f, GIB(24), GIB(20), MIB(500));
    other_of(&f, 991, "Xorg", GIB(1), false);
    other_of(&f, 4242, "prog", MIB(500), true);
    other_of(&f, 5, "hidden", VG_UNKNOWN, false);
    const struct vg_report_device *device = &report_at(&f, 0, true)->devices[0];
    assert_int_equal(device->tracked_bytes, MIB(100) + 1 + KIB(3));
    assert_int_equal(device->overhead_bytes, MIB(500) - device->tracked_bytes);
    assert_int_equal(device->contexts[0].overhead_bytes, device->overhead_bytes);
    assert_int_equal(device->others_bytes, GIB(1));
    assert_int_equal(device->unattributed_bytes, GIB(24) - GIB(20) - GIB(1) - MIB(500));
    assert_string_equal(device->free_source, "cuMemGetInfo");
    assert_balance(device);
    fixture_close(&f);
}

static void test_balance_leaves_kinds_that_do_not_occupy_out_of_every_sum(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    alloc_of(&f, VG_KIND_MANAGED, GIB(30), STACK(&f, PROG));
    alloc_of(&f, VG_KIND_PINNED, GIB(3), STACK(&f, PROG));
    alloc_of(&f, VG_KIND_DEVICE, MIB(2), STACK(&f, PROG));
    sample_of(&f, GIB(24), GIB(23), VG_UNKNOWN);
    const struct vg_report *report = report_at(&f, 0, true);
    const struct vg_report_device *device = &report->devices[0];
    assert_int_equal(device->tracked_bytes, MIB(2));
    assert_int_equal(report->pinned_bytes, GIB(3));
    assert_true(device->kinds_used & 1u << VG_KIND_MANAGED);
    assert_balance(device);
    fixture_close(&f);
}

static void test_balance_takes_the_fall_of_free_where_nvml_is_silent(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    context_of(&f, 0, 2, false);
    struct vg_context *contexts = vg_record_at(&f.record, VG_SEC_CONTEXTS, 0);
    contexts[0].free_fall_bytes = MIB(300);
    contexts[1].free_fall_bytes = VG_UNKNOWN;
    sample_of(&f, GIB(24), GIB(23), VG_UNKNOWN);
    const struct vg_report_device *device = &report_at(&f, 0, true)->devices[0];
    assert_int_equal(device->overhead_bytes, MIB(300));
    assert_int_equal(device->contexts[1].overhead_bytes, VG_UNKNOWN);
    assert_int_equal(device->unattributed_bytes, GIB(1) - MIB(300));
    assert_balance(device);
    fixture_close(&f);
}

static void test_balance_does_not_call_nvml_figures_below_tracked_overhead(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    alloc_of(&f, VG_KIND_DEVICE, GIB(4), STACK(&f, PROG));
    sample_of(&f, GIB(24), GIB(21), MIB(1));
    const struct vg_report_device *device = &report_at(&f, 0, true)->devices[0];
    assert_int_equal(device->overhead_bytes, VG_UNKNOWN);
    assert_int_equal(device->unattributed_bytes, -(int64_t)GIB(1));
    assert_balance(device);
    fixture_close(&f);
}

static void test_balance_is_unknown_where_nobody_looked(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    alloc_of(&f, VG_KIND_DEVICE, GIB(4), STACK(&f, PROG));
    const struct vg_report_device *device = &report_at(&f, 0, true)->devices[0];
    assert_int_equal(device->total_bytes, VG_UNKNOWN);
    assert_int_equal(device->free_bytes, VG_UNKNOWN);
    assert_null(device->free_source);
    assert_false(device->has_unattributed);
    assert_int_equal(device->tracked_bytes, GIB(4));
    fixture_close(&f);
}

static void test_balance_says_how_old_the_look_is(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    sample_of(&f, GIB(24), GIB(23), MIB(300));
    alloc_of(&f, VG_KIND_DEVICE, GIB(2), STACK(&f, PROG));
    f.record.header->last_event_ns = f.now_ns += 5000000000;
    const struct vg_report *report = report_at(&f, 0, true);
    assert_int_equal(report->devices[0].overhead_bytes, MIB(300)); /* of the moment of the look */
    assert_true(report->devices[0].free_age_seconds > 4);
    assert_int_equal(report->note_count, 1);
    assert_non_null(strstr(report->notes[0], "rose by 2.0 GiB"));
    assert_balance(&report->devices[0]);
    fixture_close(&f);
}

static void test_balance_counts_idle_pools_and_lists_live_contexts_only(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    context_of(&f, 0, 2, false);
    struct vg_event end = {.op = VG_OP_CTX_DESTROY, .context_id = 2, .device = 0};
    assert_int_equal(vg_ledger_apply(&f.ledger, &end), VG_OK);
    sample_of(&f, GIB(24), GIB(20), GIB(3))->pool_idle_bytes = GIB(1);
    const struct vg_report *report = report_at(&f, 0, true);
    const struct vg_report_device *device = &report->devices[0];
    assert_int_equal(device->context_count, 1);
    assert_int_equal(device->overhead_bytes, GIB(2));
    assert_int_equal(device->pool_idle_bytes, GIB(1));
    assert_int_equal(report->objects[VG_OBJECT_CONTEXTS].created, 2);
    assert_int_equal(report->objects[VG_OBJECT_CONTEXTS].live, 1);
    assert_balance(device);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_balance_adds_up_with_nvml_figures),
        cmocka_unit_test(test_balance_leaves_kinds_that_do_not_occupy_out_of_every_sum),
        cmocka_unit_test(test_balance_takes_the_fall_of_free_where_nvml_is_silent),
        cmocka_unit_test(test_balance_does_not_call_nvml_figures_below_tracked_overhead),
        cmocka_unit_test(test_balance_is_unknown_where_nobody_looked),
        cmocka_unit_test(test_balance_says_how_old_the_look_is),
        cmocka_unit_test(test_balance_counts_idle_pools_and_lists_live_contexts_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
