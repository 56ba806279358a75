/* ledger_check.c -- the invariants of the ledger: record and indexes say the same.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "core/ledger_parts.h"
#include "core/view_sums.h"

static bool is_nameless(const struct vg_slot *slot)
{
    return vg_kind_space(slot->kind) == VG_SPACE_VMM && !vg_references_handles(slot->references);
}

static bool check_slots(const struct vg_ledger *ledger, uint64_t *live_out, char *why_out,
                        size_t why_size)
{
    const struct vg_header *header = ledger->record->header;
    uint64_t unlisted = 0, bytes = 0;
    *live_out = 0;
    for (uint64_t slot = vg_ledger_next(ledger, 0); slot; slot = vg_ledger_next(ledger, slot)) {
        const struct vg_slot *at = slot_at(ledger, slot);
        ++*live_out;
        unlisted += is_private(slot);
        bytes += is_private(slot) ? at->bytes : 0;
        if (!is_nameless(at) && vg_ledger_find(ledger, vg_kind_space(at->kind), at->addr) != at) {
            snprintf(why_out, why_size, "slot %llx is live and not in the index",
                     (unsigned long long)slot);
            return false;
        }
    }
    if (unlisted != header->unlisted_count || bytes != header->unlisted_bytes) {
        snprintf(
            why_out, why_size, "%llu slots of %llu bytes are private, %llu of %llu are counted",
            (unsigned long long)unlisted, (unsigned long long)bytes,
            (unsigned long long)header->unlisted_count, (unsigned long long)header->unlisted_bytes);
        return false;
    }
    return true;
}

static bool check_free_list(const struct vg_ledger *ledger, uint64_t slot, uint64_t *listed_io,
                            char *why_out, size_t why_size)
{
    uint64_t all = vg_record_count(ledger->record, VG_SEC_SLOTS) + ledger->private_slots.count;
    for (; slot && *listed_io <= all; ++*listed_io) {
        const struct vg_slot *at = slot_at(ledger, slot);
        if (!at || at->kind != VG_KIND_NONE) {
            snprintf(why_out, why_size, "slot %llx is live and in the list of free ones",
                     (unsigned long long)slot);
            return false;
        }
        slot = at->addr;
    }
    return true;
}

/* Every slot is live or in a list of free ones; every live one that has a name is in the index. */
static bool check_places(const struct vg_ledger *ledger, char *why_out, size_t why_size)
{
    uint64_t all = vg_record_count(ledger->record, VG_SEC_SLOTS) + ledger->private_slots.count;
    uint64_t live, listed = 0;
    if (!check_slots(ledger, &live, why_out, why_size) ||
        !check_free_list(ledger, ledger->free_slot, &listed, why_out, why_size) ||
        !check_free_list(ledger, ledger->private_slots.free_slot, &listed, why_out, why_size)) {
        return false;
    }
    if (listed != all - live) {
        snprintf(why_out, why_size, "%llu slots are free, %llu are listed",
                 (unsigned long long)(all - live), (unsigned long long)listed);
        return false;
    }
    if (vg_ledger_live_count(ledger) != live) {
        snprintf(why_out, why_size, "%llu slots are live, %llu are in the index",
                 (unsigned long long)live, (unsigned long long)vg_ledger_live_count(ledger));
        return false;
    }
    return true;
}

bool vg_ledger_check(const struct vg_ledger *ledger, char *why_out, size_t why_size)
{
    const struct vg_record *record = ledger->record;
    if (!check_places(ledger, why_out, why_size)) {
        return false;
    }
    if (atomic_load(&record->header->intent) || atomic_load(&record->header->seq) & 1) {
        snprintf(why_out, why_size, "an event is half applied");
        return false;
    }
    struct vg_view view = {
        .base = record->base, .bytes = (size_t)record->mapped_bytes, .header = record->header};
    return vg_view_check(&view, why_out, why_size);
}
