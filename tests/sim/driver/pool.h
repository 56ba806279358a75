/* pool.h -- a memory pool, for the two files that know one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VGSIM_POOL_H
#define VGSIM_POOL_H

#include "tests/sim/driver/sim.h"

struct CUmemPoolHandle_st {
    struct vgsim_object object;
    CUdevice device;
    bool is_default, destroyed;
    uint64_t reserved, reserved_high, used, used_high, threshold, max_size;
    int reuse[4];
    struct vgsim_slab *chunks;
    struct vgsim_block *blocks;
    struct CUmemPoolHandle_st *previous_pool, *next_pool;
};

bool vgsim_is_pool(CUmemoryPool pool); /* that was not destroyed */
CUresult vgsim_pool_default_of(CUmemoryPool *out, CUdevice device);
CUresult vgsim_pool_current_of(CUmemoryPool *out, CUdevice device);
CUresult vgsim_pool_make_current(CUdevice device, CUmemoryPool pool);

#endif
