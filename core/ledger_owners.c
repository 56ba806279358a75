/* ledger_owners.c -- what a slot belongs to: the device, the context and the site, found or made.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/index.h"
#include "core/ledger_parts.h"

struct vg_site_node {
    uint32_t site;     /* index + 1 */
    UT_hash_handle hh; /* the key is the first SITE_KEY bytes of the site in the record */
};

enum { SITE_KEY = offsetof(struct vg_site, fail_count) };
enum { INDEX16_MAX = UINT16_MAX - 1 };

uint32_t vg_ledger_device(struct vg_ledger *ledger, int32_t ordinal)
{
    uint64_t count = vg_record_count(ledger->record, VG_SEC_DEVICES), index;
    if (ordinal < 0) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (device_at(ledger, i + 1)->ordinal == ordinal) {
            return i + 1;
        }
    }
    struct vg_device *device = count < VG_DEVICES_MAX
                                   ? vg_record_reserve(ledger->record, VG_SEC_DEVICES, 1, &index)
                                   : NULL;
    if (!device) {
        return 0;
    }
    device->ordinal = ordinal;
    device->total_bytes = device->free_bytes = VG_UNKNOWN;
    device->nvml_self_bytes = device->pool_idle_bytes = VG_UNKNOWN;
    device->settled_overhead_bytes = VG_UNKNOWN;
    vg_record_publish(ledger->record, VG_SEC_DEVICES, index + 1);
    return (uint32_t)index + 1;
}

uint32_t vg_ledger_context(const struct vg_ledger *ledger, uint64_t context_id)
{
    const struct vg_context *context = context_at(ledger, ledger->last_context);
    if (!context_id) {
        return 0;
    }
    if (context && context->id == context_id && context->live) {
        return ledger->last_context;
    }
    for (uint64_t i = vg_record_count(ledger->record, VG_SEC_CONTEXTS); i > 0; i--) {
        context = context_at(ledger, (uint32_t)i);
        if (context->id == context_id && context->live) {
            return (uint32_t)i;
        }
    }
    return 0;
}

uint64_t vg_ledger_primary(const struct vg_ledger *ledger, int32_t ordinal)
{
    for (uint64_t i = vg_record_count(ledger->record, VG_SEC_CONTEXTS); i > 0; i--) {
        const struct vg_context *context = context_at(ledger, (uint32_t)i);
        const struct vg_device *device =
            context->device ? vg_record_at(ledger->record, VG_SEC_DEVICES, context->device - 1u)
                            : NULL;
        if (context->live && context->primary && device && device->ordinal == ordinal) {
            return context->id;
        }
    }
    return 0;
}

uint32_t vg_ledger_make_context(struct vg_ledger *ledger, const struct vg_event *event,
                                uint32_t device)
{
    uint64_t index;
    if (vg_record_count(ledger->record, VG_SEC_CONTEXTS) >= INDEX16_MAX) {
        ledger->record->header->saturated |= VG_SAT_OTHER;
        return 0;
    }
    struct vg_context *context = vg_record_reserve(ledger->record, VG_SEC_CONTEXTS, 1, &index);
    if (!context) {
        return 0;
    }
    context->id = event->context_id;
    context->handle = event->handle;
    context->device = (uint16_t)device;
    context->primary = event->primary;
    context->live = 1;
    context->stack = event->stack;
    context->created_ns = event->time_ns;
    context->free_fall_bytes = event->op == VG_OP_CTX_CREATE ? event->bytes : VG_UNKNOWN;
    vg_record_publish(ledger->record, VG_SEC_CONTEXTS, index + 1);
    ledger->last_context = (uint32_t)index + 1;
    return ledger->last_context;
}

uint32_t vg_ledger_context_of(struct vg_ledger *ledger, const struct vg_event *event,
                              uint32_t device)
{
    uint32_t context = vg_ledger_context(ledger, event->context_id);
    if (context) {
        ledger->last_context = context;
    } else if (event->context_id) {
        context = vg_ledger_make_context(ledger, event, device);
    }
    return context;
}

uint32_t vg_ledger_intern_site(struct vg_ledger *ledger, const struct vg_site *wanted)
{
    struct vg_arena *index_arena = &ledger->arena;
    struct vg_site_node *node = NULL;
    HASH_FIND(hh, ledger->sites, wanted, SITE_KEY, node);
    if (node) {
        return node->site;
    }
    uint64_t index;
    struct vg_site *site = vg_record_reserve(ledger->record, VG_SEC_SITES, 1, &index);
    node = site ? vg_arena_alloc(index_arena, sizeof *node) : NULL;
    if (!node) {
        ledger->record->header->saturated |= VG_SAT_SITES;
        return 0;
    }
    *site = *wanted;
    node->site = (uint32_t)index + 1;
    HASH_ADD_KEYPTR(hh, ledger->sites, site, SITE_KEY, node);
    if (!node->hh.tbl) {
        vg_arena_free(index_arena, node, sizeof *node);
        ledger->record->header->saturated |= VG_SAT_SITES;
        return 0;
    }
    vg_record_publish(ledger->record, VG_SEC_SITES, index + 1);
    return node->site;
}

uint32_t vg_ledger_site(struct vg_ledger *ledger, uint32_t stack, uint32_t api, uint8_t kind,
                        int32_t device)
{
    struct vg_site wanted = {.stack = stack,
                             .api = api,
                             .device = (uint16_t)vg_ledger_device(ledger, device),
                             .kind = kind,
                             .layer = (uint8_t)vg_kind_layer(kind)};
    return vg_ledger_intern_site(ledger, &wanted);
}
