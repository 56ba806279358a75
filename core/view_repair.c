/* view_repair.c -- makes the derived counters of a record again from its slots.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      view.c, where an event was half applied when the writer died or the copy was taken.
 */
#include "core/view_sums.h"

/* The copy is the view's own; its accessors are const for everybody else. */
static void *own(const void *element)
{
    union {
        const void *in;
        void *out;
    } same = {.in = element};
    return same.out;
}

static void repair_site(struct vg_site *site, const struct vg_device *device,
                        const struct vg_sum *sum)
{
    /* As the writer does before live bytes change. */
    if (device && site->peak_epoch != device->peak_epoch[site->layer]) {
        site->at_peak_bytes = site->live_bytes;
        site->peak_epoch = device->peak_epoch[site->layer];
    }
    site->live_bytes = sum->bytes;
    site->live_count = sum->count;
    if (site->peak_live_bytes < sum->bytes) {
        site->peak_live_bytes = sum->bytes;
    }
    if (site->alloc_count < sum->count) {
        site->alloc_count = sum->count;
    }
    site->free_count = site->alloc_count - sum->count;
}

/* What is live now is the peak where it reaches it: then the half applied event may have been the
 * one that made it. */
static void repair_peak(struct vg_device *device, enum vg_layer layer, uint64_t live_bytes)
{
    if (live_bytes >= device->peak_bytes[layer]) {
        device->peak_bytes[layer] = live_bytes;
        device->peak_epoch[layer]++;
    }
}

static void repair_device(struct vg_device *device, const struct vg_device_sum *sum)
{
    for (int kind = 0; kind < VG_KIND_COUNT; kind++) {
        device->kind_bytes[kind] = sum->kind[kind].bytes;
        device->kind_count[kind] = sum->kind[kind].count;
    }
    device->tracked_bytes = sum->tracked_bytes;
    device->block_bytes = sum->block_bytes;
    repair_peak(device, VG_LAYER_DRIVER, sum->tracked_bytes);
    repair_peak(device, VG_LAYER_TORCH, sum->block_bytes);
    if (device->alloc_count < sum->driver_count) {
        device->alloc_count = sum->driver_count;
    }
    device->free_count = device->alloc_count - sum->driver_count;
}

bool vg_view_repair(struct vg_view *view)
{
    struct vg_view_sums sums;
    if (!vg_view_sums_init(&sums, view)) {
        return false;
    }
    for (uint64_t i = 0, n = vg_view_count(view, VG_SEC_SITES); i < n; i++) {
        struct vg_site *site = own(vg_view_site(view, i));
        const struct vg_device *device =
            site->device ? vg_view_device(view, site->device - 1) : NULL;
        repair_site(site, device, &sums.sites[i]);
    }
    for (uint64_t i = 0, n = vg_view_count(view, VG_SEC_CONTEXTS); i < n; i++) {
        struct vg_context *context = own(vg_view_context(view, i));
        context->live_bytes = sums.contexts[i].bytes;
        context->live_count = sums.contexts[i].count;
    }
    for (uint64_t i = 0, n = vg_view_count(view, VG_SEC_DEVICES); i < n; i++) {
        repair_device(own(vg_view_device(view, i)), &sums.devices[i]);
    }
    vg_view_sums_fini(&sums);
    return true;
}
