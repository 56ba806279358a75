/* pool_query.c -- what a pool says of itself, who reaches it, and the forms of 13.0.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      asking for or setting attributes is potentially unsafe while a stream captures.
 * Not here:   pools of host or managed memory, sharing pools between processes (refused).
 */
#include "tests/sim/driver/pool.h"

/* --- attributes ------------------------------------------------------------------------------- */

static CUresult get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!vgsim_is_pool(pool) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = pool->reuse[attribute];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = pool->threshold;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->reserved;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pool->reserved_high;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pool->used_high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    CALL(INIT | UNSAFE, get_attribute(pool, attr, value));
}

/* The two marks of the past can only be set to zero: they start again from now. */
static CUresult set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, const void *value)
{
    if (!vgsim_is_pool(pool) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse[attribute] = *(const int *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(const cuuint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(const cuuint64_t *)value != 0)
            return CUDA_ERROR_INVALID_VALUE;
        if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
            pool->used_high = pool->used;
        else
            pool->reserved_high = pool->reserved;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    CALL(INIT | UNSAFE, set_attribute(pool, attr, value));
}

/* Devices do not reach each other here: a pool is its own device's. */
static CUresult set_access(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    if (!vgsim_is_pool(pool) || (count && !map))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            map[i].location.id != pool->device)
            return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    CALL(INIT, set_access(pool, map, count));
}

static CUresult get_access(CUmemAccess_flags *out, CUmemoryPool pool, const CUmemLocation *where)
{
    if (!out || !vgsim_is_pool(pool) || !where)
        return CUDA_ERROR_INVALID_VALUE;
    bool own = where->type == CU_MEM_LOCATION_TYPE_DEVICE && where->id == pool->device;
    *out = own ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
    CALL(INIT, get_access(flags, memPool, location));
}

/* --- the forms of 13.0: a place and a kind of memory instead of a device ---------------------- */

static CUresult device_of(const CUmemLocation *location, CUmemAllocationType type, CUdevice *out)
{
    if (!location)
        return CUDA_ERROR_INVALID_VALUE;
    bool host = location->type == CU_MEM_LOCATION_TYPE_HOST ||
                location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED || (type == CU_MEM_ALLOCATION_TYPE_PINNED && host))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (type != CU_MEM_ALLOCATION_TYPE_PINNED || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    *out = location->id;
    return CUDA_SUCCESS;
}

static CUresult get_at(CUmemoryPool *out, const CUmemLocation *location, CUmemAllocationType type,
                       CUresult (*get)(CUmemoryPool *, CUdevice))
{
    CUdevice device;
    CUresult result = device_of(location, type, &device);
    return result == CUDA_SUCCESS ? get(out, device) : result;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                CUmemAllocationType type)
{
    CALL(INIT, get_at(pool_out, location, type, vgsim_pool_default_of));
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    CALL(INIT, get_at(pool, location, type, vgsim_pool_current_of));
}

static CUresult set_at(const CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    CUdevice device;
    CUresult result = device_of(location, type, &device);
    return result == CUDA_SUCCESS ? vgsim_pool_make_current(device, pool) : result;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    CALL(INIT, set_at(location, type, pool));
}

/* --- sharing: a pool's handle types are none here --------------------------------------------- */

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                          CUmemAllocationHandleType handleType,
                                          unsigned long long flags)
{
    (void)handle_out;
    (void)handleType;
    (void)flags;
    CALL(INIT, vgsim_is_pool(pool) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags)
{
    (void)pool_out;
    (void)handle;
    (void)handleType;
    (void)flags;
    CALL(INIT, CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    (void)shareData_out;
    (void)ptr;
    CALL(INIT, CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                CUmemPoolPtrExportData *shareData)
{
    (void)ptr_out;
    (void)shareData;
    CALL(INIT, vgsim_is_pool(pool) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE);
}
