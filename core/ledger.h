/* ledger.h -- which device bytes are live, who owns them, and the peaks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Changed only by vg_ledger_apply().
 *
 * Threads: apply, check and the vg_ledger_* setters are called with the lock held (vg_lock_enter).
 * The lock knows its owner.
 */
#ifndef VG_LEDGER_H
#define VG_LEDGER_H

#include "core/lock.h"
#include "core/stacks.h"

/* Slots that the record has no room for: counted like all others, not in the file. Chunk k has
 * VG_PRIVATE_SLOTS << k of them. */
enum { VG_PRIVATE_SLOTS = 1024, VG_PRIVATE_CHUNKS = 24 };
struct vg_private_slots {
    struct vg_slot *chunk[VG_PRIVATE_CHUNKS];
    uint64_t count, free_slot; /* free_slot: number of the first free one; chained through `addr` */
};

struct vg_ledger {
    struct vg_record *record;
    struct vg_arena arena;
    struct vg_stacks stacks;
    struct vg_lock lock;
    struct vg_live_node *live[VG_SPACE_COUNT]; /* uthash: address or handle -> slot */
    uint64_t nameless_count; /* memory of cuMemCreate that only mappings hold: live, in no index */
    struct vg_live_node *spare_nodes;
    struct vg_site_node *sites; /* uthash: (stack, api, kind, device) -> site */
    uint32_t last_context;      /* index + 1 of the context found last */
    uint64_t free_slot;         /* index + 1 of the first free slot; chained through `addr` */
    struct vg_private_slots private_slots;
};

/* A fresh record and empty indexes. Touches no lock. */
void vg_ledger_init(struct vg_ledger *ledger, struct vg_record *record);

/* One event. Fills event->site, and event->saved at a FREE.
 *   ALLOC        VG_OK · VG_FULL (counted, with a private slot: unlisted_count; event->slot 0: not
 *                even that, dropped_count) · VG_DUPLICATE (the old one is ended first, counted in
 *                duplicate_count)
 *   FREE         VG_OK · VG_NOT_FOUND (nothing changed; counted in unknown_free_count, layer driver
 *                only) Space VMM: one reference by handle less; the memory ends with the last
 *                reference
 *   RETAIN       addr: a mapped address; handle: one more handle of its memory. VG_NOT_FOUND
 *   MAP          addr, bytes: a range that from now on shows the memory of `handle` (a reference).
 *                VG_OK also where the handle is unknown
 *   UNMAP        every mapping that starts in addr ... addr + bytes ends, with its reference
 *   RESIZE       addr, kind: what was counted as a guess (VG_SLOT_GUESSED) takes `bytes`.
 *                VG_NOT_FOUND
 *   RESTORE      puts event->saved back (the driver refused the free; counted in
 *                failed_free_count). No allocation: alloc_count stays, and a peak rises only where
 *                other allocations came in between
 *   CTX_CREATE   a context as known now (context_id, handle, device, primary, stack; bytes: the
 *                fall of free memory across its creation, or VG_UNKNOWN); again with the same id:
 *                VG_DUPLICATE, nothing changes
 *   CTX_DESTROY, CTX_RESET   the context context_id ends and with it every allocation in it (each
 *                            counts as a free); VG_NOT_FOUND.
 *                After the driver's success: a destroy that fails ends nothing, and no address
 *                comes back before it returned
 */
enum vg_status vg_ledger_apply(struct vg_ledger *ledger, struct vg_event *event);

/* Index + 1 of the device with this ordinal, made where it is new; 0 where there is no room. */
uint32_t vg_ledger_device(struct vg_ledger *ledger, int32_t ordinal);
/* Index + 1 of the context with this id; 0 unknown. */
uint32_t vg_ledger_context(const struct vg_ledger *ledger, uint64_t context_id);
/* The id of the live primary context of a device; 0 none known. */
uint64_t vg_ledger_primary(const struct vg_ledger *ledger, int32_t ordinal);
/* Index + 1 of the site of a stack that failed or allocated; made where it is new. */
uint32_t vg_ledger_site(struct vg_ledger *ledger, uint32_t stack, uint32_t api, uint8_t kind,
                        int32_t device);
/* The driver refused a free (event: addr, error, stack, api, thread; saved where it was taken out
 * before): counted where it happened. */
void vg_ledger_fault(struct vg_ledger *ledger, const struct vg_event *event);
/* The live slot that starts at addr, or NULL. */
const struct vg_slot *vg_ledger_find(const struct vg_ledger *ledger, enum vg_space space,
                                     uint64_t addr);
uint64_t vg_ledger_live_count(const struct vg_ledger *ledger); /* everything live, listed or not */
/* Invariants, over record and indexes. One line in why_out where one is broken. */
bool vg_ledger_check(const struct vg_ledger *ledger, char *why_out, size_t why_size);

#endif
