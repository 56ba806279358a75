/* test_view.c -- reading records: whole, living, half written, damaged.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

static int begin(void **state)
{
    unit_setup(state);
    struct unit *unit = *state;
    for (uint64_t i = 1; i <= 50; i++) {
        unit_alloc(unit, i % 3 ? VG_KIND_DEVICE : VG_KIND_PINNED, i * 4096, i,
                   unit_stack(unit, i % 7));
    }
    return 0;
}

static struct vg_section *section_of(struct unit *unit, enum vg_section_id id)
{
    return &unit->record.header->section[id];
}

static void expect_refused(struct unit *unit, const char *line)
{
    struct vg_view view;
    unit->why[0] = '\0';
    assert_int_equal(vg_view_open(&view, unit->path, unit->why, sizeof unit->why), VG_DAMAGED);
    assert_string_equal(unit->why, line);
    assert_null(view.base);
}

static void test_a_closed_record_is_read(void **state)
{
    struct unit *unit = *state;
    struct vg_view view;
    vg_record_close(&unit->record);
    unit_open(unit, &view);
    unit_check_view(unit, &view);
    assert_false(view.recomputed);
    assert_int_equal(vg_view_count(&view, VG_SEC_SLOTS), 50);
    assert_int_equal(vg_view_slot(&view, 49)->addr, 50 * 4096);
    assert_null(vg_view_slot(&view, 50));
    assert_int_equal(vg_view_device(&view, 0)->alloc_count, 50);
    assert_int_equal(vg_view_context(&view, 0)->live_count, 50);
    vg_view_close(&view);
}

static void test_what_is_no_record_is_said_in_one_line(void **state)
{
    struct unit *unit = *state;
    unit->record.header->magic[0] = 'X';
    expect_refused(unit, "not a VRAMGuard record");
    unit->record.header->magic[0] = 'V';
    unit->record.header->version = 3;
    expect_refused(unit, "record of version 3, this tool reads version 1");
    unit->record.header->version = VG_VERSION;
    unit->record.header->header_bytes = 100;
    char line[100];
    snprintf(line, sizeof line, "damaged: a header of 100 bytes, expected %zu",
             sizeof(struct vg_header));
    expect_refused(unit, line);
}

static void test_a_truncated_file_is_said_to_be_one(void **state)
{
    struct unit *unit = *state;
    char line[100];
    unsigned long long used = unit->record.header->file_bytes;
    vg_record_close(&unit->record);
    assert_int_equal(truncate(unit->path, (off_t)used - 1), 0);
    snprintf(line, sizeof line, "truncated: %llu of %llu bytes", used - 1, used);
    expect_refused(unit, line);
    assert_int_equal(truncate(unit->path, 1000), 0);
    snprintf(line, sizeof line, "truncated: 1000 bytes, the header alone has %zu",
             (sizeof(struct vg_header) + VG_PAGE - 1) / VG_PAGE * VG_PAGE);
    expect_refused(unit, line);
    assert_int_equal(truncate(unit->path, 4), 0);
    expect_refused(unit, "not a VRAMGuard record");
    assert_int_equal(truncate(unit->path, 0), 0);
    expect_refused(unit, "not a VRAMGuard record");
}

static void test_what_is_no_file_is_refused(void **state)
{
    struct unit *unit = *state;
    struct vg_view view;
    assert_int_equal(vg_view_open(&view, unit->dir, unit->why, sizeof unit->why), VG_DAMAGED);
    assert_string_equal(unit->why, "not a VRAMGuard record (not a regular file)");
    assert_int_equal(vg_view_open(&view, "/nonexistent/x", unit->why, sizeof unit->why), VG_IO);
    assert_string_equal(unit->why, "cannot be opened: No such file or directory");
    vg_view_close(&view);
}

static void test_damaged_tables_are_refused(void **state)
{
    struct unit *unit = *state;
    struct vg_section *slots = section_of(unit, VG_SEC_SLOTS);
    uint32_t page = slots->page[0];
    slots->page[0] = 0;
    expect_refused(unit, "damaged: chunk 0 of section slots is outside the file");
    slots->page[0] = UINT32_MAX;
    expect_refused(unit, "damaged: chunk 0 of section slots is outside the file");
    slots->page[0] = page;
    slots->count = 1u << 20;
    expect_refused(unit, "damaged: section slots counts 1048576 elements, has room for 1024");
    slots->count = 50;
    slots->base_count = 1000;
    expect_refused(unit, "damaged: table of section slots");
    slots->base_count = 1024;
    slots->elem_bytes = 48;
    expect_refused(unit, "damaged: table of section slots");
    slots->elem_bytes = sizeof(struct vg_slot);
    slots->chunk_count = 100;
    for (int k = 1; k < 100; k++) { /* a walk without end in a small file */
        slots->page[k] = section_of(unit, VG_SEC_FRAMES)->page[0];
    }
    expect_refused(unit, "damaged: chunk 1 of section slots lies over another");
}

/* What the repair writes to a site must not change a slot that was found sound. */
static void test_chunks_that_lie_over_each_other_are_refused(void **state)
{
    struct unit *unit = *state;
    struct vg_section *slots = section_of(unit, VG_SEC_SLOTS);
    struct vg_section *sites = section_of(unit, VG_SEC_SITES);
    uint32_t page = slots->page[0];
    vg_record_begin(&unit->record, vg_intent(1, VG_OP_FREE));
    slots->page[0] = sites->page[0];
    expect_refused(unit, "damaged: chunk 0 of section slots lies over another");
    slots->page[0] = sites->page[0] + 1; /* in part */
    expect_refused(unit, "damaged: chunk 0 of section slots lies over another");
    slots->page[0] = (uint32_t)((sizeof(struct vg_header) - 1) / VG_PAGE);
    expect_refused(unit, "damaged: chunk 0 of section slots is outside the file");
    slots->page[0] = page;
    vg_record_end(&unit->record);
    sites->chunk_count = 2;
    sites->page[1] = sites->page[0];
    expect_refused(unit, "damaged: chunk 1 of section sites lies over another");
}

static void test_damaged_elements_are_refused(void **state)
{
    struct unit *unit = *state;
    struct vg_slot *slot = vg_record_at(&unit->record, VG_SEC_SLOTS, 7);
    struct vg_slot kept = *slot;
    slot->site = 1000;
    expect_refused(unit, "damaged: element 7 of section slots");
    *slot = kept;
    slot->kind = 200;
    expect_refused(unit, "damaged: element 7 of section slots");
    *slot = kept;
    slot->context = 9;
    expect_refused(unit, "damaged: element 7 of section slots");
    *slot = kept;
    struct vg_device *device = vg_record_at(&unit->record, VG_SEC_DEVICES, 0);
    device->other_count = VG_OTHERS_MAX + 1;
    expect_refused(unit, "damaged: element 0 of section devices");
    device->other_count = 0;
    struct vg_site *site = vg_record_at(&unit->record, VG_SEC_SITES, 0);
    site->device = 2;
    expect_refused(unit, "damaged: element 0 of section sites");
}

static void test_bad_strings_are_empty(void **state)
{
    struct unit *unit = *state;
    struct vg_view view;
    uint32_t id = vg_strings_intern_z(&unit->ledger.stacks, "name");
    uint32_t *words = vg_record_at(&unit->record, VG_SEC_STRINGS, id - 1);
    unit_open(unit, &view);
    assert_string_equal(vg_view_string(&view, id), "name");
    vg_view_close(&view);
    static const uint32_t lengths[] = {3, 400, UINT32_MAX, UINT32_MAX - 3};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        words[0] = lengths[i];
        unit_open(unit, &view);
        assert_string_equal(vg_view_string(&view, id), "");
        vg_view_close(&view);
    }
}

static void test_counters_that_do_not_add_up_are_found(void **state)
{
    struct unit *unit = *state;
    struct vg_view view;
    struct vg_site *site = vg_record_at(&unit->record, VG_SEC_SITES, 3);
    struct vg_device *device = vg_record_at(&unit->record, VG_SEC_DEVICES, 0);
    struct vg_context *context = vg_record_at(&unit->record, VG_SEC_CONTEXTS, 0);
    uint64_t *const numbers[] = {&site->live_bytes,      &site->live_count,
                                 &site->free_count,      &context->live_bytes,
                                 &context->live_count,   &device->tracked_bytes,
                                 &device->alloc_count,   &device->kind_bytes[VG_KIND_PINNED],
                                 &device->kind_count[0], &device->block_bytes,
                                 &device->peak_bytes[0]};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ++*numbers[i];
        unit_open(unit, &view);
        assert_false(vg_view_check(&view, unit->why, sizeof unit->why));
        assert_true(strlen(unit->why) > 10);
        vg_view_close(&view);
        --*numbers[i];
    }
    unit_open(unit, &view);
    unit_check_view(unit, &view);
    vg_view_close(&view);
}

/* A writer that died between two stores: whatever the counters are, the slots are right. */
static void test_half_an_event_is_made_good_from_the_slots(void **state)
{
    struct unit *unit = *state;
    struct vg_view view;
    uint64_t tracked = unit_device(unit, 0)->tracked_bytes;
    struct vg_slot *slot = vg_record_at(&unit->record, VG_SEC_SLOTS, 0);
    vg_record_begin(&unit->record, vg_intent(1, VG_OP_FREE));
    slot->kind = VG_KIND_NONE;
    unit_open(unit, &view);
    assert_true(view.recomputed);
    unit_check_view(unit, &view);
    assert_int_equal(vg_view_device(&view, 0)->tracked_bytes, tracked - 1);
    assert_int_equal(vg_view_device(&view, 0)->free_count, 1);
    assert_int_equal(vg_view_device(&view, 0)->peak_bytes[VG_LAYER_DRIVER], tracked);
    vg_view_close(&view);
    slot->kind = VG_KIND_DEVICE;
    slot->bytes = 1000000;
    unit_open(unit, &view);
    unit_check_view(unit, &view);
    assert_int_equal(vg_view_device(&view, 0)->tracked_bytes, tracked - 1 + 1000000);
    assert_int_equal(vg_view_device(&view, 0)->peak_bytes[VG_LAYER_DRIVER], tracked - 1 + 1000000);
    vg_view_close(&view);
}

/* --- while it is written ---------------------------------------------------------------------- */

static struct {
    struct unit *unit;
    _Atomic bool stop;
    long pause_us;
} writer;

static void *write_on(void *unused)
{
    uint64_t random = 1;
    while (!writer.stop) {
        for (int i = 0; i < 20; i++) {
            uint64_t addr = 4096 * (1 + unit_random(&random) % 4000);
            if (vg_ledger_find(&writer.unit->ledger, VG_SPACE_ADDRESS, addr)) {
                unit_free(writer.unit, VG_LAYER_DRIVER, addr, NULL);
            } else {
                unit_alloc(writer.unit, VG_KIND_DEVICE, addr, 1 + addr % 999,
                           unit_stack(writer.unit, unit_random(&random) % 3000));
            }
        }
        if (writer.pause_us) {
            usleep((useconds_t)writer.pause_us);
        }
    }
    return unused;
}

static int read_while_written(struct unit *unit, long pause_us, int opens)
{
    pthread_t thread;
    int recomputed = 0;
    writer.unit = unit;
    writer.stop = false;
    writer.pause_us = pause_us;
    assert_int_equal(pthread_create(&thread, NULL, write_on, NULL), 0);
    uint64_t seq = unit->record.header->seq;
    while (unit->record.header->seq < seq + 100) {
    }
    for (int i = 0; i < opens; i++) {
        struct vg_view view;
        unit_open(unit, &view);
        unit_check_view(unit, &view);
        recomputed += view.recomputed;
        vg_view_close(&view);
    }
    writer.stop = true;
    pthread_join(thread, NULL);
    return recomputed;
}

static void test_a_living_record_is_read_of_one_moment(void **state)
{
    int recomputed = read_while_written(*state, 2000, 100);
    print_message("  %d of 100 were made good from the slots\n", recomputed);
    assert_true(recomputed <= 10);
}

static void test_a_record_that_never_rests_still_adds_up(void **state)
{
    struct unit *unit = *state;
    for (uint64_t i = 0; i < 60000; i++) {
        unit_alloc(unit, VG_KIND_MANAGED, 0x7f0000000000 + i * 512, 512, unit_stack(unit, 1));
    }
    int recomputed = read_while_written(unit, 0, 30);
    print_message("  %d of 30 were made good from the slots\n", recomputed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, unit_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_closed_record_is_read),
        TEST(test_what_is_no_record_is_said_in_one_line),
        TEST(test_a_truncated_file_is_said_to_be_one),
        TEST(test_what_is_no_file_is_refused),
        TEST(test_damaged_tables_are_refused),
        TEST(test_chunks_that_lie_over_each_other_are_refused),
        TEST(test_damaged_elements_are_refused),
        TEST(test_bad_strings_are_empty),
        TEST(test_counters_that_do_not_add_up_are_found),
        TEST(test_half_an_event_is_made_good_from_the_slots),
        TEST(test_a_living_record_is_read_of_one_moment),
        TEST(test_a_record_that_never_rests_still_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
