/* sample.h -- looking at the devices.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Free memory, what NVML says of this process and of others, and the host.
 */
#ifndef VG_SAMPLE_H
#define VG_SAMPLE_H

#include "interpose/lifecycle.h"

/* After an event of this thread: reads free memory of the current context's device where option
 * `sample` says that it is time. is_driver_event: not a block of a framework's allocator, of which
 * there are too many. */
void vg_sample_due(struct vg_guard *guard, bool is_driver_event);
/* Everything that can be known now, of every device in the record. `current` is the device whose
 * context is current (-1 none): it is asked through the driver, the others through NVML. Takes the
 * lock itself; the devices are then of one moment up to a few microseconds. */
void vg_sample_all(struct vg_guard *guard, int32_t current);
/* Pools or graph memory have been used: from now on their levels are read too. */
void vg_sample_pools_in_use(void);
/* Name, UUID, PCI address and size of a device that was just seen for the first time. */
void vg_sample_describe(struct vg_guard *guard, int32_t ordinal);

struct vg_host_memory {
    uint64_t available_bytes, cgroup_limit_bytes, cgroup_used_bytes; /* VG_UNKNOWN */
};
void vg_sample_host(struct vg_host_memory *out);

#endif
