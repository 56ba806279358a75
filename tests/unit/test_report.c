/* test_report.c -- which report a record gives, at which moment, and its store.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <time.h>

#include "tests/unit/report_fixture.h"

static void test_report_of_a_live_process_is_a_snapshot_and_of_a_dead_one_an_exit(void **state)
{
    (void)state;
    for (unsigned alive = 0; alive < 2; alive++) {
        struct fixture f;
        fixture_open(&f);
        context_of(&f, 0, 1, true);
        const struct vg_report *report = report_at(&f, 0, alive);
        assert_int_equal(report->kind, alive ? VG_INCIDENT_SNAPSHOT : VG_INCIDENT_EXIT);
        assert_null(report->failure);
        assert_int_equal(report->verdict.verdict, VG_VERDICT_UNKNOWN);
        assert_int_equal(report->verdict.advice_count, 0);
        assert_non_null(report->verdict.summary);
        fixture_close(&f);
    }
}

static void test_report_of_an_incident_is_of_its_moment(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    struct vg_incident *incident =
        fail_of(&f, VG_KIND_DEVICE, "cuMemAlloc_v2", GIB(1), STACK(&f, "/usr/bin/prog"));
    uint64_t then = incident->time_ns;
    incident->requested_bytes = MIB(900);
    const struct vg_report *report = report_at(&f, 1, false);
    assert_int_equal(report->kind, VG_INCIDENT_OOM);
    assert_int_equal(report->time_ns, then);
    assert_int_equal(report->request_bytes, MIB(900));
    assert_string_equal(report->failure_library, "prog");
    assert_string_equal(report->failure_name, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_ptr_equal(report->failure_device, &report->devices[0]);
    fixture_close(&f);
}

static void test_report_refuses_an_incident_that_is_not_there(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    report_at(&f, 0, true);
    struct vg_report report;
    assert_int_equal(vg_report_build(&f.view, &(struct vg_report_request){.incident = 1}, &report),
                     VG_INVALID);
    fixture_close(&f);
}

static void test_report_of_an_empty_record_has_nothing_and_says_so(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    const struct vg_report *report = report_at(&f, 0, false);
    assert_int_equal(report->device_count, 0);
    assert_int_equal(report->site_count, 0);
    assert_string_equal(report->verdict.summary, "no device memory was seen");
    fixture_close(&f);
}

static bool is_noted(const struct vg_report *report, const char *line)
{
    bool found = false;
    for (unsigned i = 0; i < report->note_count; i++)
        found |= strcmp(report->notes[i], line) == 0;
    return found;
}

static void test_report_says_what_is_not_listed(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    alloc_of(&f, VG_KIND_DEVICE, MIB(1), 0);
    f.record.header->saturated = VG_SAT_SLOTS;
    assert_int_equal(report_at(&f, 0, false)->note_count, 0); /* what was not is gone again */
    f.record.header->unlisted_count = 2;
    f.record.header->unlisted_bytes = MIB(3);
    f.record.header->dropped_count = 4;
    const struct vg_report *report = report_at(&f, 0, false);
    assert_true(is_noted(report, "the record is full: 2 live allocations of 3.0 MiB are in every "
                                 "sum, but not listed one by one"));
    assert_true(is_noted(report, "4 events are not counted: the guard was busy, or there was no "
                                 "memory for it"));
    f.record.header->saturated |= VG_SAT_SITES;
    assert_true(is_noted(report_at(&f, 0, false),
                         "the record is full: some sites, stacks or names are missing"));
    fixture_close(&f);
}

static void test_bytes_read_well(void **state)
{
    (void)state;
    char text[VG_BYTES_TEXT_MAX];
    assert_string_equal(vg_bytes_text(text, 0), "0 B");
    assert_string_equal(vg_bytes_text(text, 1023), "1023 B");
    assert_string_equal(vg_bytes_text(text, 1024), "1.0 KiB");
    assert_string_equal(vg_bytes_text(text, MIB(512)), "512.0 MiB");
    assert_string_equal(vg_bytes_text(text, GIB(1) - 1), "1.0 GiB");
    assert_string_equal(vg_bytes_text(text, UINT64_MAX), "16.0 EiB");
}

static void test_report_of_many_live_allocations_is_fast(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t stacks[64];
    for (unsigned i = 0; i < 64; i++) {
        char path[32];
        snprintf(path, sizeof path, "/opt/lib%u.so", i);
        stacks[i] = i % 2 ? STACK(&f, path) : STACK(&f, path, "/opt/libc10_cuda.so");
    }
    for (unsigned i = 0; i < 100000; i++)
        alloc_of(&f, VG_KIND_DEVICE, 512 + i, stacks[i % 64]);
    struct timespec start, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    const struct vg_report *report = report_at(&f, 0, true);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double spent =
        (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    print_message("100,000 live allocations: view and analyses in %.3f s\n", spent);
    assert_int_equal(report->site_count, 64);
    assert_int_equal(report->devices[0].framework.segments, 50000);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_of_a_live_process_is_a_snapshot_and_of_a_dead_one_an_exit),
        cmocka_unit_test(test_report_of_an_incident_is_of_its_moment),
        cmocka_unit_test(test_report_refuses_an_incident_that_is_not_there),
        cmocka_unit_test(test_report_of_an_empty_record_has_nothing_and_says_so),
        cmocka_unit_test(test_report_says_what_is_not_listed),
        cmocka_unit_test(test_bytes_read_well),
        cmocka_unit_test(test_report_of_many_live_allocations_is_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
