/* test_ledger_vmm.c -- memory of cuMemCreate.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Held by handles and mappings, gone with the last of them, in any order.
 */
#include "tests/unit/unit.h"

#define A ((uint64_t)0x7f0000000000)
enum { H = 0x1000 }; /* handles are numbers, not addresses */

static enum vg_status create(struct unit *unit, enum vg_kind kind, uint64_t handle, uint64_t bytes)
{
    return unit_alloc(unit, kind, handle, bytes, 0);
}

static enum vg_status apply(struct unit *unit, enum vg_op op, uint64_t addr, uint64_t bytes,
                            uint64_t handle)
{
    struct vg_event event = {.op = (uint8_t)op, .addr = addr, .bytes = bytes, .handle = handle};
    return vg_ledger_apply(&unit->ledger, &event);
}

static enum vg_status release(struct unit *unit, uint64_t handle, struct vg_event *event_out)
{
    struct vg_event event = {.op = VG_OP_FREE, .kind = VG_KIND_VMM, .addr = handle};
    enum vg_status status = vg_ledger_apply(&unit->ledger, &event);
    if (event_out) {
        *event_out = event;
    }
    return status;
}

static uint64_t tracked(struct unit *unit)
{
    unit_check_ledger(unit);
    return unit_device(unit, 0)->tracked_bytes;
}

static void test_memory_ends_with_its_last_reference_in_any_order(void **state)
{
    struct unit *unit = *state;
    create(unit, VG_KIND_VMM, H, 4 * MIB);
    assert_int_equal(apply(unit, VG_OP_MAP, A, 4 * MIB, H), VG_OK);
    assert_int_equal(apply(unit, VG_OP_RETAIN, A + MIB, 0, H), VG_OK); /* inside the mapping */
    assert_int_equal(release(unit, H, NULL), VG_OK);
    assert_int_equal(apply(unit, VG_OP_UNMAP, A, 4 * MIB, 0), VG_OK);
    assert_int_equal(tracked(unit), 4 * MIB);
    assert_int_equal(release(unit, H, NULL), VG_OK);
    assert_int_equal(tracked(unit), 0);

    create(unit, VG_KIND_VMM, H, 4 * MIB);
    apply(unit, VG_OP_MAP, A, 4 * MIB, H);
    release(unit, H, NULL);
    assert_int_equal(tracked(unit), 4 * MIB);
    assert_int_equal(release(unit, H, NULL), VG_NOT_FOUND);
    apply(unit, VG_OP_UNMAP, A, 4 * MIB, 0);
    assert_int_equal(tracked(unit), 0);
    assert_int_equal(apply(unit, VG_OP_RETAIN, A, 0, H), VG_NOT_FOUND);
    assert_int_equal(apply(unit, VG_OP_UNMAP, A, 4 * MIB, 0), VG_NOT_FOUND);
    assert_int_equal(unit_device(unit, 0)->alloc_count, 2);
    assert_int_equal(unit_device(unit, 0)->free_count, 2);
    assert_int_equal(vg_ledger_live_count(&unit->ledger), 0);
}

static void test_a_handles_number_is_given_again_while_mappings_hold_the_old_memory(void **state)
{
    struct unit *unit = *state;
    create(unit, VG_KIND_VMM, H, 2 * MIB);
    apply(unit, VG_OP_MAP, A, 2 * MIB, H);
    release(unit, H, NULL);
    assert_int_equal(create(unit, VG_KIND_VMM, H, 8 * MIB), VG_OK);
    assert_int_equal(tracked(unit), 10 * MIB);
    assert_int_equal(apply(unit, VG_OP_RETAIN, A, 0, H + 1),
                     VG_OK); /* the old memory, by a new number */
    apply(unit, VG_OP_UNMAP, A, 2 * MIB, 0);
    release(unit, H, NULL);
    assert_int_equal(tracked(unit), 2 * MIB);
    release(unit, H + 1, NULL);
    assert_int_equal(tracked(unit), 0);
}

/* Its release was not seen: what is mapped lives on, and is not taken for the new memory. */
static void test_a_live_handles_number_that_comes_again_ends_only_the_handle(void **state)
{
    struct unit *unit = *state;
    create(unit, VG_KIND_VMM, H, 2 * MIB);
    apply(unit, VG_OP_MAP, A, 2 * MIB, H);
    assert_int_equal(create(unit, VG_KIND_VMM, H, 8 * MIB), VG_DUPLICATE);
    assert_int_equal(tracked(unit), 10 * MIB);
    apply(unit, VG_OP_UNMAP, A, 2 * MIB, 0);
    assert_int_equal(tracked(unit), 8 * MIB);
    assert_int_equal(create(unit, VG_KIND_VMM, H, MIB), VG_DUPLICATE);
    assert_int_equal(tracked(unit), MIB);
}

/* The unmapping of the old one was not seen. */
static void test_a_mapping_over_a_mapping_takes_its_reference_along(void **state)
{
    struct unit *unit = *state;
    create(unit, VG_KIND_VMM, H, 2 * MIB);
    create(unit, VG_KIND_VMM, H + 1, 4 * MIB);
    apply(unit, VG_OP_MAP, A, 2 * MIB, H);
    release(unit, H, NULL);
    assert_int_equal(apply(unit, VG_OP_MAP, A, 4 * MIB, H + 1), VG_DUPLICATE);
    assert_int_equal(tracked(unit), 4 * MIB);
    release(unit, H + 1, NULL);
    assert_int_equal(unit_alloc(unit, VG_KIND_DEVICE, A, MIB, 0), VG_DUPLICATE);
    assert_int_equal(tracked(unit), MIB);
}

static void test_a_refused_release_gives_its_reference_back(void **state)
{
    struct unit *unit = *state;
    struct vg_event event;
    for (int mapped = 0; mapped < 2; mapped++) {
        create(unit, VG_KIND_VMM, H, 2 * MIB);
        if (mapped) {
            apply(unit, VG_OP_MAP, A, 2 * MIB, H);
        }
        assert_int_equal(release(unit, H, &event), VG_OK);
        event.op = VG_OP_RESTORE;
        assert_int_equal(vg_ledger_apply(&unit->ledger, &event), VG_OK);
        assert_int_equal(tracked(unit), 2 * MIB);
        assert_int_equal(release(unit, H, NULL), VG_OK);
        assert_int_equal(tracked(unit), mapped ? 2 * MIB : 0);
    }
    assert_int_equal(unit->record.header->failed_free_count, 2);
}

static void test_one_unmap_ends_several_mappings(void **state)
{
    struct unit *unit = *state;
    for (uint64_t i = 0; i < 4; i++) {
        create(unit, VG_KIND_VMM, H + i, 2 * MIB);
        apply(unit, VG_OP_MAP, A + i * 4 * MIB, 2 * MIB, H + i); /* holes between them */
        release(unit, H + i, NULL);
    }
    assert_int_equal(apply(unit, VG_OP_UNMAP, A + 4 * MIB, 6 * MIB, 0), VG_OK);
    assert_int_equal(tracked(unit), 4 * MIB);
    assert_int_equal(unit_device(unit, 0)->kind_count[VG_KIND_MAPPING], 2);
}

static void test_imported_memory_is_as_large_as_it_was_shown(void **state)
{
    struct unit *unit = *state;
    create(unit, VG_KIND_IMPORTED, H, 0);
    apply(unit, VG_OP_MAP, A, 2 * MIB, H);
    apply(unit, VG_OP_MAP, A + 16 * MIB, 6 * MIB, H);
    apply(unit, VG_OP_UNMAP, A + 16 * MIB, 6 * MIB, 0);
    assert_int_equal(unit_device(unit, 0)->kind_bytes[VG_KIND_IMPORTED], 6 * MIB);
    assert_int_equal(tracked(unit), 0);
    release(unit, H, NULL);
    apply(unit, VG_OP_UNMAP, A, 2 * MIB, 0);
    assert_int_equal(unit_device(unit, 0)->kind_count[VG_KIND_IMPORTED], 0);
}

/* --- random events against a naive model ------------------------------------------------------ */

enum { SEEDS = 60, EVENTS = 400, HANDLES = 5, PLACES = 12, MEMORIES = HANDLES + PLACES };

struct memory {
    bool used;
    uint64_t bytes, handle; /* handle: valid where handles is not 0 */
    int handles, mappings;
    enum vg_kind kind;
};
struct run {
    struct unit unit;
    uint64_t random;
    struct memory memory[MEMORIES];
    struct {
        bool used;
        uint64_t bytes;
        struct memory *memory; /* NULL: of a handle that nobody knows */
    } place[PLACES];           /* one every 8 MiB */
};

static uint64_t place_addr(uint64_t place)
{
    return A + place * 8 * MIB;
}

static struct memory *by_handle(struct run *run, uint64_t handle)
{
    for (int i = 0; i < MEMORIES; i++) {
        struct memory *at = &run->memory[i];
        if (at->used && at->handles && at->handle == handle) {
            return at;
        }
    }
    return NULL;
}

static void settle(struct memory *at)
{
    at->used = at->handles || at->mappings;
}

static void lose_place(struct run *run, uint64_t place)
{
    struct memory *at = run->place[place].used ? run->place[place].memory : NULL;
    run->place[place].used = false;
    if (at) {
        at->mappings--;
        settle(at);
    }
}

static void do_create(struct run *run, uint64_t handle)
{
    struct memory *old = by_handle(run, handle), *free_one = run->memory;
    enum vg_kind kind = unit_random(&run->random) % 3 ? VG_KIND_VMM : VG_KIND_IMPORTED;
    uint64_t bytes = kind == VG_KIND_VMM ? (1 + unit_random(&run->random) % 4) * MIB : 0;
    if (old) {
        old->handles = 0;
        settle(old);
    }
    while (free_one->used) {
        free_one++;
    }
    *free_one =
        (struct memory){.used = true, .bytes = bytes, .handle = handle, .handles = 1, .kind = kind};
    create(&run->unit, kind, handle, bytes);
}

static void do_release(struct run *run, uint64_t handle)
{
    struct memory *at = by_handle(run, handle);
    struct vg_event event;
    assert_int_equal(release(&run->unit, handle, &event), at ? VG_OK : VG_NOT_FOUND);
    if (unit_random(&run->random) % 4 == 0) { /* the driver refuses */
        event.op = VG_OP_RESTORE;
        assert_int_equal(vg_ledger_apply(&run->unit.ledger, &event), at ? VG_OK : VG_NOT_FOUND);
    } else if (at) {
        at->handles--;
        settle(at);
    }
}

static void do_map(struct run *run, uint64_t handle, uint64_t place)
{
    struct memory *at = by_handle(run, handle);
    uint64_t bytes = (1 + unit_random(&run->random) % 4) * MIB;
    lose_place(run, place);
    run->place[place].used = true;
    run->place[place].bytes = bytes;
    run->place[place].memory = at;
    if (at) {
        at->mappings++;
        at->bytes = at->kind == VG_KIND_IMPORTED && at->bytes < bytes ? bytes : at->bytes;
    }
    apply(&run->unit, VG_OP_MAP, place_addr(place), bytes, handle);
}

static void do_unmap(struct run *run, uint64_t place, uint64_t count)
{
    uint64_t end = place + count < PLACES ? place + count : PLACES;
    apply(&run->unit, VG_OP_UNMAP, place_addr(place), (end - place) * 8 * MIB, 0);
    for (; place < end; place++) {
        lose_place(run, place);
    }
}

/* The driver gives the number that the memory has, else a free one. */
static void do_retain(struct run *run, uint64_t place)
{
    struct memory *at = run->place[place].used ? run->place[place].memory : NULL;
    uint64_t handle = H;
    while (by_handle(run, handle)) {
        handle++;
    }
    handle = at && at->handles ? at->handle : handle;
    if (handle >= H + HANDLES) {
        return;
    }
    assert_int_equal(apply(&run->unit, VG_OP_RETAIN, place_addr(place) + MIB / 2, 0, handle),
                     at ? VG_OK : VG_NOT_FOUND);
    if (at) {
        at->handle = handle;
        at->handles++;
    }
}

static void compare(struct run *run)
{
    uint64_t sum[VG_KIND_COUNT] = {0}, count = 0, mappings = 0;
    for (int i = 0; i < MEMORIES; i++) {
        sum[run->memory[i].kind] += run->memory[i].used ? run->memory[i].bytes : 0;
        count += run->memory[i].used;
    }
    for (int i = 0; i < PLACES; i++) {
        mappings += run->place[i].used;
    }
    const struct vg_device *device = unit_device(&run->unit, 0);
    unit_check_ledger(&run->unit);
    if (device) {
        assert_int_equal(device->tracked_bytes, sum[VG_KIND_VMM]);
        assert_int_equal(device->kind_bytes[VG_KIND_IMPORTED], sum[VG_KIND_IMPORTED]);
        assert_int_equal(device->kind_count[VG_KIND_VMM] + device->kind_count[VG_KIND_IMPORTED],
                         count);
        assert_int_equal(device->kind_count[VG_KIND_MAPPING], mappings);
    }
}

static void test_random_events_agree_with_a_naive_model(void **state)
{
    (void)state;
    struct run *run = malloc(sizeof *run);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        memset(run, 0, sizeof *run);
        run->random = 0x9e3779b97f4a7c15u * seed;
        unit_begin(&run->unit, 8 * MIB);
        if (seed % 2) { /* most of it has no slot in the file */
            unit_fill_slots(&run->unit, seed % 5);
        }
        for (int i = 0; i < EVENTS; i++) {
            uint64_t choice = unit_random(&run->random) % 16;
            uint64_t handle = H + unit_random(&run->random) % HANDLES;
            uint64_t place = unit_random(&run->random) % PLACES;
            if (choice < 4) {
                do_create(run, handle);
            } else if (choice < 7) {
                do_release(run, handle);
            } else if (choice < 11) {
                do_map(run, handle, place);
            } else if (choice < 14) {
                do_unmap(run, place, 1 + unit_random(&run->random) % 3);
            } else {
                do_retain(run, place);
            }
            compare(run);
        }
        unit_end(&run->unit);
    }
    free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_setup, unit_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_memory_ends_with_its_last_reference_in_any_order),
        TEST(test_a_handles_number_is_given_again_while_mappings_hold_the_old_memory),
        TEST(test_a_live_handles_number_that_comes_again_ends_only_the_handle),
        TEST(test_a_mapping_over_a_mapping_takes_its_reference_along),
        TEST(test_a_refused_release_gives_its_reference_back),
        TEST(test_one_unmap_ends_several_mappings),
        TEST(test_imported_memory_is_as_large_as_it_was_shown),
        cmocka_unit_test(test_random_events_agree_with_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
