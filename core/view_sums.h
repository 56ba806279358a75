/* view_sums.h -- what the slots of a record, and what it could not list, add up to.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The truth that counters are held to or made again from.
 */
#ifndef VG_VIEW_SUMS_H
#define VG_VIEW_SUMS_H

#include "core/view.h"

struct vg_sum {
    uint64_t bytes, count;
};

struct vg_device_sum {
    struct vg_sum kind[VG_KIND_COUNT];
    uint64_t tracked_bytes, block_bytes;
    uint64_t driver_count; /* live allocations of layer driver */
};

struct vg_view_sums {
    struct vg_sum *sites, *contexts; /* by index */
    struct vg_device_sum *devices;
    void *memory;
};

/* false: no memory. The view has been opened, so every index in it is in range. */
bool vg_view_sums_init(struct vg_view_sums *sums, const struct vg_view *view);
void vg_view_sums_fini(struct vg_view_sums *sums);
/* Index + 1 of the device that a slot counts in; 0 none. */
uint32_t vg_view_slot_device(const struct vg_view *view, const struct vg_slot *slot);
/* Makes every derived counter again from the slots, in the view's own copy; false: no memory. */
bool vg_view_repair(struct vg_view *view);

#endif
