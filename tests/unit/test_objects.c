/* test_objects.c -- streams, events, contexts: how many, and where they were made.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/report_fixture.h"

static void test_objects_are_counted_by_their_sites(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t stacks[7];
    for (int i = 0; i < 7; i++)
        stacks[i] = PYTHON_STACK(&f, "/a.py", i, "/bin/x");
    for (uint64_t i = 1; i <= 30; i++)
        alloc_at(&f, i, VG_KIND_STREAM, 0, stacks[i % 7 ? i % 7 : 1]);
    for (uint64_t i = 1; i <= 4; i++)
        free_of(&f, VG_KIND_STREAM, i);
    alloc_at(&f, 5, VG_KIND_EVENT, 0, 0); /* the same number as a stream's */
    alloc_of(&f, VG_KIND_IPC, MIB(1), 0);
    const struct vg_report *report = report_at(&f, 0, true);
    const struct vg_objects *streams = &report->objects[VG_OBJECT_STREAMS];
    assert_int_equal(streams->created, 30);
    assert_int_equal(streams->destroyed, 4);
    assert_int_equal(streams->live, 26);
    assert_int_equal(streams->top_count, VG_OBJECT_PLACES_MAX);
    assert_int_equal(streams->top[0].live, 8); /* 1, 7, 8, 14, ... less the first */
    for (unsigned i = 1; i < streams->top_count; i++)
        assert_true(streams->top[i].live <= streams->top[i - 1].live);
    assert_int_equal(report->objects[VG_OBJECT_EVENTS].live, 1);
    assert_int_equal(report->objects[VG_OBJECT_IPC_OPEN].live, 1);
    assert_int_equal(report->objects[VG_OBJECT_POOLS].created, 0);
    assert_int_equal(report->site_count, 1); /* the IPC mapping: objects are no memory */
    fixture_close(&f);
}

static void test_contexts_are_remarkable_where_a_device_has_two(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    context_of(&f, 1, 2, true);
    const struct vg_report *report = report_at(&f, 0, true);
    assert_int_equal(report->objects[VG_OBJECT_CONTEXTS].live, 2);
    assert_false(vg_objects_are_remarkable(report, VG_OBJECT_CONTEXTS));
    context_of(&f, 1, 3, false);
    report = report_at(&f, 0, true);
    assert_int_equal(report->objects[VG_OBJECT_CONTEXTS].top[0].live, 3);
    assert_true(vg_objects_are_remarkable(report, VG_OBJECT_CONTEXTS));
    assert_false(vg_objects_are_remarkable(report, VG_OBJECT_STREAMS));
    fixture_close(&f);
}

static void test_a_thousand_events_are_remarkable(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    for (uint64_t i = 1; i <= 1000; i++)
        alloc_at(&f, i, VG_KIND_EVENT, 0, 0);
    assert_false(vg_objects_are_remarkable(report_at(&f, 0, true), VG_OBJECT_EVENTS));
    alloc_at(&f, 1001, VG_KIND_EVENT, 0, 0);
    assert_true(vg_objects_are_remarkable(report_at(&f, 0, true), VG_OBJECT_EVENTS));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_are_counted_by_their_sites),
        cmocka_unit_test(test_contexts_are_remarkable_where_a_device_has_two),
        cmocka_unit_test(test_a_thousand_events_are_remarkable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
