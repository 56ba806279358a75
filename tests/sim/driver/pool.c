/* pool.c -- stream-ordered memory: pools that reserve chunks and hand out parts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      reserved is the sum of the chunks, used the sum of the parts in use. A free makes its part idle:
 *             the pages stay the pool's until a synchronisation finds the chunk empty and the pool above its
 *             release threshold, or until it is trimmed.
 * Not here:   pools of host or managed memory, sharing pools between processes (refused).
 */
#include "tests/sim/driver/sim.h"

#define CHUNK ((size_t)32 << 20)

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

static struct CUmemPoolHandle_st *all_pools;

/* --- chunks ------------------------------------------------------------------------------------------------ */

static void count_reserved(struct CUmemPoolHandle_st *pool, int64_t bytes)
{
    pool->reserved += (uint64_t)bytes;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    vgsim_device_changed(pool->device)->books.pool_reserved_bytes += (uint64_t)bytes;
}

static struct vgsim_slab *open_chunk(struct CUmemPoolHandle_st *pool, size_t bytes)
{
    if (pool->max_size && pool->reserved + bytes > pool->max_size)
        return NULL;
    if (!vgsim_pages_take(pool->device, bytes / VGSIM_PAGE))
        return NULL;
    struct vgsim_slab *chunk = vgsim_slab_open(bytes);
    if (!chunk) {
        vgsim_pages_give(pool->device, bytes / VGSIM_PAGE);
        return NULL;
    }
    chunk->next = pool->chunks;
    if (chunk->next)
        chunk->next->previous = chunk;
    pool->chunks = chunk;
    count_reserved(pool, (int64_t)bytes);
    return chunk;
}

static void close_chunk(struct CUmemPoolHandle_st *pool, struct vgsim_slab *chunk)
{
    size_t bytes = chunk->size;
    if (chunk->previous)
        chunk->previous->next = chunk->next;
    else
        pool->chunks = chunk->next;
    if (chunk->next)
        chunk->next->previous = chunk->previous;
    vgsim_slab_close(chunk);
    vgsim_pages_give(pool->device, bytes / VGSIM_PAGE);
    count_reserved(pool, -(int64_t)bytes);
}

static void trim(struct CUmemPoolHandle_st *pool, uint64_t keep)
{
    struct vgsim_slab *next;
    for (struct vgsim_slab *chunk = pool->chunks; chunk && pool->reserved > keep; chunk = next) {
        next = chunk->next;
        if (chunk->used == 0)
            close_chunk(pool, chunk);
    }
}

static void drop(struct CUmemPoolHandle_st *pool)
{
    if (pool->previous_pool)
        pool->previous_pool->next_pool = pool->next_pool;
    else
        all_pools = pool->next_pool;
    if (pool->next_pool)
        pool->next_pool->previous_pool = pool->previous_pool;
    struct vgsim_device *device = vgsim_device_changed(pool->device);
    if (device->pool == pool)
        device->pool = device->default_pool;
    vgsim_object_remove(pool);
}

void vgsim_pool_free(struct vgsim_block *block)
{
    struct CUmemPoolHandle_st *pool = block->pool;
    vgsim_slab_give(block->slab, block->address, block->span);
    pool->used -= block->span;
    vgsim_block_remove(block, &pool->blocks);
    if (pool->destroyed && pool->used == 0) {
        trim(pool, 0);
        drop(pool);
    }
}

void vgsim_pools_sync(CUdevice device)
{
    for (struct CUmemPoolHandle_st *pool = all_pools; pool; pool = pool->next_pool)
        if (pool->device == device)
            trim(pool, pool->threshold);
}

void vgsim_pools_reset(CUdevice device)
{
    struct CUmemPoolHandle_st *next;
    for (struct CUmemPoolHandle_st *pool = all_pools; pool; pool = next) {
        next = pool->next_pool;
        if (pool->device != device)
            continue;
        pool->destroyed = false;
        while (pool->blocks)
            vgsim_pool_free(pool->blocks);
        trim(pool, 0);
        if (!pool->is_default)
            drop(pool);
    }
}

/* --- pools ------------------------------------------------------------------------------------------------------ */

static struct CUmemPoolHandle_st *new_pool(CUdevice device)
{
    struct CUmemPoolHandle_st *pool = vgsim_object_add(POOL, sizeof *pool, NULL);
    if (!pool)
        return NULL;
    pool->device = device;
    for (int i = 1; i < 4; i++)
        pool->reuse[i] = 1;
    pool->next_pool = all_pools;
    if (all_pools)
        all_pools->previous_pool = pool;
    all_pools = pool;
    return pool;
}

static struct CUmemPoolHandle_st *default_pool(CUdevice number)
{
    struct vgsim_device *device = vgsim_device_changed(number);
    if (!device->default_pool) {
        device->default_pool = new_pool(number);
        if (!device->default_pool)
            return NULL;
        device->default_pool->is_default = true;
    }
    if (!device->pool)
        device->pool = device->default_pool;
    return device->default_pool;
}

static CUresult get_default(CUmemoryPool *out, CUdevice device)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct CUmemPoolHandle_st *pool = default_pool(device);
    if (pool)
        *out = pool;
    return pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    CALL(INIT, get_default(pool_out, dev));
}

static CUresult get_pool(CUmemoryPool *out, CUdevice device)
{
    CUresult result = get_default(out, device);
    if (result == CUDA_SUCCESS)
        *out = vgsim_device_changed(device)->pool;
    return result;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    CALL(INIT, get_pool(pool, dev));
}

static bool is_pool(CUmemoryPool pool)
{
    return vgsim_object_is(pool, POOL) && !pool->destroyed;
}

static CUresult set_pool(CUdevice device, CUmemoryPool pool)
{
    if (!vgsim_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!is_pool(pool) || pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    vgsim_device_changed(device)->pool = pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    CALL(INIT, set_pool(dev, pool));
}

static CUresult create(CUmemoryPool *out, const CUmemPoolProps *props)
{
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!vgsim_is_device(props->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    struct CUmemPoolHandle_st *pool = new_pool(props->location.id);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->max_size = props->maxSize;
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    CALL(INIT, create(pool, poolProps));
}

/* What is still in use stays; the last free ends the pool. */
static CUresult destroy(CUmemoryPool pool)
{
    if (!is_pool(pool) || pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    trim(pool, 0);
    pool->destroyed = true;
    struct vgsim_device *device = vgsim_device_changed(pool->device);
    if (device->pool == pool)
        device->pool = default_pool(pool->device);
    if (pool->used == 0)
        drop(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    CALL(INIT, destroy(pool));
}

static CUresult trim_to(CUmemoryPool pool, size_t keep)
{
    if (!is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    trim(pool, keep);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    CALL(INIT, trim_to(pool, minBytesToKeep));
}

/* --- attributes ---------------------------------------------------------------------------------------------------- */

static CUresult get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!is_pool(pool) || !value)
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
    CALL(INIT, get_attribute(pool, attr, value));
}

/* The two marks of the past can only be set to zero: they start again from now. */
static CUresult set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, const void *value)
{
    if (!is_pool(pool) || !value)
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
    CALL(INIT, set_attribute(pool, attr, value));
}

/* Devices do not reach each other here: a pool is its own device's. */
static CUresult set_access(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    if (!is_pool(pool) || (count && !map))
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
    if (!out || !is_pool(pool) || !where)
        return CUDA_ERROR_INVALID_VALUE;
    bool own = where->type == CU_MEM_LOCATION_TYPE_DEVICE && where->id == pool->device;
    *out = own ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
    CALL(INIT, get_access(flags, memPool, location));
}

/* --- memory ----------------------------------------------------------------------------------------------------------- */

static bool take(struct CUmemPoolHandle_st *pool, struct vgsim_block *block)
{
    size_t bytes;
    for (block->slab = pool->chunks; block->slab; block->slab = block->slab->next)
        if (vgsim_slab_take(block->slab, block->span, &block->address))
            return true;
    if (!vgsim_round_up(block->span, CHUNK, &bytes))
        return false;
    block->slab = open_chunk(pool, bytes);
    if (!block->slab) {
        /* The last resorts: what lies idle in this device's pools, and a chunk no longer than needed. */
        for (struct CUmemPoolHandle_st *other = all_pools; other; other = other->next_pool)
            if (other->device == pool->device)
                trim(other, 0);
        vgsim_round_up(block->span, VGSIM_PAGE, &bytes);
        block->slab = open_chunk(pool, bytes);
    }
    return block->slab && vgsim_slab_take(block->slab, block->span, &block->address);
}

/* An allocation while the stream captures would be a graph's node: graphs have none here. */
static CUresult alloc(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    CUresult result = vgsim_stream_check(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || bytes == 0 || !is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    if (vgsim_stream_capturing(stream))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct vgsim_block block = {.kind = VGSIM_KIND_pool,
                                .bytes = bytes,
                                .device = pool->device,
                                .context = vgsim_current(),
                                .pool = pool};
    if (!vgsim_round_up(bytes, VGSIM_UNIT, &block.span) || !take(pool, &block))
        return vgsim_refused(pool->device);
    if (!vgsim_block_add(&block, &pool->blocks)) {
        vgsim_slab_give(block.slab, block.address, block.span);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->used += block.span;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    *out = block.address;
    return CUDA_SUCCESS;
}

static CUresult alloc_current(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    CUresult result = vgsim_stream_check(stream);
    CUmemoryPool pool;
    if (result != CUDA_SUCCESS)
        return result;
    CUcontext context = (uintptr_t)stream <= 2 ? vgsim_current() : stream->object.context;
    result = get_pool(&pool, context->device);
    return result == CUDA_SUCCESS ? alloc(out, bytes, pool, stream) : result;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    CALL(CONTEXT, alloc_current(dptr, bytesize, hStream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                 CUstream hStream)
{
    CALL(CONTEXT, alloc(dptr, bytesize, pool, hStream));
}

/* Memory of cuMemAlloc and cuMemAllocManaged may be freed this way too. */
static CUresult free_ordered(CUdeviceptr pointer, CUstream stream)
{
    CUresult result = vgsim_stream_check(stream);
    struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (result != CUDA_SUCCESS)
        return result;
    if (!block || block->address != (uintptr_t)pointer || block->kind == VGSIM_KIND_vmm ||
        block->kind == VGSIM_KIND_pinned || block->kind == VGSIM_KIND_registered)
        return CUDA_ERROR_INVALID_VALUE;
    if (vgsim_stream_capturing(stream))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (block->kind == VGSIM_KIND_pool)
        vgsim_pool_free(block);
    else
        vgsim_memory_release(block);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    CALL(CONTEXT, free_ordered(dptr, hStream));
}
