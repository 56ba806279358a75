/* ledger_vmm.c -- memory of cuMemCreate, held by handles and by mappings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is gone with the last of them.
 *
 * Place:   ledger.c, for the kinds of space VMM and for MAPPING.
 * Holds:   a slot of space VMM lives as long as references are left. While it has one by handle it
 *          is in the index under that handle's number; with mappings alone it has no name
 *          (nameless_count), since the driver may give the number to another. A mapping's `target`
 *          is the slot that it shows; the target outlives it.
 * Source:  CUDA driver API, Virtual Memory Management: memory is freed when its handles are
 *          released and all its mappings are gone.
 */
#include "core/ledger_parts.h"

/* The finest granularity that any device has for mappings. */
static const uint64_t granularity_bytes = UINT64_C(64) << 10;

static void set_references(struct vg_slot *slot, uint32_t handles, uint32_t mappings)
{
    slot->references = vg_references(handles, mappings);
}

/* One reference less. The slot ends with the last. */
static void drop(struct vg_ledger *ledger, uint64_t slot, bool by_handle, uint64_t time_ns)
{
    struct vg_slot *at = slot_at(ledger, slot);
    uint32_t handles = vg_references_handles(at->references);
    uint32_t mappings = vg_references_mappings(at->references);
    if (handles + mappings <= 1) {
        vg_ledger_end(ledger, slot, time_ns);
        return;
    }
    if (by_handle && handles == 1) { /* mappings are left: space VMM */
        vg_ledger_unindex(ledger, VG_SPACE_VMM, at->addr);
        ledger->nameless_count++;
    }
    set_references(at, by_handle ? handles - 1 : handles, by_handle ? mappings : mappings - 1);
}

static void end_mapping(struct vg_ledger *ledger, uint64_t slot, uint64_t time_ns)
{
    struct vg_slot was = vg_ledger_end(ledger, slot, time_ns);
    const struct vg_slot *memory = slot_at(ledger, was.target);
    if (memory && vg_kind_space(memory->kind) == VG_SPACE_VMM) {
        drop(ledger, was.target, false, time_ns);
    }
}

void vg_ledger_lose(struct vg_ledger *ledger, uint64_t slot, uint64_t time_ns)
{
    struct vg_slot *at = slot_at(ledger, slot);
    if (vg_kind_space(at->kind) == VG_SPACE_VMM) {
        set_references(at, 1, vg_references_mappings(at->references));
        drop(ledger, slot, true, time_ns);
    } else if (at->kind == VG_KIND_MAPPING) {
        end_mapping(ledger, slot, time_ns);
    } else {
        vg_ledger_end(ledger, slot, time_ns);
    }
}

enum vg_status vg_ledger_reopen(struct vg_ledger *ledger, struct vg_event *event, uint64_t slot)
{
    struct vg_slot *at = slot_at(ledger, slot);
    event->slot = slot;
    event->site = site_id(at);
    set_references(at, vg_references_handles(at->references) + 1, 0);
    return VG_OK;
}

enum vg_status vg_ledger_release(struct vg_ledger *ledger, struct vg_event *event, uint64_t slot)
{
    event->slot = slot;
    event->saved = *slot_at(ledger, slot);
    event->site = site_id(&event->saved);
    drop(ledger, slot, true, event->time_ns);
    return VG_OK;
}

enum vg_status vg_ledger_unrelease(struct vg_ledger *ledger, const struct vg_event *event)
{
    struct vg_slot *at = slot_at(ledger, event->slot);
    if (!at || at->kind != event->saved.kind || at->addr != event->saved.addr) {
        return VG_NOT_FOUND; /* it had ended: the caller lists it again */
    }
    uint32_t handles = vg_references_handles(at->references);
    if (!handles) {
        if (!vg_ledger_index(ledger, VG_SPACE_VMM, at->addr, event->slot)) {
            return VG_FULL;
        }
        ledger->nameless_count--;
    }
    set_references(at, handles + 1, vg_references_mappings(at->references));
    return VG_OK;
}

/* The mapping that contains an address; the nearest start below it. Index + 1; 0 none. */
static uint64_t mapping_of(const struct vg_ledger *ledger, uint64_t addr)
{
    uint64_t slot = vg_ledger_lookup(ledger, VG_SPACE_ADDRESS, addr);
    if (slot && slot_at(ledger, slot)->kind == VG_KIND_MAPPING) {
        return slot;
    }
    /* An address inside a mapping: rare. */
    for (slot = vg_ledger_next(ledger, 0); slot; slot = vg_ledger_next(ledger, slot)) {
        const struct vg_slot *at = slot_at(ledger, slot);
        if (at->kind == VG_KIND_MAPPING && addr >= at->addr && addr - at->addr < at->bytes) {
            return slot;
        }
    }
    return 0;
}

enum vg_status vg_ledger_retain(struct vg_ledger *ledger, const struct vg_event *event)
{
    uint64_t mapping = mapping_of(ledger, event->addr);
    uint64_t slot = mapping ? slot_at(ledger, mapping)->target : 0;
    struct vg_slot *at = slot_at(ledger, slot);
    if (!at) {
        return VG_NOT_FOUND;
    }
    uint32_t handles = vg_references_handles(at->references);
    if (!handles) {
        if (!vg_ledger_index(ledger, VG_SPACE_VMM, event->handle, slot)) {
            return VG_FULL;
        }
        at->addr = event->handle;
        ledger->nameless_count--;
    }
    set_references(at, handles + 1, vg_references_mappings(at->references));
    return VG_OK;
}

/* Nobody says how large imported memory is: as much of it as was ever shown at once. */
static void learn_size(struct vg_ledger *ledger, uint64_t slot, uint64_t bytes)
{
    struct vg_slot *at = slot_at(ledger, slot);
    if (at->kind != VG_KIND_IMPORTED || at->bytes >= bytes) {
        return;
    }
    vg_ledger_resize(ledger, slot, bytes);
}

enum vg_status vg_ledger_map(struct vg_ledger *ledger, struct vg_event *event)
{
    uint64_t target = vg_ledger_lookup(ledger, VG_SPACE_VMM, event->handle);
    event->kind = VG_KIND_MAPPING;
    event->stream = target;
    enum vg_status status = vg_ledger_alloc(ledger, event);
    struct vg_slot *at = slot_at(ledger, target);
    if (!at || !event->slot) {
        return status;
    }
    learn_size(ledger, target, event->bytes);
    set_references(at, vg_references_handles(at->references),
                   vg_references_mappings(at->references) + 1);
    return status;
}

enum vg_status vg_ledger_unmap(struct vg_ledger *ledger, const struct vg_event *event)
{
    uint64_t end = event->addr + event->bytes;
    enum vg_status status = VG_NOT_FOUND;
    for (uint64_t addr = event->addr; addr < end && addr >= event->addr;) {
        uint64_t slot = vg_ledger_lookup(ledger, VG_SPACE_ADDRESS, addr);
        if (!slot || slot_at(ledger, slot)->kind != VG_KIND_MAPPING) {
            addr += granularity_bytes;
            continue;
        }
        uint64_t bytes = slot_at(ledger, slot)->bytes;
        end_mapping(ledger, slot, event->time_ns);
        addr += bytes ? bytes : granularity_bytes;
        status = VG_OK;
    }
    return status;
}
