/* ledger_slots.c -- the places of live things.
 * SPDX-License-Identifier: Apache-2.0
 *
 * In the record, else private; and the index that finds them.
 *
 * Place:    ledger.c, ledger_vmm.c -> here.
 * Holds:    a free slot has kind NONE and is in one of the two lists of free ones. Private slots
 *           are never given up for ones of the record: what was not listed when it was made is not
 *           listed later.
 */
#include "core/index.h"
#include "core/ledger_parts.h"

struct vg_live_node {
    uint64_t addr;
    union {
        uint64_t slot; /* its number */
        struct vg_live_node *next_spare;
    };
    UT_hash_handle hh;
};

/* --- slots ------------------------------------------------------------------------------------ */

struct vg_slot *vg_ledger_private_at(const struct vg_ledger *ledger, uint64_t slot)
{
    uint64_t index = (slot & ~VG_SLOT_IS_PRIVATE) - 1, blocks = index / VG_PRIVATE_SLOTS + 1;
    unsigned k = 63u - (unsigned)__builtin_clzll(blocks);
    uint64_t first = VG_PRIVATE_SLOTS * ((UINT64_C(1) << k) - 1);
    return index < ledger->private_slots.count ? ledger->private_slots.chunk[k] + (index - first)
                                               : NULL;
}

uint64_t vg_ledger_take_slot(struct vg_ledger *ledger)
{
    uint64_t slot = ledger->free_slot, index;
    if (slot) {
        ledger->free_slot = slot_at(ledger, slot)->addr;
        return slot;
    }
    if (!vg_record_reserve(ledger->record, VG_SEC_SLOTS, 1, &index)) {
        return 0;
    }
    vg_record_publish(ledger->record, VG_SEC_SLOTS, index + 1);
    return index + 1;
}

uint64_t vg_ledger_take_private(struct vg_ledger *ledger)
{
    struct vg_private_slots *all = &ledger->private_slots;
    uint64_t slot = all->free_slot;
    if (slot) {
        all->free_slot = slot_at(ledger, slot)->addr;
        return slot;
    }
    unsigned k = 63u - (unsigned)__builtin_clzll(all->count / VG_PRIVATE_SLOTS + 1);
    if (k >= VG_PRIVATE_CHUNKS) {
        return 0;
    }
    if (!all->chunk[k]) {
        size_t bytes = ((size_t)VG_PRIVATE_SLOTS << k) * sizeof(struct vg_slot);
        all->chunk[k] = vg_arena_alloc(&ledger->arena, bytes);
    }
    return all->chunk[k] ? VG_SLOT_IS_PRIVATE | ++all->count : 0;
}

void vg_ledger_give_slot(struct vg_ledger *ledger, uint64_t slot)
{
    struct vg_slot *at = slot_at(ledger, slot);
    uint64_t *first = is_private(slot) ? &ledger->private_slots.free_slot : &ledger->free_slot;
    at->kind = VG_KIND_NONE;
    in_order();
    at->addr = *first;
    *first = slot;
}

static uint64_t following(const struct vg_ledger *ledger, uint64_t slot)
{
    if (!is_private(slot) && slot >= vg_record_count(ledger->record, VG_SEC_SLOTS)) {
        slot = VG_SLOT_IS_PRIVATE;
    }
    return slot == (VG_SLOT_IS_PRIVATE | ledger->private_slots.count) ? 0 : slot + 1;
}

uint64_t vg_ledger_next(const struct vg_ledger *ledger, uint64_t slot)
{
    do {
        slot = following(ledger, slot);
    } while (slot && slot_at(ledger, slot)->kind == VG_KIND_NONE);
    return slot;
}

/* --- the index -------------------------------------------------------------------------------- */

static struct vg_live_node *find_live(const struct vg_ledger *ledger, enum vg_space space,
                                      uint64_t addr)
{
    struct vg_live_node *node = NULL;
    HASH_FIND(hh, ledger->live[space], &addr, sizeof addr, node);
    return node;
}

uint64_t vg_ledger_lookup(const struct vg_ledger *ledger, enum vg_space space, uint64_t addr)
{
    const struct vg_live_node *node = find_live(ledger, space, addr);
    return node ? node->slot : 0;
}

bool vg_ledger_index(struct vg_ledger *ledger, enum vg_space space, uint64_t addr, uint64_t slot)
{
    struct vg_arena *index_arena = &ledger->arena;
    struct vg_live_node *node = ledger->spare_nodes;
    if (node) {
        ledger->spare_nodes = node->next_spare;
    } else {
        node = vg_arena_alloc(index_arena, sizeof *node);
    }
    if (!node) {
        return false;
    }
    node->addr = addr;
    node->slot = slot;
    HASH_ADD(hh, ledger->live[space], addr, sizeof node->addr, node);
    if (!node->hh.tbl) {
        node->next_spare = ledger->spare_nodes;
        ledger->spare_nodes = node;
        return false;
    }
    return true;
}

void vg_ledger_unindex(struct vg_ledger *ledger, enum vg_space space, uint64_t addr)
{
    struct vg_arena *index_arena = &ledger->arena;
    struct vg_live_node *node = find_live(ledger, space, addr);
    if (node) {
        HASH_DELETE(hh, ledger->live[space], node);
        node->next_spare = ledger->spare_nodes;
        ledger->spare_nodes = node;
    }
}

const struct vg_slot *vg_ledger_find(const struct vg_ledger *ledger, enum vg_space space,
                                     uint64_t addr)
{
    return slot_at(ledger, vg_ledger_lookup(ledger, space, addr));
}

uint64_t vg_ledger_live_count(const struct vg_ledger *ledger)
{
    uint64_t count = ledger->nameless_count;
    for (int space = 0; space < VG_SPACE_COUNT; space++) {
        count += HASH_COUNT(ledger->live[space]);
    }
    return count;
}
