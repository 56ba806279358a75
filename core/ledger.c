/* ledger.c -- which device bytes are live, who owns them, and the peaks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      gate -> ledger -> record -> analyses. Changed only by vg_ledger_apply(); everyone
 *             else sees it const.
 * Holds:      slots are the truth: a slot changes first, its counters after it, all of it between
 *             vg_record_begin() and _end(), so that a reader of a half applied event makes the
 *             counters again from the slots. What the record has no slot for is counted too, and
 *             besides in the unlisted_* sums of its owners: those stand for the slots that are
 *             missing. See vg_ledger_check().
 * Threads:    the caller holds the ledger lock; nothing here blocks, allocates from libc or logs.
 * Not here:   slots and the index (ledger_slots.c), references (ledger_vmm.c), policy, names, file
 *             layout (record.c).
 */
#include "core/ledger_parts.h"

void vg_ledger_init(struct vg_ledger *ledger, struct vg_record *record)
{
    ledger->record = record;
    ledger->arena = (struct vg_arena){0};
    ledger->stacks = (struct vg_stacks){.record = record, .arena = &ledger->arena};
    for (int space = 0; space < VG_SPACE_COUNT; space++) {
        ledger->live[space] = NULL;
    }
    ledger->nameless_count = 0;
    ledger->spare_nodes = NULL;
    ledger->sites = NULL;
    ledger->last_context = 0;
    ledger->free_slot = 0;
    ledger->private_slots = (struct vg_private_slots){0};
}

/* --- counters --------------------------------------------------------------------------------- */

/* A slot says its device through its site, or where the sites are full, through its context. */
static uint32_t device_of(const struct vg_owners *owners)
{
    return owners->site ? owners->site->device : owners->context ? owners->context->device : 0;
}

struct vg_owners vg_ledger_owners(const struct vg_ledger *ledger, const struct vg_slot *slot)
{
    bool by_device = slot->site & VG_SITE_IS_DEVICE;
    struct vg_owners owners = {.site = by_device ? NULL : site_at(ledger, slot->site),
                               .context = context_at(ledger, slot->context)};
    owners.device = device_at(ledger, by_device ? slot->site & ~(uint32_t)VG_SITE_IS_DEVICE
                                                : device_of(&owners));
    return owners;
}

/* Before the live bytes of a site change: what they were at the device's last peak is still what
 * they are now, if it was not kept yet. */
static void keep_at_peak(struct vg_site *site, const struct vg_device *device)
{
    uint64_t epoch = device->peak_epoch[site->layer];
    if (site->peak_epoch != epoch) {
        site->at_peak_bytes = site->live_bytes;
        in_order();
        site->peak_epoch = epoch;
        in_order();
    }
}

static void raise_peak(struct vg_device *device, enum vg_layer layer, uint64_t live_bytes)
{
    if (live_bytes > device->peak_bytes[layer]) {
        device->peak_bytes[layer] = live_bytes;
        device->peak_epoch[layer]++;
    }
}

static void count_in_device(struct vg_device *device, const struct vg_slot *slot, uint64_t bytes,
                            uint64_t one)
{
    device->kind_bytes[slot->kind] += bytes;
    device->kind_count[slot->kind] += one;
    if (vg_kind_occupies(slot->kind)) {
        device->tracked_bytes += bytes;
        raise_peak(device, VG_LAYER_DRIVER, device->tracked_bytes);
    } else if (vg_kind_layer(slot->kind) == VG_LAYER_TORCH) {
        device->block_bytes += bytes;
        raise_peak(device, VG_LAYER_TORCH, device->block_bytes);
    }
}

/* The sums that stand for slots which the record does not have: before the counters, as a slot
 * would be. */
static void count_unlisted(struct vg_ledger *ledger, const struct vg_owners *owners,
                           const struct vg_slot *slot, uint64_t bytes, uint64_t one)
{
    struct vg_header *header = ledger->record->header;
    header->unlisted_bytes += bytes;
    header->unlisted_count += one;
    if (owners->site) {
        owners->site->unlisted_bytes += bytes;
        owners->site->unlisted_count += one;
    }
    if (owners->context && vg_kind_layer(slot->kind) == VG_LAYER_DRIVER) {
        owners->context->unlisted_bytes += bytes;
        owners->context->unlisted_count += one;
    }
    if (owners->device) {
        owners->device->unlisted_bytes[slot->kind] += bytes;
        owners->device->unlisted_count[slot->kind] += one;
    }
    in_order();
}

/* Live bytes and counts of whatever the slot belongs to. Unsigned, so that adding "minus n" takes
 * away. */
void vg_ledger_count_live(struct vg_ledger *ledger, uint64_t at, const struct vg_slot *slot,
                          const struct vg_owners *owners, enum vg_change change)
{
    uint64_t bytes = change == VG_LIVE ? slot->bytes : 0 - slot->bytes;
    uint64_t one = change == VG_LIVE ? 1 : UINT64_MAX;
    struct vg_site *site = owners->site;
    if (is_private(at)) {
        count_unlisted(ledger, owners, slot, bytes, one);
    }
    if (site) {
        if (owners->device) {
            keep_at_peak(site, owners->device);
        }
        site->live_bytes += bytes;
        site->live_count += one;
        if (site->live_bytes > site->peak_live_bytes) {
            site->peak_live_bytes = site->live_bytes;
        }
    }
    if (owners->context && vg_kind_layer(slot->kind) == VG_LAYER_DRIVER) {
        owners->context->live_bytes += bytes;
        owners->context->live_count += one;
    }
    if (owners->device) {
        count_in_device(owners->device, slot, bytes, one);
    }
}

/* How often something was allocated or freed; `one` is UINT64_MAX where a free is taken back. */
static void count_calls(const struct vg_owners *owners, const struct vg_slot *slot,
                        enum vg_change change, uint64_t one, uint64_t time_ns)
{
    struct vg_site *site = owners->site;
    struct vg_device *device = owners->device;
    if (site) {
        *(change == VG_LIVE ? &site->alloc_count : &site->free_count) += one;
        if (site->alloc_count + site->free_count == 1) {
            site->first_ns = time_ns;
        }
        site->last_ns = time_ns;
    }
    if (device && vg_kind_layer(slot->kind) == VG_LAYER_DRIVER) {
        *(change == VG_LIVE ? &device->alloc_count : &device->free_count) += one;
    }
}

/* --- the operations --------------------------------------------------------------------------- */

/* Its slot; private where the record is full; 0: no memory for that either, and it is counted as
 * dropped. */
static uint64_t list(struct vg_ledger *ledger, const struct vg_owners *owners,
                     const struct vg_slot *wanted)
{
    struct vg_header *header = ledger->record->header;
    bool to_record = !(wanted->site & VG_SITE_IS_DEVICE);
    uint64_t slot = to_record ? vg_ledger_take_slot(ledger) : 0;
    if (!slot) {
        slot = vg_ledger_take_private(ledger);
        header->saturated |= to_record ? VG_SAT_SLOTS : VG_SAT_SITES;
    }
    if (slot && !vg_ledger_index(ledger, vg_kind_space(wanted->kind), wanted->addr, slot)) {
        vg_ledger_give_slot(ledger, slot);
        slot = 0;
    }
    if (!slot) {
        header->dropped_count++;
        return 0;
    }
    struct vg_slot *at = slot_at(ledger, slot);
    struct vg_slot quiet = *wanted;
    quiet.kind = VG_KIND_NONE;
    *at = quiet;
    in_order();
    at->kind = wanted->kind;
    in_order();
    vg_ledger_count_live(ledger, slot, wanted, owners, VG_LIVE);
    return slot;
}

struct vg_slot vg_ledger_end(struct vg_ledger *ledger, uint64_t slot, uint64_t time_ns)
{
    struct vg_slot was = *slot_at(ledger, slot);
    struct vg_owners owners = vg_ledger_owners(ledger, &was);
    enum vg_space space = vg_kind_space(was.kind);
    vg_ledger_give_slot(ledger, slot);
    in_order();
    if (space == VG_SPACE_VMM && !vg_references_handles(was.references)) {
        ledger->nameless_count--;
    } else {
        vg_ledger_unindex(ledger, space, was.addr);
    }
    vg_ledger_count_live(ledger, slot, &was, &owners, VG_ENDED);
    count_calls(&owners, &was, VG_ENDED, 1, time_ns);
    return was;
}

/* Not the context's own: memory of cuMemCreate and what shows it outlive the context that was
 * current. */
static bool is_context_bound(uint8_t kind)
{
    return vg_kind_space(kind) != VG_SPACE_VMM && kind != VG_KIND_MAPPING &&
           kind != VG_KIND_MEMPOOL;
}

/* Where neither site nor context say the event's device (full sections), the slot itself does, and
 * is a private one. */
static void fill_slot(struct vg_ledger *ledger, struct vg_event *event, struct vg_slot *slot_out,
                      struct vg_owners *owners_out)
{
    uint32_t device = vg_ledger_device(ledger, event->device);
    uint32_t context =
        is_context_bound(event->kind) ? vg_ledger_context_of(ledger, event, device) : 0;
    if (!device && context) {
        device = context_at(ledger, context)->device;
    }
    struct vg_site wanted = {.stack = event->stack,
                             .api = event->api,
                             .device = (uint16_t)device,
                             .kind = event->kind,
                             .layer = (uint8_t)vg_kind_layer(event->kind)};
    event->site = vg_ledger_intern_site(ledger, &wanted);
    *slot_out = (struct vg_slot){.addr = event->addr,
                                 .bytes = event->bytes,
                                 .stream = event->stream,
                                 .site = event->site,
                                 .time_ms = (uint32_t)(event->time_ns / 1000000u),
                                 .thread = event->thread,
                                 .context = (uint16_t)context,
                                 .kind = event->kind,
                                 .flags = event->flags};
    if (vg_kind_is_referenced(event->kind)) {
        slot_out->references = vg_references(1, 0);
    }
    *owners_out = vg_ledger_owners(ledger, slot_out);
    if (device_of(owners_out) != device) {
        slot_out->site = VG_SITE_IS_DEVICE | device;
        *owners_out = vg_ledger_owners(ledger, slot_out);
    }
}

enum vg_status vg_ledger_alloc(struct vg_ledger *ledger, struct vg_event *event)
{
    struct vg_header *header = ledger->record->header;
    enum vg_status status = VG_OK;
    struct vg_slot slot;
    struct vg_owners owners;
    uint64_t old = vg_ledger_lookup(ledger, vg_kind_space(event->kind), event->addr);
    if (old && event->kind == VG_KIND_IPC && slot_at(ledger, old)->kind == VG_KIND_IPC) {
        return vg_ledger_reopen(ledger, event, old);
    }
    if (old) {
        vg_ledger_lose(ledger, old, event->time_ns);
        header->duplicate_count++;
        status = VG_DUPLICATE;
    }
    fill_slot(ledger, event, &slot, &owners);
    event->slot = list(ledger, &owners, &slot);
    if (!event->slot) {
        return VG_FULL;
    }
    count_calls(&owners, &slot, VG_LIVE, 1, event->time_ns);
    return is_private(event->slot) ? VG_FULL : status;
}

static enum vg_space space_of(const struct vg_event *event)
{
    if (event->kind == VG_KIND_NONE && event->layer == VG_LAYER_TORCH) {
        return VG_SPACE_BLOCK;
    }
    return vg_kind_space(event->kind);
}

static enum vg_status apply_free(struct vg_ledger *ledger, struct vg_event *event)
{
    enum vg_space space = space_of(event);
    uint64_t slot = vg_ledger_lookup(ledger, space, event->addr);
    if (!slot) {
        if (space == VG_SPACE_ADDRESS || vg_kind_layer(event->kind) == VG_LAYER_DRIVER) {
            ledger->record->header->unknown_free_count += space != VG_SPACE_BLOCK;
        }
        return VG_NOT_FOUND;
    }
    if (vg_kind_is_referenced(slot_at(ledger, slot)->kind)) {
        return vg_ledger_release(ledger, event, slot);
    }
    event->slot = slot;
    event->saved = vg_ledger_end(ledger, slot, event->time_ns);
    event->site = site_id(&event->saved);
    vg_ledger_remember(ledger, event, &event->saved);
    return VG_OK;
}

static enum vg_status apply_restore(struct vg_ledger *ledger, struct vg_event *event)
{
    const struct vg_slot *saved = &event->saved;
    ledger->record->header->failed_free_count++;
    if (saved->kind == VG_KIND_NONE || saved->kind >= VG_KIND_COUNT) {
        return VG_NOT_FOUND;
    }
    vg_ledger_forget(ledger, saved->addr);
    if (vg_kind_is_referenced(saved->kind) && vg_ledger_unrelease(ledger, event) == VG_OK) {
        return VG_OK;
    }
    if (vg_ledger_lookup(ledger, vg_kind_space(saved->kind), saved->addr)) {
        return VG_DUPLICATE;
    }
    struct vg_owners owners = vg_ledger_owners(ledger, saved);
    if (!list(ledger, &owners, saved)) {
        return VG_FULL;
    }
    event->site = site_id(saved);
    count_calls(&owners, saved, VG_ENDED, UINT64_MAX, event->time_ns);
    return VG_OK;
}

void vg_ledger_resize(struct vg_ledger *ledger, uint64_t slot, uint64_t bytes)
{
    struct vg_slot *at = slot_at(ledger, slot);
    struct vg_owners owners = vg_ledger_owners(ledger, at);
    vg_ledger_count_live(ledger, slot, at, &owners, VG_ENDED);
    at->bytes = bytes;
    vg_ledger_count_live(ledger, slot, at, &owners, VG_LIVE);
}

static enum vg_status apply_resize(struct vg_ledger *ledger, const struct vg_event *event)
{
    uint64_t slot = vg_ledger_lookup(ledger, vg_kind_space(event->kind), event->addr);
    struct vg_slot *at = slot_at(ledger, slot);
    if (!at || !(at->flags & VG_SLOT_GUESSED)) {
        return VG_NOT_FOUND;
    }
    at->flags &= (uint8_t)~VG_SLOT_GUESSED;
    vg_ledger_resize(ledger, slot, event->bytes);
    return VG_OK;
}

static enum vg_status apply_context_create(struct vg_ledger *ledger, const struct vg_event *event)
{
    if (!event->context_id) {
        return VG_INVALID;
    }
    if (vg_ledger_context(ledger, event->context_id)) {
        return VG_DUPLICATE;
    }
    uint32_t device = vg_ledger_device(ledger, event->device);
    return vg_ledger_make_context(ledger, event, device) ? VG_OK : VG_FULL;
}

static enum vg_status apply_context_end(struct vg_ledger *ledger, const struct vg_event *event)
{
    uint32_t context = vg_ledger_context(ledger, event->context_id);
    if (!context) {
        return VG_NOT_FOUND;
    }
    for (uint64_t slot = vg_ledger_next(ledger, 0); slot; slot = vg_ledger_next(ledger, slot)) {
        if (slot_at(ledger, slot)->context == context) {
            struct vg_slot was = vg_ledger_end(ledger, slot, event->time_ns);
            vg_ledger_remember(ledger, event, &was);
        }
    }
    context_at(ledger, context)->live = 0;
    context_at(ledger, context)->ended_ns = event->time_ns;
    return VG_OK;
}

static enum vg_status apply(struct vg_ledger *ledger, struct vg_event *event)
{
    switch ((enum vg_op)event->op) {
    case VG_OP_ALLOC:
        return vg_ledger_alloc(ledger, event);
    case VG_OP_FREE:
        return apply_free(ledger, event);
    case VG_OP_RESTORE:
        return apply_restore(ledger, event);
    case VG_OP_CTX_CREATE:
        return apply_context_create(ledger, event);
    case VG_OP_CTX_DESTROY:
    case VG_OP_CTX_RESET:
        return apply_context_end(ledger, event);
    case VG_OP_RETAIN:
        return vg_ledger_retain(ledger, event);
    case VG_OP_MAP:
        return vg_ledger_map(ledger, event);
    case VG_OP_UNMAP:
        return vg_ledger_unmap(ledger, event);
    case VG_OP_RESIZE:
        return apply_resize(ledger, event);
    case VG_OP_NONE:
    case VG_OP_COUNT:
        break;
    }
    return VG_INVALID;
}

enum vg_status vg_ledger_apply(struct vg_ledger *ledger, struct vg_event *event)
{
    struct vg_header *header = ledger->record->header;
    event->site = 0;
    if (event->op != VG_OP_RESTORE) {
        event->saved = (struct vg_slot){0};
        event->slot = 0;
    }
    if (event->kind >= VG_KIND_COUNT || event->op >= VG_OP_COUNT ||
        (event->op == VG_OP_ALLOC && event->kind == VG_KIND_NONE)) {
        return VG_INVALID;
    }
    vg_record_begin(ledger->record, vg_intent((uint32_t)ledger->free_slot, event->op));
    header->event_count++;
    header->last_event_ns = event->time_ns;
    enum vg_status status = apply(ledger, event);
    vg_record_end(ledger->record);
    return status;
}
