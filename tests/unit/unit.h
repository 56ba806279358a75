/* unit.h -- what the unit tests of core/ share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A record in a directory of its own, events, and checks that say what they found.
 */
#ifndef VG_TESTS_UNIT_H
#define VG_TESTS_UNIT_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/ledger.h"
#include "core/view.h"

#define MIB ((uint64_t)1024 * 1024)

struct unit {
    char dir[256], path[280], why[256];
    struct vg_record record;
    struct vg_ledger ledger;
};

static inline void unit_dir(struct unit *unit)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(unit->dir, sizeof unit->dir, "%.200s/vg-unit-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(unit->dir));
    snprintf(unit->path, sizeof unit->path, "%s/a.vgr", unit->dir);
}

static inline void unit_begin(struct unit *unit, uint64_t limit_bytes)
{
    memset(unit, 0, sizeof *unit);
    unit_dir(unit);
    assert_int_equal(vg_record_create(&unit->record, unit->path, limit_bytes), VG_OK);
    vg_ledger_init(&unit->ledger, &unit->record);
}

static inline void unit_end(struct unit *unit)
{
    vg_record_close(&unit->record);
    unlink(unit->path);
    rmdir(unit->dir);
}

/* For cmocka: *state is a struct unit. */
static inline int unit_setup(void **state)
{
    *state = malloc(sizeof(struct unit));
    unit_begin(*state, 64 * MIB);
    return 0;
}

static inline int unit_teardown(void **state)
{
    unit_end(*state);
    free(*state);
    return 0;
}

static inline uint32_t unit_stack(struct unit *unit, uint64_t place)
{
    uint32_t frame = vg_stacks_frame_native(&unit->ledger.stacks, 0, place);
    return vg_stacks_intern(&unit->ledger.stacks, &frame, 1, 0, false);
}

static inline enum vg_status unit_alloc(struct unit *unit, enum vg_kind kind, uint64_t addr,
                                        uint64_t bytes, uint32_t stack)
{
    struct vg_event event = {.op = VG_OP_ALLOC,
                             .kind = (uint8_t)kind,
                             .addr = addr,
                             .bytes = bytes,
                             .stack = stack,
                             .context_id = kind == VG_KIND_BLOCK ? 0 : 1};
    return vg_ledger_apply(&unit->ledger, &event);
}

static inline enum vg_status unit_free(struct unit *unit, enum vg_layer layer, uint64_t addr,
                                       struct vg_event *event_out)
{
    struct vg_event event = {.op = VG_OP_FREE, .layer = (uint8_t)layer, .addr = addr};
    enum vg_status status = vg_ledger_apply(&unit->ledger, &event);
    if (event_out) {
        *event_out = event;
    }
    return status;
}

static inline const struct vg_device *unit_device(struct unit *unit, uint64_t index)
{
    return vg_record_at(&unit->record, VG_SEC_DEVICES, index);
}

static inline void unit_check_ledger(struct unit *unit)
{
    if (!vg_ledger_check(&unit->ledger, unit->why, sizeof unit->why)) {
        fail_msg("ledger: %s", unit->why);
    }
}

/* The record as its reader sees it. */
static inline void unit_open(struct unit *unit, struct vg_view *view)
{
    if (vg_view_open(view, unit->path, unit->why, sizeof unit->why) != VG_OK) {
        fail_msg("view: %s", unit->why);
    }
}

static inline void unit_check_view(struct unit *unit, const struct vg_view *view)
{
    if (!vg_view_check(view, unit->why, sizeof unit->why)) {
        fail_msg("view: %s", unit->why);
    }
}

/* Runs `body` in a child, with a record of its own (a parent's is not mapped there). The status as
 * waitpid gives it: a signal shows. */
static inline int unit_in_child(int (*body)(struct unit *), uint64_t limit_bytes)
{
    struct unit own, *unit = &own;
    memset(unit, 0, sizeof *unit);
    unit_dir(unit);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        /* cmocka's handlers would go on in the child with the parent's tests. */
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        if (vg_record_create(&unit->record, unit->path, limit_bytes) != VG_OK) {
            _exit(99);
        }
        vg_ledger_init(&unit->ledger, &unit->record);
        _exit(body(unit));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink(unit->path);
    assert_int_equal(rmdir(unit->dir), 0);
    return status;
}

/* From here on the record grows no more, and has slots for `left` more live ones. What takes the
 * others is a site without a device. */
static inline void unit_fill_slots(struct unit *unit, uint64_t left)
{
    uint64_t room, index;
    for (int section = 0; section < VG_SEC_COUNT; section++) {
        vg_record_reserve(&unit->record, (enum vg_section_id)section, 1, &index);
    }
    room = vg_chunk_first(unit->record.header->section[VG_SEC_SLOTS].base_count,
                          unit->record.header->section[VG_SEC_SLOTS].chunk_count);
    unit->record.mapped_bytes = unit->record.header->file_bytes;
    unit->record.stuck = true;
    for (uint64_t i = vg_record_count(&unit->record, VG_SEC_SLOTS); i + left < room; i++) {
        struct vg_event event = {.op = VG_OP_ALLOC,
                                 .kind = VG_KIND_PINNED,
                                 .addr = UINT64_C(0x100000000) + i,
                                 .device = -1};
        vg_ledger_apply(&unit->ledger, &event);
    }
}

static inline uint64_t unit_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
