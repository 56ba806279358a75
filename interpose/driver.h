/* driver.h -- the guard's own calls into the driver, by saved real pointers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:   all of them, with their moments and capture modes, are in docs/driver-calls.md.
 * Threads: any thread whose vg_thread.depth is set, so that hooks inside the driver pass
 *          through. A function that the driver lacks makes values unknown.
 */
#ifndef VG_DRIVER_H
#define VG_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/ledger.h"
#include "interpose/arrays.h"

/* Looks the functions up. Once, at the end of COLD. */
void vg_driver_init(void);
int32_t vg_driver_version(void); /* 0 unknown */

struct vg_driver_context {
    uint64_t handle; /* the context pointer; 0 none is current */
    uint64_t id;     /* cuCtxGetId, else the pointer */
    int32_t device;  /* ordinal; -1 unknown */
};
/* The calling thread's current context. */
void vg_driver_current(struct vg_driver_context *out);
/* The ordinal where the program sees one device; -1 where it sees more, or nobody tells. */
int32_t vg_driver_only_device(void);
/* The id of any context. */
uint64_t vg_driver_context_id(uint64_t handle);
/* Is the primary context of this device alive? Unknown counts as alive. */
bool vg_driver_primary_is_active(int32_t device);
/* Free and total of the device of the current context. */
bool vg_driver_mem_info(uint64_t *free_out, uint64_t *total_out);

/* What the driver says an array (or mipmapped array) of this shape takes; 0 where it does not
 * say. It tells that of arrays with deferred mapping only (CUDA driver API,
 * cuArrayGetMemoryRequirements), which have no memory: one such is made, asked and destroyed, in
 * the current context. */
uint64_t vg_driver_array_bytes(const struct vg_array_shape *shape, int32_t device);
/* The size of the allocation that starts at addr; 0 unknown. */
uint64_t vg_driver_range_bytes(uint64_t addr);
/* Reserved and in use: a pool, a device's default pool (handle 0), a device's graph memory.
 * False: not told. */
bool vg_driver_pool_levels(int32_t device, uint64_t pool, uint64_t *reserved_out,
                           uint64_t *used_out);
bool vg_driver_graph_levels(int32_t device, uint64_t *reserved_out, uint64_t *used_out);

struct vg_driver_description {
    bool has_uuid;
    uint8_t uuid[16];
    char name[128], pci[32];
    uint64_t total_bytes; /* 0 unknown */
};
void vg_driver_describe(int32_t device, struct vg_driver_description *out);

#endif
