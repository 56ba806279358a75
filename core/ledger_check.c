/* ledger_check.c -- the invariants of the ledger: record and indexes say the same.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "core/ledger.h"
#include "core/view_sums.h"

static bool is_nameless(const struct vg_slot *slot)
{
    return vg_kind_space(slot->kind) == VG_SPACE_VMM && !vg_references_handles(slot->references);
}

static bool check_slots(const struct vg_ledger *ledger, uint64_t *free_out, char *why_out,
                        size_t why_size)
{
    uint64_t count = vg_record_count(ledger->record, VG_SEC_SLOTS);
    *free_out = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct vg_slot *slot = vg_record_at(ledger->record, VG_SEC_SLOTS, i);
        if (slot->kind == VG_KIND_NONE) {
            ++*free_out;
        } else if (!is_nameless(slot) &&
                   vg_ledger_find(ledger, vg_kind_space(slot->kind), slot->addr) != slot) {
            snprintf(why_out, why_size, "slot %llu is live and not in the index",
                     (unsigned long long)i);
            return false;
        }
    }
    return true;
}

static bool check_free_list(const struct vg_ledger *ledger, uint64_t free_slots, char *why_out,
                            size_t why_size)
{
    uint64_t listed = 0;
    for (uint64_t slot = ledger->free_slot; slot && listed <= free_slots; listed++) {
        const struct vg_slot *at = vg_record_at(ledger->record, VG_SEC_SLOTS, slot - 1);
        if (!at || at->kind != VG_KIND_NONE) {
            snprintf(why_out, why_size, "slot %llu is live and in the list of free ones",
                     (unsigned long long)slot - 1);
            return false;
        }
        slot = at->addr;
    }
    if (listed != free_slots) {
        snprintf(why_out, why_size, "%llu slots are free, %llu are listed",
                 (unsigned long long)free_slots, (unsigned long long)listed);
        return false;
    }
    return true;
}

bool vg_ledger_check(const struct vg_ledger *ledger, char *why_out, size_t why_size)
{
    const struct vg_record *record = ledger->record;
    uint64_t free_slots;
    if (!check_slots(ledger, &free_slots, why_out, why_size) ||
        !check_free_list(ledger, free_slots, why_out, why_size)) {
        return false;
    }
    uint64_t live = vg_record_count(record, VG_SEC_SLOTS) - free_slots;
    if (vg_ledger_live_count(ledger) != live) {
        snprintf(why_out, why_size, "%llu slots are live, %llu are in the index",
                 (unsigned long long)live, (unsigned long long)vg_ledger_live_count(ledger));
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
