/* test_framework.c -- segments, blocks and the gaps between them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/report_fixture.h"

#define ALLOCATOR "/opt/torch/lib/libc10_cuda.so", "/opt/torch/lib/libtorch_cuda.so"

struct segments {
    struct fixture f;
    uint32_t allocator, python;
    uint64_t segment;
};

static void segments_open(struct segments *s)
{
    fixture_open(&s->f);
    context_of(&s->f, 0, 1, true);
    s->allocator = STACK(&s->f, ALLOCATOR);
    s->python = PYTHON_STACK(&s->f, "/home/u/train.py", 88, ALLOCATOR);
    s->segment = alloc_of(&s->f, VG_KIND_DEVICE, MIB(20), s->allocator);
    /* | 2 live | 3 gap | 1 live | 14 gap | */
    alloc_at(&s->f, s->segment, VG_KIND_BLOCK, MIB(2), s->python);
    alloc_at(&s->f, s->segment + MIB(5), VG_KIND_BLOCK, MIB(1), s->python);
}

static void test_framework_is_segments_less_blocks(void **state)
{
    (void)state;
    struct segments s;
    segments_open(&s);
    alloc_of(&s.f, VG_KIND_DEVICE, MIB(2), s.allocator); /* an empty segment: all of it a gap */
    alloc_of(&s.f, VG_KIND_DEVICE, MIB(7),
             STACK(&s.f, "/opt/libnccl.so.2")); /* not the framework's */
    const struct vg_report_device *device = &report_at(&s.f, 0, true)->devices[0];
    const struct vg_framework *framework = &device->framework;
    assert_true(device->has_framework);
    assert_string_equal(framework->name, "torch");
    assert_int_equal(framework->reserved_bytes, MIB(22));
    assert_int_equal(framework->allocated_bytes, MIB(3));
    assert_int_equal(framework->cached_bytes, MIB(19));
    assert_int_equal(framework->largest_gap_bytes, MIB(14));
    assert_int_equal(framework->small_gaps_bytes, VG_UNKNOWN);
    assert_int_equal(framework->segments, 2);
    assert_int_equal(framework->live_blocks, 2);
    assert_true(framework->fragmentation > 1 - 14.0 / 19 - 1e-9 &&
                framework->fragmentation < 1 - 14.0 / 19 + 1e-9);
    assert_int_equal(device->tracked_bytes,
                     MIB(29)); /* blocks are inside driver bytes, never added */
    fixture_close(&s.f);
}

static void test_framework_counts_gaps_below_the_failed_request(void **state)
{
    (void)state;
    struct segments s;
    segments_open(&s);
    fail_of(&s.f, VG_KIND_DEVICE, "cuMemAlloc_v2", MIB(20), s.allocator)->requested_bytes = MIB(14);
    const struct vg_framework *framework = &report_at(&s.f, 1, false)->devices[0].framework;
    assert_int_equal(framework->small_gaps_bytes, MIB(3)); /* 14 fits: it is not too small */
    fixture_close(&s.f);
}

static void test_framework_knows_a_segment_by_its_block_too(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t python = PYTHON_STACK(&f, "/home/u/train.py", 1, "/usr/bin/python3.11");
    uint64_t first = alloc_of(&f, VG_KIND_DEVICE, MIB(2), python);
    uint64_t with_block = alloc_of(&f, VG_KIND_DEVICE, MIB(4), python);
    uint64_t last = alloc_of(&f, VG_KIND_DEVICE, MIB(2), python);
    assert_true(first < with_block && with_block < last);
    alloc_at(&f, with_block + MIB(4) - 512, VG_KIND_BLOCK, 512, python);
    const struct vg_framework *framework = &report_at(&f, 0, true)->devices[0].framework;
    assert_int_equal(framework->segments, 1);
    assert_int_equal(framework->reserved_bytes, MIB(4));
    assert_int_equal(framework->cached_bytes, MIB(4) - 512);
    assert_int_equal(framework->fragmentation * 1000, 0); /* one gap */
    fixture_close(&f);
}

static void test_framework_is_absent_without_its_library_and_blocks(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    alloc_of(&f, VG_KIND_DEVICE, MIB(2), STACK(&f, "/opt/libcublas.so.13"));
    alloc_of(&f, VG_KIND_PINNED, MIB(2), STACK(&f, ALLOCATOR)); /* host memory is no segment */
    assert_false(report_at(&f, 0, true)->devices[0].has_framework);
    fixture_close(&f);
}

/* Live tensors that nobody told us of are no cache. */
static void test_framework_is_absent_where_no_block_was_ever_told(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    f.record.header->reached = VG_REACHED_DRIVER;
    context_of(&f, 0, 1, true);
    alloc_of(&f, VG_KIND_DEVICE, MIB(20), STACK(&f, ALLOCATOR));
    const struct vg_report *report = report_at(&f, 0, true);
    assert_false(report->devices[0].has_framework);
    assert_int_equal(report->devices[0].libraries[0].framework_bytes, 0);
    assert_false(report->sites[0].segment);
    fixture_close(&f);
}

static void test_framework_hides_segment_sites_behind_their_blocks(void **state)
{
    (void)state;
    struct segments s;
    segments_open(&s);
    const struct vg_report *report = report_at(&s.f, 0, true);
    assert_int_equal(report->site_count, 2);
    assert_true(report->sites[0].segment);
    assert_false(report->sites[1].segment);
    assert_int_equal(report->devices[0].libraries[0].framework_bytes, MIB(20));
    fixture_close(&s.f);
}

static void map_of(struct fixture *f, uint64_t addr, uint64_t bytes, uint64_t handle,
                   uint32_t stack)
{
    struct vg_event event = {.op = VG_OP_MAP,
                             .addr = addr,
                             .bytes = bytes,
                             .handle = handle,
                             .stack = stack,
                             .device = -1};
    assert_int_equal(vg_ledger_apply(&f->ledger, &event), VG_OK);
}

/* Handles have numbers, not addresses; what is mapped without a hole is one segment, and a block
 * may lie across its parts. */
static void test_framework_sees_expandable_segments_where_they_are_mapped(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t allocator = STACK(&f, ALLOCATOR), python = PYTHON_STACK(&f, "/a.py", 1, ALLOCATOR);
    uint64_t base = UINT64_C(0x7e0000000000);
    for (uint64_t i = 0; i < 4; i++) {
        alloc_at(&f, 0x1000 + i, VG_KIND_VMM, MIB(2), allocator);
        if (i < 3) /* the fourth is held and not mapped */
            map_of(&f, base + i * MIB(2), MIB(2), 0x1000 + i, allocator);
    }
    alloc_at(&f, base + MIB(1), VG_KIND_BLOCK, MIB(3), python); /* | 1 gap | 3 live | 2 gap | */
    alloc_at(&f, 0x2000, VG_KIND_VMM, MIB(2), STACK(&f, "/opt/libnccl.so.2"));
    map_of(&f, base + MIB(64), MIB(2), 0x2000, STACK(&f, "/opt/libnccl.so.2"));
    const struct vg_report *report = report_at(&f, 0, true);
    const struct vg_report_device *device = &report->devices[0];
    const struct vg_framework *framework = &device->framework;
    assert_int_equal(framework->segments, 1);
    assert_int_equal(framework->reserved_bytes, MIB(6));
    assert_int_equal(framework->allocated_bytes, MIB(3));
    assert_int_equal(framework->cached_bytes, MIB(3));
    assert_int_equal(framework->largest_gap_bytes, MIB(2));
    assert_int_equal(device->tracked_bytes, MIB(10));
    for (unsigned i = 0; i < device->library_count; i++) {
        bool torch = strcmp(device->libraries[i].library, "libc10_cuda.so") == 0;
        assert_int_equal(device->libraries[i].framework_bytes, torch ? MIB(6) : 0);
    }
    for (unsigned i = 0; i < report->site_count; i++)
        assert_int_not_equal(report->sites[i].site->kind, VG_KIND_MAPPING);
    fixture_close(&f);
}

static void test_framework_does_not_own_what_it_imported(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t allocator = STACK(&f, ALLOCATOR);
    alloc_at(&f, 0x1000, VG_KIND_IMPORTED, 0, allocator);
    map_of(&f, UINT64_C(0x7e0000000000), MIB(2), 0x1000, allocator);
    assert_int_equal(report_at(&f, 0, true)->devices[0].framework.reserved_bytes, 0);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_framework_is_segments_less_blocks),
        cmocka_unit_test(test_framework_counts_gaps_below_the_failed_request),
        cmocka_unit_test(test_framework_knows_a_segment_by_its_block_too),
        cmocka_unit_test(test_framework_is_absent_without_its_library_and_blocks),
        cmocka_unit_test(test_framework_is_absent_where_no_block_was_ever_told),
        cmocka_unit_test(test_framework_hides_segment_sites_behind_their_blocks),
        cmocka_unit_test(test_framework_sees_expandable_segments_where_they_are_mapped),
        cmocka_unit_test(test_framework_does_not_own_what_it_imported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
