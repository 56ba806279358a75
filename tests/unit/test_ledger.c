/* test_ledger.c -- one operation at a time: what it changes, and what it leaves alone.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/unit.h"

static const uint64_t A = 0x7f0000000000, B = 0x7f0000100000, C = 0x7f0000200000;

static enum vg_status alloc_on(struct unit *unit, enum vg_kind kind, uint64_t addr, uint64_t bytes,
                               int32_t device, uint64_t context_id)
{
    struct vg_event event = {.op = VG_OP_ALLOC,
                             .kind = (uint8_t)kind,
                             .addr = addr,
                             .bytes = bytes,
                             .device = device,
                             .context_id = context_id};
    return vg_ledger_apply(&unit->ledger, &event);
}

static enum vg_status context_op(struct unit *unit, enum vg_op op, uint64_t id)
{
    struct vg_event event = {.op = (uint8_t)op, .context_id = id, .handle = id * 16};
    return vg_ledger_apply(&unit->ledger, &event);
}

/* One row per row of kinds.def: what it is expected to be. */
static const struct {
    enum vg_kind kind;
    const char *key;
    enum vg_layer layer;
    bool occupies;
} expected[] = {
    {VG_KIND_DEVICE, "device", VG_LAYER_DRIVER, true},
    {VG_KIND_MANAGED, "managed", VG_LAYER_DRIVER, false},
    {VG_KIND_POOL, "pool", VG_LAYER_DRIVER, true},
    {VG_KIND_VMM, "vmm", VG_LAYER_DRIVER, true},
    {VG_KIND_ARRAY, "array", VG_LAYER_DRIVER, true},
    {VG_KIND_MIPMAP, "mipmap", VG_LAYER_DRIVER, true},
    {VG_KIND_GRAPH, "graph", VG_LAYER_DRIVER, true},
    {VG_KIND_PINNED, "pinned", VG_LAYER_DRIVER, false},
    {VG_KIND_REGISTERED, "registered", VG_LAYER_DRIVER, false},
    {VG_KIND_IPC, "ipc", VG_LAYER_DRIVER, false},
    {VG_KIND_EXTERNAL, "external", VG_LAYER_DRIVER, false},
    {VG_KIND_IMPORTED, "imported", VG_LAYER_DRIVER, false},
    {VG_KIND_BLOCK, "block", VG_LAYER_TORCH, false},
    {VG_KIND_VMM_HOST, "vmm_host", VG_LAYER_DRIVER, false},
    {VG_KIND_MAPPING, "mapping", VG_LAYER_OBJECT, false},
    {VG_KIND_ARRAY_ALIAS, "array_alias", VG_LAYER_OBJECT, false},
    {VG_KIND_STREAM, "stream", VG_LAYER_OBJECT, false},
    {VG_KIND_EVENT, "event", VG_LAYER_OBJECT, false},
    {VG_KIND_MODULE, "module", VG_LAYER_OBJECT, false},
    {VG_KIND_MEMPOOL, "mempool", VG_LAYER_OBJECT, false},
};
enum { DRIVER_KINDS = 13, UNBOUND_DRIVER_KINDS = 3 /* those of cuMemCreate */ };
_Static_assert(sizeof expected / sizeof *expected == VG_KIND_COUNT - 1, "a kind has no case here");

static void test_every_kind_counts_where_its_row_says(void **state)
{
    struct unit *unit = *state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        enum vg_kind kind = expected[i].kind;
        const struct vg_device *device = unit_device(unit, 0);
        uint64_t tracked = device ? device->tracked_bytes : 0;
        uint64_t blocks = device ? device->block_bytes : 0;
        assert_string_equal(vg_kind_key(kind), expected[i].key);
        assert_int_equal(unit_alloc(unit, kind, A + i * 4096, 100 + i, 0), VG_OK);
        device = unit_device(unit, 0);
        assert_int_equal(device->kind_bytes[kind], 100 + i);
        assert_int_equal(device->kind_count[kind], 1);
        assert_int_equal(device->tracked_bytes, tracked + (expected[i].occupies ? 100 + i : 0));
        assert_int_equal(device->block_bytes,
                         blocks + (expected[i].layer == VG_LAYER_TORCH ? 100 + i : 0));
        unit_check_ledger(unit);
    }
    /* Blocks and objects are no allocations of the driver. */
    assert_int_equal(unit_device(unit, 0)->alloc_count, DRIVER_KINDS);
    const struct vg_context *context = vg_record_at(&unit->record, VG_SEC_CONTEXTS, 0);
    assert_int_equal(context->live_count, DRIVER_KINDS - UNBOUND_DRIVER_KINDS);
}

static void test_a_block_and_its_segment_start_at_one_address(void **state)
{
    struct unit *unit = *state;
    unit_alloc(unit, VG_KIND_DEVICE, A, 2 * MIB, 0);
    assert_int_equal(unit_alloc(unit, VG_KIND_BLOCK, A, 512, 0), VG_OK);
    assert_int_equal(vg_ledger_find(&unit->ledger, VG_SPACE_ADDRESS, A)->bytes, 2 * MIB);
    assert_int_equal(vg_ledger_find(&unit->ledger, VG_SPACE_BLOCK, A)->bytes, 512);
    assert_int_equal(unit_free(unit, VG_LAYER_TORCH, A, NULL), VG_OK);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 2 * MIB);
    assert_int_equal(unit_device(unit, 0)->block_bytes, 0);
    assert_int_equal(unit_device(unit, 0)->peak_bytes[VG_LAYER_TORCH], 512);
    unit_check_ledger(unit);
}

static void test_a_free_of_an_unknown_address_changes_nothing(void **state)
{
    struct unit *unit = *state;
    unit_alloc(unit, VG_KIND_DEVICE, A, 10, 0);
    assert_int_equal(unit_free(unit, VG_LAYER_DRIVER, B, NULL), VG_NOT_FOUND);
    assert_int_equal(unit->record.header->unknown_free_count, 1);
    assert_int_equal(unit_free(unit, VG_LAYER_TORCH, B, NULL), VG_NOT_FOUND);
    assert_int_equal(unit->record.header->unknown_free_count, 1);
    assert_int_equal(unit_device(unit, 0)->free_count, 0);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 10);
}

static void test_a_refused_free_is_put_back(void **state)
{
    struct unit *unit = *state;
    struct vg_event event;
    uint32_t stack = unit_stack(unit, 1);
    unit_alloc(unit, VG_KIND_DEVICE, A, 10, stack);
    assert_int_equal(unit_free(unit, VG_LAYER_DRIVER, A, &event), VG_OK);
    assert_null(vg_ledger_find(&unit->ledger, VG_SPACE_ADDRESS, A));
    event.op = VG_OP_RESTORE;
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_OK);
    const struct vg_slot *slot = vg_ledger_find(&unit->ledger, VG_SPACE_ADDRESS, A);
    assert_non_null(slot);
    assert_int_equal(slot->bytes, 10);
    assert_int_equal(slot->site, event.site);
    assert_int_equal(unit_device(unit, 0)->alloc_count, 1);
    assert_int_equal(unit_device(unit, 0)->free_count, 0);
    assert_int_equal(unit_device(unit, 0)->peak_bytes[VG_LAYER_DRIVER], 10);
    assert_int_equal(unit->record.header->failed_free_count, 1);
    unit_check_ledger(unit);
}

static void test_a_refused_free_of_an_unknown_address_puts_nothing_back(void **state)
{
    struct unit *unit = *state;
    struct vg_event event;
    unit_free(unit, VG_LAYER_DRIVER, A, &event);
    event.op = VG_OP_RESTORE;
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_NOT_FOUND);
    assert_int_equal(vg_ledger_live_count(&unit->ledger), 0);
    unit_check_ledger(unit);
}

static void test_what_was_live_beside_a_refused_free_is_a_peak(void **state)
{
    struct unit *unit = *state;
    struct vg_event event;
    unit_alloc(unit, VG_KIND_DEVICE, A, 100, 0);
    unit_free(unit, VG_LAYER_DRIVER, A, &event);
    unit_alloc(unit, VG_KIND_DEVICE, B, 50, 0);
    event.op = VG_OP_RESTORE;
    vg_ledger_apply(&unit->ledger, &event);
    assert_int_equal(unit_device(unit, 0)->peak_bytes[VG_LAYER_DRIVER], 150);
    unit_check_ledger(unit);
}

static void test_an_allocation_at_a_live_address_ends_the_old_one(void **state)
{
    struct unit *unit = *state;
    unit_alloc(unit, VG_KIND_DEVICE, A, 10, unit_stack(unit, 1));
    assert_int_equal(unit_alloc(unit, VG_KIND_DEVICE, A, 30, unit_stack(unit, 2)), VG_DUPLICATE);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 30);
    assert_int_equal(unit_device(unit, 0)->free_count, 1);
    assert_int_equal(unit->record.header->duplicate_count, 1);
    unit_check_ledger(unit);
}

static void test_host_memory_without_a_context_belongs_to_no_device(void **state)
{
    struct unit *unit = *state;
    assert_int_equal(alloc_on(unit, VG_KIND_PINNED, A, 100, -1, 0), VG_OK);
    assert_int_equal(vg_record_count(&unit->record, VG_SEC_DEVICES), 0);
    const struct vg_site *site = vg_record_at(&unit->record, VG_SEC_SITES, 0);
    assert_int_equal(site->device, 0);
    assert_int_equal(site->live_bytes, 100);
    unit_check_ledger(unit);
}

static void test_the_device_follows_from_the_context(void **state)
{
    struct unit *unit = *state;
    alloc_on(unit, VG_KIND_DEVICE, A, 100, 3, 7);
    assert_int_equal(alloc_on(unit, VG_KIND_DEVICE, B, 50, -1, 7), VG_OK);
    assert_int_equal(unit_device(unit, 0)->ordinal, 3);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 150);
}

static void test_a_context_takes_everything_in_it_along(void **state)
{
    struct unit *unit = *state;
    assert_int_equal(context_op(unit, VG_OP_CTX_CREATE, 7), VG_OK);
    assert_int_equal(context_op(unit, VG_OP_CTX_CREATE, 7), VG_DUPLICATE);
    alloc_on(unit, VG_KIND_DEVICE, A, 100, 0, 7);
    alloc_on(unit, VG_KIND_PINNED, B, 10, 0, 7);
    alloc_on(unit, VG_KIND_DEVICE, C, 1, 0, 8);
    assert_int_equal(context_op(unit, VG_OP_CTX_DESTROY, 7), VG_OK);
    assert_int_equal(vg_ledger_context(&unit->ledger, 7), 0);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 1);
    assert_int_equal(unit_device(unit, 0)->free_count, 2);
    assert_int_equal(context_op(unit, VG_OP_CTX_DESTROY, 7), VG_NOT_FOUND);
    unit_check_ledger(unit);
    /* A reset primary context has the same id again. */
    assert_int_equal(alloc_on(unit, VG_KIND_DEVICE, A, 5, 0, 7), VG_OK);
    assert_int_equal(vg_ledger_context(&unit->ledger, 7), 3);
    unit_check_ledger(unit);
}

static void test_sites_know_what_they_had_at_the_peak(void **state)
{
    struct unit *unit = *state;
    uint32_t first = unit_stack(unit, 1), second = unit_stack(unit, 2), third = unit_stack(unit, 3);
    struct vg_view view;
    unit_alloc(unit, VG_KIND_DEVICE, A, 100, first);
    unit_alloc(unit, VG_KIND_DEVICE, B, 200, second); /* the peak: 100 + 200 */
    unit_free(unit, VG_LAYER_DRIVER, A, NULL);
    unit_alloc(unit, VG_KIND_DEVICE, C, 50, third);
    unit_free(unit, VG_LAYER_DRIVER, B, NULL);
    unit_open(unit, &view);
    assert_int_equal(vg_view_site_at_peak(&view, vg_view_site(&view, 0)), 100);
    assert_int_equal(vg_view_site_at_peak(&view, vg_view_site(&view, 1)), 200);
    assert_int_equal(vg_view_site_at_peak(&view, vg_view_site(&view, 2)), 0);
    assert_int_equal(vg_view_site(&view, 2)->live_bytes, 50);
    unit_check_view(unit, &view);
    vg_view_close(&view);
}

static void test_a_full_record_goes_on_counting(void **state)
{
    struct unit *unit = *state;
    unit_end(unit);
    unit_begin(unit, 1 * MIB);
    uint64_t listed = 0, n = 200000;
    for (uint64_t i = 0; i < n; i++) {
        enum vg_status status = unit_alloc(unit, VG_KIND_DEVICE, A + i * 512, 512, 0);
        assert_true(status == VG_OK || status == VG_FULL);
        listed += status == VG_OK;
    }
    assert_true(listed > 1000 && listed < n);
    const struct vg_header *header = unit->record.header;
    const struct vg_device *device = unit_device(unit, 0);
    assert_int_equal(header->unlisted_count, n - listed);
    assert_int_equal(header->unlisted_bytes, (n - listed) * 512);
    assert_true(header->saturated & VG_SAT_SLOTS);
    assert_int_equal(device->tracked_bytes, n * 512);
    assert_int_equal(device->alloc_count, n);
    unit_check_ledger(unit);
    /* What is freed makes room again; a free of what is not listed counts too. */
    unit_free(unit, VG_LAYER_DRIVER, A, NULL);
    assert_int_equal(unit_alloc(unit, VG_KIND_DEVICE, A, 512, 0), VG_OK);
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(unit_free(unit, VG_LAYER_DRIVER, A + i * 512, NULL), VG_OK);
    }
    unit_check_ledger(unit);
    assert_int_equal(header->unlisted_count, 0);
    assert_int_equal(header->unlisted_bytes, 0);
    assert_int_equal(device->tracked_bytes, 0);
    assert_int_equal(device->peak_bytes[VG_LAYER_DRIVER], n * 512);
    assert_int_equal(device->free_count, n + 1);
    assert_int_equal(header->unknown_free_count, 0);
}

static void test_a_full_record_knows_contexts_mappings_and_refused_frees(void **state)
{
    struct unit *unit = *state;
    struct vg_event event;
    unit_fill_slots(unit, 0);
    assert_int_equal(context_op(unit, VG_OP_CTX_CREATE, 7), VG_OK);
    assert_int_equal(alloc_on(unit, VG_KIND_DEVICE, A, 100, 0, 7), VG_FULL);
    assert_int_equal(alloc_on(unit, VG_KIND_DEVICE, B, 10, 0, 8), VG_FULL);
    unit_check_ledger(unit);
    unit_free(unit, VG_LAYER_DRIVER, B, &event);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 100);
    event.op = VG_OP_RESTORE;
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_OK);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 110);
    assert_int_equal(unit_alloc(unit, VG_KIND_VMM, C, 2 * MIB, 0), VG_FULL);
    event = (struct vg_event){.op = VG_OP_MAP, .addr = A + 64 * MIB, .bytes = 2 * MIB, .handle = C};
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_FULL);
    event = (struct vg_event){.op = VG_OP_FREE, .kind = VG_KIND_VMM, .addr = C};
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_OK);
    unit_check_ledger(unit);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 110 + 2 * MIB);
    event = (struct vg_event){.op = VG_OP_UNMAP, .addr = A + 64 * MIB, .bytes = 2 * MIB};
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_OK);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 110);
    assert_int_equal(context_op(unit, VG_OP_CTX_DESTROY, 7), VG_OK);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 10);
    unit_check_ledger(unit);
}

static enum vg_status resize(struct unit *unit, uint64_t bytes)
{
    struct vg_event event = {.op = VG_OP_RESIZE, .kind = VG_KIND_ARRAY, .addr = A, .bytes = bytes};
    return vg_ledger_apply(&unit->ledger, &event);
}

static void test_a_guess_is_replaced_once(void **state)
{
    struct unit *unit = *state;
    struct vg_event event = {.op = VG_OP_ALLOC,
                             .kind = VG_KIND_ARRAY,
                             .flags = VG_SLOT_GUESSED,
                             .addr = A,
                             .bytes = 100};
    assert_int_equal(resize(unit, 200), VG_NOT_FOUND);
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_OK);
    assert_int_equal(resize(unit, 200), VG_OK);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 200);
    assert_int_equal(unit_device(unit, 0)->kind_bytes[VG_KIND_ARRAY], 200);
    assert_int_equal(unit_device(unit, 0)->peak_bytes[VG_LAYER_DRIVER], 200);
    assert_int_equal(unit_device(unit, 0)->alloc_count, 1);
    assert_int_equal(resize(unit, 300), VG_NOT_FOUND);
    unit_check_ledger(unit);
    event = (struct vg_event){.op = VG_OP_FREE, .kind = VG_KIND_ARRAY, .addr = A};
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_OK);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 0);
}

static void test_memory_opened_twice_is_closed_twice(void **state)
{
    struct unit *unit = *state;
    struct vg_event event;
    assert_int_equal(unit_alloc(unit, VG_KIND_IPC, A, 100, 0), VG_OK);
    assert_int_equal(unit_alloc(unit, VG_KIND_IPC, A, 100, 0), VG_OK);
    assert_int_equal(unit_device(unit, 0)->kind_bytes[VG_KIND_IPC], 100);
    unit_free(unit, VG_LAYER_DRIVER, A, &event);
    assert_int_equal(unit_device(unit, 0)->kind_bytes[VG_KIND_IPC], 100);
    event.op = VG_OP_RESTORE; /* the driver refused it */
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_OK);
    unit_free(unit, VG_LAYER_DRIVER, A, NULL);
    assert_int_equal(unit_device(unit, 0)->kind_bytes[VG_KIND_IPC], 100);
    unit_free(unit, VG_LAYER_DRIVER, A, NULL);
    assert_int_equal(unit_device(unit, 0)->kind_bytes[VG_KIND_IPC], 0);
    assert_int_equal(unit->record.header->unknown_free_count, 0);
    assert_int_equal(unit->record.header->duplicate_count, 0);
    unit_check_ledger(unit);
}

/* Sites full, and a context of another device than the call names: only the slot can say the
 * device. */
static void test_without_a_site_the_device_is_kept(void **state)
{
    struct unit *unit = *state;
    alloc_on(unit, VG_KIND_DEVICE, A, 100, 1, 7);
    unit_fill_slots(unit, 8);
    for (uint32_t i = 1; !(unit->record.header->saturated & VG_SAT_SITES); i++) {
        unit_alloc(unit, VG_KIND_DEVICE, B, 1, i);
    }
    unit_free(unit, VG_LAYER_DRIVER, B, NULL);
    uint64_t before = unit_device(unit, 1)->tracked_bytes;
    struct vg_event event = {.op = VG_OP_ALLOC,
                             .kind = VG_KIND_DEVICE,
                             .addr = C,
                             .bytes = 50,
                             .stack = 1u << 20,
                             .context_id = 7};
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_FULL);
    assert_int_equal(event.site, 0);
    assert_int_equal(unit_device(unit, 1)->tracked_bytes, before + 50);
    unit_check_ledger(unit);
    assert_int_equal(unit_free(unit, VG_LAYER_DRIVER, C, &event), VG_OK);
    assert_int_equal(event.site, 0);
    assert_int_equal(unit_device(unit, 1)->tracked_bytes, before);
    event.op = VG_OP_RESTORE;
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_OK);
    assert_int_equal(unit_device(unit, 1)->tracked_bytes, before + 50);
    unit_check_ledger(unit);
}

static void test_where_sites_are_full_the_bytes_still_count(void **state)
{
    struct unit *unit = *state;
    unit_end(unit);
    unit_begin(unit, 1 * MIB);
    unit_alloc(unit, VG_KIND_DEVICE, A, 1, 0);
    uint64_t n = 20000;
    for (uint64_t i = 1; i < n; i++) {
        unit_alloc(unit, VG_KIND_DEVICE, A + i, 1, (uint32_t)i);
        unit_free(unit, VG_LAYER_DRIVER, A + i, NULL);
    }
    assert_true(unit->record.header->saturated & VG_SAT_SITES);
    assert_int_equal(unit_alloc(unit, VG_KIND_DEVICE, A + n, 100, (uint32_t)n), VG_OK);
    assert_int_equal(unit_device(unit, 0)->tracked_bytes, 101);
    assert_int_equal(unit_device(unit, 0)->alloc_count, n + 1);
    unit_check_ledger(unit);
}

static void test_one_allocation_at_a_time_needs_no_more_memory(void **state)
{
    struct unit *unit = *state;
    uint64_t mapped = 0, used = 0;
    for (int i = 0; i < 100000; i++) {
        unit_alloc(unit, VG_KIND_DEVICE, A + (uint64_t)i * 512, 512, 0);
        unit_free(unit, VG_LAYER_DRIVER, A + (uint64_t)i * 512, NULL);
        if (i == VG_FREED_MAX) { /* the ring of frees is full */
            mapped = unit->ledger.arena.mapped_bytes;
            used = unit->record.header->file_bytes;
        }
    }
    assert_int_equal(unit->ledger.arena.mapped_bytes, mapped);
    assert_int_equal(unit->record.header->file_bytes, used);
}

static void test_memory_per_live_allocation_is_within_the_budget(void **state)
{
    struct unit *unit = *state;
    uint64_t n = 100000, record = unit->record.header->file_bytes;
    uint32_t stack = unit_stack(unit, 1);
    for (uint64_t i = 0; i < n; i++) {
        unit_alloc(unit, VG_KIND_DEVICE, A + i * 512, 512, stack);
    }
    record = unit->record.header->file_bytes - record;
    print_message("  record %.1f, index %.1f bytes per live allocation\n",
                  (double)record / (double)n, (double)unit->ledger.arena.mapped_bytes / (double)n);
    assert_true(record <= 64 * n);
    assert_true(unit->ledger.arena.mapped_bytes <= 96 * n);
}

/* Sites 20 native and 20 Python frames deep, two of which no other site has. */
static void test_memory_per_site_is_within_the_budget(void **state)
{
    struct unit *unit = *state;
    uint64_t n = 10000, record = unit->record.header->file_bytes;
    uint64_t index = unit->ledger.arena.mapped_bytes;
    uint32_t frames[40];
    for (uint64_t i = 0; i < 40; i++) {
        frames[i] = vg_stacks_frame_native(&unit->ledger.stacks, 0, i * 16);
    }
    for (uint64_t i = 0; i < n; i++) {
        frames[0] = vg_stacks_frame_native(&unit->ledger.stacks, 0, 1000 + i);
        frames[20] = vg_stacks_frame_python(&unit->ledger.stacks, 1, 1, (int32_t)i);
        uint32_t stack = vg_stacks_intern(&unit->ledger.stacks, frames, 20, 20, false);
        assert_int_equal(unit_alloc(unit, VG_KIND_DEVICE, A, 512, stack), i ? VG_DUPLICATE : VG_OK);
    }
    record = unit->record.header->file_bytes - record;
    index = unit->ledger.arena.mapped_bytes - index;
    print_message("  record %.1f, index %.1f bytes per site\n", (double)record / (double)n,
                  (double)index / (double)n);
    assert_true(record <= 512 * n);
    assert_true(index <= 512 * n);
}

static void test_a_bad_event_is_refused(void **state)
{
    struct unit *unit = *state;
    struct vg_event event = {.op = VG_OP_COUNT};
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_INVALID);
    event = (struct vg_event){.op = VG_OP_ALLOC, .kind = VG_KIND_NONE};
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_INVALID);
    event = (struct vg_event){.op = VG_OP_CTX_CREATE};
    assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_INVALID);
    unit_check_ledger(unit);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_setup, unit_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_kind_counts_where_its_row_says),
        TEST(test_a_block_and_its_segment_start_at_one_address),
        TEST(test_a_free_of_an_unknown_address_changes_nothing),
        TEST(test_a_refused_free_is_put_back),
        TEST(test_a_refused_free_of_an_unknown_address_puts_nothing_back),
        TEST(test_what_was_live_beside_a_refused_free_is_a_peak),
        TEST(test_an_allocation_at_a_live_address_ends_the_old_one),
        TEST(test_host_memory_without_a_context_belongs_to_no_device),
        TEST(test_the_device_follows_from_the_context),
        TEST(test_a_context_takes_everything_in_it_along),
        TEST(test_sites_know_what_they_had_at_the_peak),
        TEST(test_a_full_record_goes_on_counting),
        TEST(test_a_full_record_knows_contexts_mappings_and_refused_frees),
        TEST(test_without_a_site_the_device_is_kept),
        TEST(test_where_sites_are_full_the_bytes_still_count),
        TEST(test_one_allocation_at_a_time_needs_no_more_memory),
        TEST(test_memory_per_live_allocation_is_within_the_budget),
        TEST(test_memory_per_site_is_within_the_budget),
        TEST(test_a_guess_is_replaced_once),
        TEST(test_memory_opened_twice_is_closed_twice),
        TEST(test_a_bad_event_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
