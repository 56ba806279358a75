/* test_sites.c -- which sites a report lists, in which order, and whose bytes they are.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/report_fixture.h"

static void test_sites_come_by_live_bytes_and_only_where_live(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t small = STACK(&f, "/usr/bin/prog"), large = STACK(&f, "/usr/bin/prog", "/lib/libx.so");
    uint32_t gone = STACK(&f, "/usr/bin/prog", "/lib/liby.so");
    alloc_of(&f, VG_KIND_DEVICE, MIB(1), small);
    alloc_of(&f, VG_KIND_DEVICE, MIB(8), large);
    free_of(&f, VG_KIND_DEVICE, alloc_of(&f, VG_KIND_DEVICE, MIB(64), gone));
    const struct vg_report *report = report_at(&f, 0, true);
    assert_int_equal(report->site_count, 2);
    assert_int_equal(report->sites[0].site->stack, large);
    assert_int_equal(report->sites[1].site->stack, small);
    assert_int_equal(report->sites[0].at_peak_bytes, MIB(8));
    assert_int_equal(report->devices[0].alloc_count, 3);
    assert_int_equal(report->devices[0].free_count, 1);
    fixture_close(&f);
}

static void test_sites_name_the_failing_one_even_without_live_bytes(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    alloc_of(&f, VG_KIND_DEVICE, MIB(1), STACK(&f, "/usr/bin/prog"));
    uint32_t site =
        fail_of(&f, VG_KIND_DEVICE, "cuMemAlloc_v2", GIB(1), STACK(&f, "/lib/libx.so"))->site;
    const struct vg_report *report = report_at(&f, 1, false);
    assert_int_equal(report->site_count, 2);
    assert_int_equal(report->sites[1].id, site);
    assert_int_equal(report->failure->site, site);
    fixture_close(&f);
}

static void test_sites_belong_to_the_innermost_library_that_is_not_plumbing(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t stack = STACK(&f, "/x/libvramguard.so", "/usr/lib/libcuda.so.1",
                           "/opt/libcudart.so.13", "/opt/libcublas.so.13", "/opt/libtorch_cuda.so");
    uint32_t ctypes =
        STACK(&f, "/usr/lib/libffi.so.8", "/usr/lib/_ctypes.cpython-311.so", "/usr/bin/python3.11");
    report_at(&f, 0, true);
    assert_string_equal(vg_report_library(&f.view, stack), "libcublas.so.13");
    assert_string_equal(vg_report_library(&f.view, ctypes), "python3.11");
    assert_string_equal(vg_report_library(&f.view, 0), "unknown");
    assert_string_equal(vg_report_library(&f.view, 999999), "unknown");
    fixture_close(&f);
}

static void test_libraries_sum_to_tracked_bytes_of_every_device(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    for (unsigned i = 0; i < 40; i++) {
        char path[40];
        snprintf(path, sizeof path, "/opt/lib%u.so", i % 7);
        alloc_of(&f, i % 3 ? VG_KIND_DEVICE : VG_KIND_PINNED, KIB(i + 1),
                 i % 5 ? STACK(&f, path) : 0);
    }
    sample_of(&f, GIB(24), GIB(20), VG_UNKNOWN);
    const struct vg_report_device *device = &report_at(&f, 0, true)->devices[0];
    assert_int_equal(device->library_count, 8); /* seven and "unknown" */
    assert_balance(device);
    for (unsigned i = 1; i < device->library_count; i++)
        assert_true(device->libraries[i - 1].bytes >= device->libraries[i].bytes);
    fixture_close(&f);
}

static void test_libraries_hold_only_what_occupies_the_device(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    alloc_of(&f, VG_KIND_MANAGED, MIB(64), STACK(&f, "/opt/libmanaged.so"));
    alloc_of(&f, VG_KIND_DEVICE, MIB(1), STACK(&f, "/opt/liba.so"));
    alloc_of(&f, VG_KIND_GRAPH, MIB(2), STACK(&f, "/opt/libb.so"));
    const struct vg_report_device *device = &report_at(&f, 0, true)->devices[0];
    assert_int_equal(device->library_count, 2);
    assert_string_equal(device->libraries[0].library, "libb.so");
    assert_int_equal(device->libraries[0].bytes, MIB(2));
    assert_int_equal(device->libraries[1].bytes, MIB(1));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sites_come_by_live_bytes_and_only_where_live),
        cmocka_unit_test(test_sites_name_the_failing_one_even_without_live_bytes),
        cmocka_unit_test(test_sites_belong_to_the_innermost_library_that_is_not_plumbing),
        cmocka_unit_test(test_libraries_sum_to_tracked_bytes_of_every_device),
        cmocka_unit_test(test_libraries_hold_only_what_occupies_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
