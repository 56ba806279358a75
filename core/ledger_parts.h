/* ledger_parts.h -- what ledger.c and the ledger_*.c share. Nobody else includes it.
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

/* A slot's number is its index + 1 in the record; of those that the record has no room for, this
 * and the index + 1 among the private ones. */
#define VG_SLOT_IS_PRIVATE (UINT64_C(1) << 63)
static inline bool is_private(uint64_t slot)
{
    return slot & VG_SLOT_IS_PRIVATE;
}
/* `site` of a private slot whose device neither a site nor a context tells: this and the device's
 * index + 1. */
enum { VG_SITE_IS_DEVICE = 1 << 30 };
static inline uint32_t site_id(const struct vg_slot *slot)
{
    return slot->site & VG_SITE_IS_DEVICE ? 0 : slot->site;
}

struct vg_slot *vg_ledger_private_at(const struct vg_ledger *ledger, uint64_t slot);
static inline struct vg_slot *slot_at(const struct vg_ledger *ledger, uint64_t slot)
{
    if (is_private(slot)) {
        return vg_ledger_private_at(ledger, slot);
    }
    return slot ? vg_record_at(ledger->record, VG_SEC_SLOTS, slot - 1) : NULL;
}

/* Keeps stores in this order for whoever reads after a SIGKILL: a killed thread has made a prefix
 * of them. */
static inline void in_order(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* What a slot counts in; each may be NULL. */
struct vg_owners {
    struct vg_site *site;
    struct vg_context *context;
    struct vg_device *device;
};
enum vg_change { VG_LIVE, VG_ENDED };

/* ledger_slots.c. Both 0 where there is no room; a slot that was taken is free (kind NONE) until
 * its kind is stored. */
uint64_t vg_ledger_take_slot(struct vg_ledger *ledger);
uint64_t vg_ledger_take_private(struct vg_ledger *ledger);
void vg_ledger_give_slot(struct vg_ledger *ledger, uint64_t slot);
/* The live slot behind this one, of the record first, then private ones; 0 is before the first and
 * behind the last. */
uint64_t vg_ledger_next(const struct vg_ledger *ledger, uint64_t slot);
/* The slot with this address or handle; 0 none. */
uint64_t vg_ledger_lookup(const struct vg_ledger *ledger, enum vg_space space, uint64_t addr);
bool vg_ledger_index(struct vg_ledger *ledger, enum vg_space space, uint64_t addr, uint64_t slot);
void vg_ledger_unindex(struct vg_ledger *ledger, enum vg_space space, uint64_t addr);

/* ledger.c. */
struct vg_owners vg_ledger_owners(const struct vg_ledger *ledger, const struct vg_slot *slot);
/* at: where the slot is, or was. */
void vg_ledger_count_live(struct vg_ledger *ledger, uint64_t at, const struct vg_slot *slot,
                          const struct vg_owners *owners, enum vg_change change);
/* Takes a slot out, wherever it counts. */
struct vg_slot vg_ledger_end(struct vg_ledger *ledger, uint64_t slot, uint64_t time_ns);
enum vg_status vg_ledger_alloc(struct vg_ledger *ledger, struct vg_event *event);
void vg_ledger_resize(struct vg_ledger *ledger, uint64_t slot, uint64_t bytes);

/* ledger_frees.c: a slot of the driver's memory has ended through this event. */
void vg_ledger_remember(struct vg_ledger *ledger, const struct vg_event *event,
                        const struct vg_slot *was);
void vg_ledger_forget(struct vg_ledger *ledger, uint64_t addr);

/* ledger_vmm.c: memory that is held by handles and mappings. */
/* What had this number ended where nobody saw it: with what it referred to, but memory that is
 * still mapped lives on. */
void vg_ledger_lose(struct vg_ledger *ledger, uint64_t slot, uint64_t time_ns);
static inline bool vg_kind_is_referenced(uint8_t kind)
{
    return vg_kind_space(kind) == VG_SPACE_VMM || kind == VG_KIND_IPC;
}
/* Memory of another process that is opened once more: the driver gives the same address, and wants
 * as many closes. */
enum vg_status vg_ledger_reopen(struct vg_ledger *ledger, struct vg_event *event, uint64_t slot);
enum vg_status vg_ledger_release(struct vg_ledger *ledger, struct vg_event *event, uint64_t slot);
enum vg_status vg_ledger_unrelease(struct vg_ledger *ledger, const struct vg_event *event);
enum vg_status vg_ledger_retain(struct vg_ledger *ledger, const struct vg_event *event);
enum vg_status vg_ledger_map(struct vg_ledger *ledger, struct vg_event *event);
enum vg_status vg_ledger_unmap(struct vg_ledger *ledger, const struct vg_event *event);

/* ledger_owners.c. All return index + 1; 0: no room. */
uint32_t vg_ledger_make_context(struct vg_ledger *ledger, const struct vg_event *event,
                                uint32_t device);
/* The context of an allocation: one that nobody saw being created begins with its first
 * allocation. */
uint32_t vg_ledger_context_of(struct vg_ledger *ledger, const struct vg_event *event,
                              uint32_t device);
/* By stack, api, device, kind and layer of `wanted`. */
uint32_t vg_ledger_intern_site(struct vg_ledger *ledger, const struct vg_site *wanted);

#endif
