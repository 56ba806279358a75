/* test_memory.c -- no memory for the private indexes: at every single request, and for good.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This program has an arena of its own, which the linker takes in place of the library's.
 */
#include "tests/unit/unit.h"

static struct {
    uint64_t requests, refuse_from, refuse_to;
    size_t used;
    uint8_t memory[8 * MIB];
} arena_state;

void *vg_arena_alloc(struct vg_arena *arena, size_t bytes)
{
    uint64_t number = ++arena_state.requests;
    (void)arena;
    if (number >= arena_state.refuse_from && number < arena_state.refuse_to) {
        return NULL;
    }
    void *piece = arena_state.memory + arena_state.used;
    arena_state.used += (bytes + 15) / 16 * 16;
    assert_true(arena_state.used <= sizeof arena_state.memory);
    return memset(piece, 0, bytes);
}

void vg_arena_free(struct vg_arena *arena, void *piece, size_t bytes)
{
    (void)arena;
    (void)piece;
    (void)bytes;
}

static void refuse(uint64_t from, uint64_t to)
{
    arena_state.requests = 0;
    if (!from) {
        arena_state.used = 0;
    }
    arena_state.refuse_from = from;
    arena_state.refuse_to = to;
}

static uint64_t play(struct unit *unit)
{
    uint64_t listed = 0;
    for (uint64_t i = 1; i <= 400; i++) {
        uint32_t stack = unit_stack(unit, i % 7);
        enum vg_status status =
            unit_alloc(unit, i % 3 ? VG_KIND_DEVICE : VG_KIND_BLOCK, i * 512, i, stack);
        assert_true(status == VG_OK || status == VG_FULL);
        listed += status == VG_OK;
        if (i % 5 == 0) {
            unit_free(unit, VG_LAYER_DRIVER, (i - 1) * 512, NULL);
        }
    }
    return listed;
}

static void test_any_request_may_be_refused(void **state)
{
    struct unit unit;
    (void)state;
    refuse(0, 0);
    unit_begin(&unit, 16 * MIB);
    assert_int_equal(play(&unit), 400);
    uint64_t requests = arena_state.requests;
    unit_end(&unit);
    for (uint64_t at = 1; at <= requests; at += at < 64 ? 1 : 7) {
        unit_begin(&unit, 16 * MIB);
        refuse(at, at + 1);
        assert_in_range(play(&unit), 390, 400);
        unit_check_ledger(&unit);
        refuse(0, 0);
        unit_end(&unit);
    }
}

static void test_no_memory_from_now_on(void **state)
{
    struct unit unit;
    (void)state;
    for (uint64_t from = 1; from < 400; from += 37) {
        unit_begin(&unit, 16 * MIB);
        refuse(from, UINT64_MAX);
        uint64_t listed = play(&unit);
        unit_check_ledger(&unit);
        assert_true(listed < 400);
        assert_int_equal(unit.record.header->dropped_count, 400 - listed);
        assert_int_equal(unit.record.header->unlisted_count, 0);
        refuse(0, 0);
        unit_end(&unit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_request_may_be_refused),
        cmocka_unit_test(test_no_memory_from_now_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
