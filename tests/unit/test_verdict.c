/* test_verdict.c -- each rule of a verdict, and its nearest neighbours.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The figures at which it must not hold.
 */
#include "tests/unit/report_fixture.h"

/* A device of 24 GiB with 1 GiB free, of which this process holds 3 GiB; the driver refused 2
 * GiB. */
static struct vg_incident incident;
static struct vg_report empty;
static struct vg_report_device device;

static struct vg_facts full_device(void)
{
    incident = (struct vg_incident){.api = 1, .error = 2};
    return (struct vg_facts){.report = &empty,
                             .incident = &incident,
                             .device = &device,
                             .asked_bytes = GIB(2),
                             .total_bytes = GIB(24),
                             .free_bytes = GIB(1),
                             .own_bytes = GIB(3),
                             .others_bytes = 0,
                             .short_bytes = GIB(1),
                             .available_bytes = GIB(32),
                             .kind = VG_KIND_DEVICE,
                             .out_of_memory = true,
                             .called = true};
}

static void assert_class(const struct vg_facts *facts, enum vg_verdict_class wanted)
{
    double confidence = -1;
    assert_string_equal(vg_verdict_key(vg_verdict_class_of(facts, &confidence)),
                        vg_verdict_key(wanted));
    assert_true(wanted == VG_VERDICT_UNKNOWN ? confidence == 0 : confidence > 0 && confidence <= 1);
}

static void test_verdict_is_unknown_for_a_full_device(void **state)
{
    (void)state;
    struct vg_facts facts = full_device();
    assert_class(&facts, VG_VERDICT_UNKNOWN);
}

static void test_verdict_blames_others_only_where_they_are_the_reason(void **state)
{
    (void)state;
    struct vg_facts facts = full_device();
    facts.others_bytes = GIB(20);
    assert_class(&facts, VG_VERDICT_OTHER_PROCESS);
    facts.own_bytes = GIB(20); /* they hold no more than this process */
    assert_class(&facts, VG_VERDICT_UNKNOWN);
    facts = full_device();
    facts.own_bytes = MIB(100);
    facts.others_bytes = MIB(1023); /* the request would not have fitted without them either */
    assert_class(&facts, VG_VERDICT_UNKNOWN);
    facts.others_bytes = GIB(1);
    assert_class(&facts, VG_VERDICT_OTHER_PROCESS);
    facts.short_bytes = VG_UNKNOWN; /* free is not known */
    facts.free_bytes = VG_UNKNOWN;
    assert_class(&facts, VG_VERDICT_UNKNOWN);
}

static void assert_absurd_with(const struct vg_facts *facts, double wanted)
{
    double confidence;
    assert_int_equal(vg_verdict_class_of(facts, &confidence), VG_VERDICT_ABSURD_REQUEST);
    assert_true(confidence == wanted);
}

static void test_verdict_calls_requests_above_the_device_absurd(void **state)
{
    (void)state;
    struct vg_facts facts = full_device();
    facts.asked_bytes = GIB(24) + 1;
    assert_class(&facts, VG_VERDICT_ABSURD_REQUEST);
    assert_absurd_with(&facts, 0.7); /* may be meant */
    facts.asked_bytes = GIB(240);
    assert_absurd_with(&facts, 0.7);
    facts.asked_bytes = GIB(240) + 10;
    assert_absurd_with(&facts, 0.99);
    facts.asked_bytes = GIB(24);
    assert_class(&facts, VG_VERDICT_UNKNOWN);
    facts.asked_bytes = (uint64_t)-512;
    facts.total_bytes = VG_UNKNOWN;
    assert_class(&facts, VG_VERDICT_ABSURD_REQUEST);
    facts.asked_bytes = GIB(100); /* more than what, is not known */
    assert_class(&facts, VG_VERDICT_UNKNOWN);
    facts.asked_bytes = VG_UNKNOWN;
    facts.total_bytes = GIB(24);
    assert_class(&facts, VG_VERDICT_UNKNOWN);
}

static void test_verdict_tells_host_memory_from_the_device(void **state)
{
    (void)state;
    struct vg_facts facts = full_device();
    facts.host = true;
    facts.kind = VG_KIND_PINNED;
    assert_class(&facts, VG_VERDICT_HOST_MEMORY);
    facts.asked_bytes = GIB(100); /* more than the device has, but it is not the device's */
    assert_class(&facts, VG_VERDICT_HOST_MEMORY);
    facts.free_bytes = GIB(24); /* an empty device says nothing about the host */
    assert_class(&facts, VG_VERDICT_HOST_MEMORY);
    facts.asked_bytes = UINT64_MAX - 1;
    assert_class(&facts, VG_VERDICT_ABSURD_REQUEST);
    facts.asked_bytes = GIB(1);
    facts.platform = VG_PLATFORM_WSL; /* WSL's own limit, while the host has room */
    assert_class(&facts, VG_VERDICT_NOT_MEMORY);
    facts.asked_bytes = GIB(33);
    assert_class(&facts, VG_VERDICT_HOST_MEMORY);
}

static void test_verdict_says_not_memory_for_other_errors_and_empty_devices(void **state)
{
    (void)state;
    struct vg_facts facts = full_device();
    facts.out_of_memory = false;
    assert_class(&facts, VG_VERDICT_NOT_MEMORY);
    facts = full_device();
    facts.free_bytes = GIB(24) - GIB(24) / 10;
    facts.short_bytes = VG_UNKNOWN;
    assert_class(&facts, VG_VERDICT_NOT_MEMORY);
    facts.asked_bytes = VG_UNKNOWN; /* it may have been more than that */
    assert_class(&facts, VG_VERDICT_UNKNOWN);
    facts.asked_bytes = GIB(2);
    facts.free_bytes -= 1;
    assert_class(&facts, VG_VERDICT_UNKNOWN);
    facts.free_bytes = GIB(23);
    facts.asked_bytes = GIB(23) + 1; /* does not fit: it is memory */
    assert_class(&facts, VG_VERDICT_UNKNOWN);
    facts.asked_bytes = GIB(2);
    facts.called = false; /* a framework's own limit, the driver was not asked */
    assert_class(&facts, VG_VERDICT_UNKNOWN);
    facts.called = true;
    facts.free_bytes = GIB(3);
    facts.platform = VG_PLATFORM_TEGRA;
    assert_class(&facts, VG_VERDICT_NOT_MEMORY);
    facts.asked_bytes = GIB(4);
    assert_class(&facts, VG_VERDICT_UNKNOWN);
}

static void test_verdict_of_a_record_has_numbers_and_advice(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t stack = STACK(&f, "/usr/bin/prog");
    alloc_of(&f, VG_KIND_DEVICE, GIB(20), stack);
    sample_of(&f, GIB(24), GIB(2), GIB(20) + MIB(300));
    fail_of(&f, VG_KIND_DEVICE, "cuMemAlloc_v2", GIB(3), stack);
    const struct vg_report *report = report_at(&f, 1, false);
    assert_int_equal(report->verdict.verdict, VG_VERDICT_UNKNOWN);
    assert_string_equal(report->verdict.summary,
                        "no single cause, this process itself filled the device: it tracks "
                        "20.0 GiB of 24.0 GiB; "
                        "the request of 3.0 GiB exceeds free 2.0 GiB by 1.0 GiB");
    assert_int_equal(report->verdict.evidence[0].bytes, GIB(1));
    assert_string_equal(report->verdict.advice[0].action, "shrink-largest");
    assert_int_equal(report->verdict.advice[0].gain_bytes, GIB(20));
    assert_int_equal(report->verdict.advice[0].site, report->sites[0].id);
    assert_string_equal(report->verdict.advice[1].action, "ask-for-less");
    assert_int_equal(report->verdict.advice[1].gain_bytes, GIB(1));
    assert_int_equal(report->verdict.advice_count, 2);
    fixture_close(&f);
}

/* One failing record per class; returns the actions of its advice, comma separated. */
static void assert_advice(const char *api, uint8_t kind, uint64_t bytes, int error, uint64_t others,
                          enum vg_verdict_class wanted, const char *actions)
{
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t stack = STACK(&f, "/usr/bin/prog");
    alloc_of(&f, VG_KIND_PINNED, MIB(64), stack);
    sample_of(&f, GIB(24), GIB(24) - others - MIB(300), MIB(300));
    if (others)
        other_of(&f, 77, "other", others, false);
    fail_of(&f, kind, api, bytes, stack)->error = error;
    const struct vg_report *report = report_at(&f, 1, false);
    assert_string_equal(vg_verdict_key(report->verdict.verdict), vg_verdict_key(wanted));
    char list[200] = "";
    for (unsigned i = 0; i < report->verdict.advice_count; i++) {
        strcat(list, i ? "," : "");
        strcat(list, report->verdict.advice[i].action);
    }
    assert_string_equal(list, actions);
    assert_true(strlen(report->verdict.summary) > 20);
    fixture_close(&f);
}

static void test_advice_follows_the_class(void **state)
{
    (void)state;
    assert_advice("cuMemAlloc_v2", VG_KIND_DEVICE, GIB(2), 2, GIB(22), VG_VERDICT_OTHER_PROCESS,
                  "end-other-process,choose-device");
    assert_advice("cuMemAlloc_v2", VG_KIND_DEVICE, (uint64_t)-4096, 2, 0, VG_VERDICT_ABSURD_REQUEST,
                  "check-size");
    assert_advice("cuMemAlloc_v2", VG_KIND_DEVICE, GIB(25), 2, 0, VG_VERDICT_ABSURD_REQUEST,
                  "check-size,ask-for-less");
    assert_advice("cuMemHostAlloc", VG_KIND_PINNED, GIB(2), 2, 0, VG_VERDICT_HOST_MEMORY,
                  "pin-less,raise-host-limit");
    assert_advice("cuMemAllocManaged", VG_KIND_MANAGED, GIB(40), 2, 0, VG_VERDICT_HOST_MEMORY,
                  "pin-less,raise-host-limit");
    assert_advice("cuMemHostRegister_v2", VG_KIND_REGISTERED, GIB(2), 712, 0, VG_VERDICT_NOT_MEMORY,
                  "check-call");
    assert_advice("cuMemAlloc_v2", VG_KIND_DEVICE, MIB(2), 2, 0, VG_VERDICT_NOT_MEMORY,
                  "count-objects");
}

static void test_verdict_advises_on_small_gaps_only_where_they_would_do(void **state)
{
    (void)state;
    for (unsigned enough = 0; enough < 2; enough++) {
        struct fixture f;
        fixture_open(&f);
        context_of(&f, 0, 1, true);
        uint32_t allocator = STACK(&f, "/opt/libc10_cuda.so");
        for (unsigned i = 0; i < 4; i++)
            alloc_at(&f, alloc_of(&f, VG_KIND_DEVICE, MIB(200), allocator), VG_KIND_BLOCK, MIB(100),
                     allocator);
        sample_of(&f, GIB(24), MIB(100), VG_UNKNOWN);
        fail_of(&f, VG_KIND_DEVICE, "cuMemAlloc_v2", enough ? MIB(500) : MIB(501), allocator);
        const struct vg_report *report = report_at(&f, 1, false);
        bool advised = false;
        for (unsigned i = 0; i < report->verdict.advice_count; i++)
            advised |= strcmp(report->verdict.advice[i].action, "expandable-segments") == 0;
        assert_int_equal(advised, enough);
        fixture_close(&f);
    }
}

static void test_verdict_does_not_call_an_empty_device_full(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t stack = STACK(&f, "/usr/bin/prog");
    alloc_of(&f, VG_KIND_DEVICE, MIB(63), stack);
    sample_of(&f, GIB(24), GIB(23), MIB(363));
    fail_of(&f, VG_KIND_DEVICE, "cuMemAlloc_v2", GIB(23) + MIB(64), stack);
    const struct vg_report *report = report_at(&f, 1, false);
    assert_string_equal(
        report->verdict.summary,
        "this process tracks 63.0 MiB of 24.0 GiB; the request of 23.1 GiB exceeds free "
        "23.0 GiB by 64.0 MiB");
    assert_int_equal(report->verdict.advice_count, 1); /* the largest site is too small to help */
    assert_string_equal(report->verdict.advice[0].action, "ask-for-less");
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdict_is_unknown_for_a_full_device),
        cmocka_unit_test(test_verdict_blames_others_only_where_they_are_the_reason),
        cmocka_unit_test(test_verdict_calls_requests_above_the_device_absurd),
        cmocka_unit_test(test_verdict_tells_host_memory_from_the_device),
        cmocka_unit_test(test_verdict_says_not_memory_for_other_errors_and_empty_devices),
        cmocka_unit_test(test_verdict_of_a_record_has_numbers_and_advice),
        cmocka_unit_test(test_verdict_does_not_call_an_empty_device_full),
        cmocka_unit_test(test_advice_follows_the_class),
        cmocka_unit_test(test_verdict_advises_on_small_gaps_only_where_they_would_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
