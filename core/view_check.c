/* view_check.c -- what the slots of a record add up to, and whether the counters agree.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/view_sums.h"

uint32_t vg_view_slot_device(const struct vg_view *view, const struct vg_slot *slot)
{
    const struct vg_site *site = slot->site ? vg_view_site(view, slot->site - 1) : NULL;
    const struct vg_context *context =
        slot->context ? vg_view_context(view, slot->context - 1) : NULL;
    return site ? site->device : context ? context->device : 0;
}

static void add(struct vg_sum *sum, uint64_t bytes)
{
    sum->bytes += bytes;
    sum->count++;
}

static void add_kind(struct vg_device_sum *sum, enum vg_kind kind, uint64_t bytes, uint64_t count)
{
    enum vg_layer layer = vg_kind_layer(kind);
    sum->kind[kind].bytes += bytes;
    sum->kind[kind].count += count;
    sum->driver_count += layer == VG_LAYER_DRIVER ? count : 0;
    sum->tracked_bytes += vg_kind_occupies(kind) ? bytes : 0;
    sum->block_bytes += layer == VG_LAYER_TORCH ? bytes : 0;
}

static void add_slot(struct vg_view_sums *sums, const struct vg_view *view,
                     const struct vg_slot *slot)
{
    enum vg_layer layer = vg_kind_layer(slot->kind);
    uint32_t device = vg_view_slot_device(view, slot);
    if (slot->site) {
        add(&sums->sites[slot->site - 1], slot->bytes);
    }
    if (slot->context && layer == VG_LAYER_DRIVER) {
        add(&sums->contexts[slot->context - 1], slot->bytes);
    }
    if (device) {
        add_kind(&sums->devices[device - 1], slot->kind, slot->bytes, 1);
    }
}

/* What the writer counted without a slot: sums of its own say how much, at each owner. */
static void add_unlisted(struct vg_view_sums *sums, const struct vg_view *view)
{
    for (uint64_t i = 0, n = vg_view_count(view, VG_SEC_SITES); i < n; i++) {
        const struct vg_site *site = vg_view_site(view, i);
        sums->sites[i] = (struct vg_sum){site->unlisted_bytes, site->unlisted_count};
    }
    for (uint64_t i = 0, n = vg_view_count(view, VG_SEC_CONTEXTS); i < n; i++) {
        const struct vg_context *context = vg_view_context(view, i);
        sums->contexts[i] = (struct vg_sum){context->unlisted_bytes, context->unlisted_count};
    }
    for (uint64_t i = 0, n = vg_view_count(view, VG_SEC_DEVICES); i < n; i++) {
        const struct vg_device *device = vg_view_device(view, i);
        for (int kind = 0; kind < VG_KIND_COUNT; kind++) {
            add_kind(&sums->devices[i], kind, device->unlisted_bytes[kind],
                     device->unlisted_count[kind]);
        }
    }
}

bool vg_view_sums_init(struct vg_view_sums *sums, const struct vg_view *view)
{
    size_t sites = (size_t)vg_view_count(view, VG_SEC_SITES);
    size_t contexts = (size_t)vg_view_count(view, VG_SEC_CONTEXTS);
    size_t devices = (size_t)vg_view_count(view, VG_SEC_DEVICES);
    *sums = (struct vg_view_sums){0};
    sums->memory = calloc(1, (sites + contexts) * sizeof(struct vg_sum) +
                                 devices * sizeof(struct vg_device_sum) + 1);
    if (!sums->memory) {
        return false;
    }
    sums->sites = sums->memory;
    sums->contexts = sums->sites + sites;
    sums->devices = (struct vg_device_sum *)(sums->contexts + contexts);
    add_unlisted(sums, view);
    uint64_t slots = vg_view_count(view, VG_SEC_SLOTS);
    for (uint64_t i = 0; i < slots; i++) {
        const struct vg_slot *slot = vg_view_slot(view, i);
        if (slot->kind != VG_KIND_NONE) {
            add_slot(sums, view, slot);
        }
    }
    return true;
}

void vg_view_sums_fini(struct vg_view_sums *sums)
{
    free(sums->memory);
    *sums = (struct vg_view_sums){0};
}

struct why {
    char *out;
    size_t size;
};

static bool equal(const struct why *why, const char *what, uint64_t index, uint64_t says,
                  uint64_t truth)
{
    if (says == truth) {
        return true;
    }
    snprintf(why->out, why->size, "%s of %llu is %llu, the live slots say %llu", what,
             (unsigned long long)index, (unsigned long long)says, (unsigned long long)truth);
    return false;
}

static bool not_below(const struct why *why, const char *what, uint64_t index, uint64_t peak,
                      uint64_t live)
{
    if (peak >= live) {
        return true;
    }
    snprintf(why->out, why->size, "%s of %llu is %llu, below the live %llu", what,
             (unsigned long long)index, (unsigned long long)peak, (unsigned long long)live);
    return false;
}

static bool check_sites(const struct vg_view *view, const struct vg_view_sums *sums,
                        const struct why *why)
{
    uint64_t count = vg_view_count(view, VG_SEC_SITES);
    for (uint64_t i = 0; i < count; i++) {
        const struct vg_site *site = vg_view_site(view, i);
        const struct vg_sum *sum = &sums->sites[i];
        if (!equal(why, "site: live_bytes", i, site->live_bytes, sum->bytes) ||
            !equal(why, "site: live_count", i, site->live_count, sum->count) ||
            !equal(why, "site: alloc_count - free_count", i, site->alloc_count - site->free_count,
                   sum->count) ||
            !not_below(why, "site: peak_live_bytes", i, site->peak_live_bytes, site->live_bytes)) {
            return false;
        }
    }
    return true;
}

static bool check_contexts(const struct vg_view *view, const struct vg_view_sums *sums,
                           const struct why *why)
{
    uint64_t count = vg_view_count(view, VG_SEC_CONTEXTS);
    for (uint64_t i = 0; i < count; i++) {
        const struct vg_context *context = vg_view_context(view, i);
        if (!equal(why, "context: live_bytes", i, context->live_bytes, sums->contexts[i].bytes) ||
            !equal(why, "context: live_count", i, context->live_count, sums->contexts[i].count)) {
            return false;
        }
    }
    return true;
}

static bool check_device(const struct vg_device *device, uint64_t i,
                         const struct vg_device_sum *sum, const struct why *why)
{
    for (int kind = 0; kind < VG_KIND_COUNT; kind++) {
        if (!equal(why, "device: kind_bytes", i, device->kind_bytes[kind], sum->kind[kind].bytes) ||
            !equal(why, "device: kind_count", i, device->kind_count[kind], sum->kind[kind].count)) {
            return false;
        }
    }
    return equal(why, "device: tracked_bytes", i, device->tracked_bytes, sum->tracked_bytes) &&
           equal(why, "device: block_bytes", i, device->block_bytes, sum->block_bytes) &&
           equal(why, "device: alloc_count - free_count", i,
                 device->alloc_count - device->free_count, sum->driver_count) &&
           not_below(why, "device: peak_bytes", i, device->peak_bytes[VG_LAYER_DRIVER],
                     device->tracked_bytes) &&
           not_below(why, "device: peak_bytes (blocks)", i, device->peak_bytes[VG_LAYER_TORCH],
                     device->block_bytes);
}

/* What the sites had at the peak adds up to the peak. Not where sites are missing (full), nor where
 * an event was half applied. */
static bool check_at_peak(const struct vg_view *view, uint32_t device_id, enum vg_layer layer,
                          const struct why *why)
{
    const struct vg_device *device = vg_view_device(view, device_id - 1);
    uint64_t count = vg_view_count(view, VG_SEC_SITES), sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct vg_site *site = vg_view_site(view, i);
        bool counts = layer == VG_LAYER_TORCH || vg_kind_occupies(site->kind);
        if (site->device == device_id && site->layer == layer && counts) {
            sum += vg_view_site_at_peak(view, site);
        }
    }
    if (view->recomputed || view->header->saturated & VG_SAT_SITES ||
        sum == device->peak_bytes[layer]) {
        return true;
    }
    snprintf(why->out, why->size, "device %u: the sites had %llu bytes at its %s peak of %llu",
             device_id - 1, (unsigned long long)sum, vg_layer_key(layer),
             (unsigned long long)device->peak_bytes[layer]);
    return false;
}

static bool check_devices(const struct vg_view *view, const struct vg_view_sums *sums,
                          const struct why *why)
{
    uint64_t count = vg_view_count(view, VG_SEC_DEVICES);
    for (uint64_t i = 0; i < count; i++) {
        if (!check_device(vg_view_device(view, i), i, &sums->devices[i], why) ||
            !check_at_peak(view, (uint32_t)i + 1, VG_LAYER_DRIVER, why) ||
            !check_at_peak(view, (uint32_t)i + 1, VG_LAYER_TORCH, why)) {
            return false;
        }
    }
    return true;
}

bool vg_view_check(const struct vg_view *view, char *why_out, size_t why_size)
{
    struct why why = {why_out, why_size};
    struct vg_view_sums sums;
    if (!vg_view_sums_init(&sums, view)) {
        snprintf(why_out, why_size, "no memory for the check");
        return false;
    }
    bool sound = check_sites(view, &sums, &why) && check_contexts(view, &sums, &why) &&
                 check_devices(view, &sums, &why);
    vg_view_sums_fini(&sums);
    return sound;
}
