/* ledger_parts.h -- what ledger.c and ledger_owners.c share. Nobody else includes it.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_LEDGER_PARTS_H
#define VG_LEDGER_PARTS_H

#include "core/ledger.h"

/* Elements by index + 1; NULL for 0. */
static inline struct vg_device *device_at(const struct vg_ledger *ledger, uint32_t device)
{
    return device ? vg_record_at(ledger->record, VG_SEC_DEVICES, device - 1) : NULL;
}

static inline struct vg_context *context_at(const struct vg_ledger *ledger, uint32_t context)
{
    return context ? vg_record_at(ledger->record, VG_SEC_CONTEXTS, context - 1) : NULL;
}

static inline struct vg_site *site_at(const struct vg_ledger *ledger, uint32_t site)
{
    return site ? vg_record_at(ledger->record, VG_SEC_SITES, site - 1) : NULL;
}

static inline struct vg_slot *slot_at(const struct vg_ledger *ledger, uint64_t slot)
{
    return slot ? vg_record_at(ledger->record, VG_SEC_SLOTS, slot - 1) : NULL;
}

/* All return index + 1; 0: no room. */
uint32_t vg_ledger_make_context(struct vg_ledger *ledger, const struct vg_event *event,
                                uint32_t device);
/* The context of an allocation: one that nobody saw being created begins with its first allocation. */
uint32_t vg_ledger_context_of(struct vg_ledger *ledger, const struct vg_event *event,
                              uint32_t device);
/* By stack, api, device, kind and layer of `wanted`. */
uint32_t vg_ledger_intern_site(struct vg_ledger *ledger, const struct vg_site *wanted);

#endif
