/* pool.c -- stream-ordered memory: pools that reserve chunks and hand out parts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      reserved is the sum of the chunks, used the sum of the parts in use. A free makes its
 *             part idle: it can be handed out again, but the pages stay the pool's until a
 *             synchronisation finds the chunk empty and the pool above its release threshold, or
 *             until it is trimmed (CUDA Programming Guide, "Stream Ordered Memory Allocator":
 *             "Physical Page Caching Behavior"). A free that its stream has not reached, as far as
 *             the host knows, keeps its chunk from both (CUDA Driver API, cuMemPoolTrimTo).
 * Not here:   pools of host or managed memory (refused); idle memory may go to every stream,
 *             whatever the attributes REUSE_* say.
 */
#include "tests/sim/driver/pool.h"

#include <stdlib.h>

#define CHUNK ((size_t)32 << 20)

/* Frees of one stream in a chunk, up to the ticket. */
struct vgsim_pending {
    uint64_t line, ticket;
    const struct CUctx_st *context;
    struct vgsim_pending *next;
};

static struct CUmemPoolHandle_st *all_pools;

/* --- chunks ----------------------------------------------------------------------------------- */

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

static bool is_idle(const struct vgsim_slab *chunk)
{
    return chunk->used == 0 && !chunk->pending;
}

/* A pool is never brought below what is to be kept (CUDA Driver API, cuMemPoolTrimTo). */
static void trim(struct CUmemPoolHandle_st *pool, uint64_t keep)
{
    struct vgsim_slab *next;
    for (struct vgsim_slab *chunk = pool->chunks; chunk && pool->reserved > keep; chunk = next) {
        next = chunk->next;
        if (is_idle(chunk) && pool->reserved - chunk->size >= keep)
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

/* --- frees that are pending ------------------------------------------------------------------- */

static void pend(struct vgsim_slab *chunk, const struct vgsim_line *line)
{
    struct vgsim_pending *pending = chunk->pending;
    while (pending && pending->line != line->id)
        pending = pending->next;
    if (!pending) {
        pending = calloc(1, sizeof *pending);
        if (!pending)
            abort(); /* the host's own memory is gone */
        pending->line = line->id;
        pending->context = line->context;
        pending->next = chunk->pending;
        chunk->pending = pending;
    }
    pending->ticket = line->last;
}

/* The work of a line up to a ticket, or that of a context if one is given. */
static void settle(struct vgsim_slab *chunk, uint64_t line, uint64_t until,
                   const struct CUctx_st *context)
{
    struct vgsim_pending **at = &chunk->pending;
    while (*at) {
        struct vgsim_pending *pending = *at;
        if (context ? pending->context == context
                    : pending->line == line && pending->ticket <= until) {
            *at = pending->next;
            free(pending);
        } else {
            at = &pending->next;
        }
    }
}

static void drop_if_over(struct CUmemPoolHandle_st *pool)
{
    if (!pool->destroyed || pool->used)
        return;
    trim(pool, 0);
    if (pool->reserved == 0)
        drop(pool);
}

static void settle_all(uint64_t line, uint64_t until, const struct CUctx_st *context)
{
    struct CUmemPoolHandle_st *next;
    for (struct CUmemPoolHandle_st *pool = all_pools; pool; pool = next) {
        next = pool->next_pool;
        for (struct vgsim_slab *chunk = pool->chunks; chunk; chunk = chunk->next)
            settle(chunk, line, until, context);
        drop_if_over(pool);
    }
}

void vgsim_pools_done(uint64_t line, uint64_t until)
{
    settle_all(line, until, NULL);
}

void vgsim_pools_done_context(const struct CUctx_st *context)
{
    settle_all(0, 0, context);
}

void vgsim_pool_free(struct vgsim_block *block)
{
    struct CUmemPoolHandle_st *pool = block->pool;
    vgsim_slab_give(block->slab, block->address, block->span);
    pool->used -= block->span;
    vgsim_block_remove(block, &pool->blocks);
    drop_if_over(pool);
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
        bool dropped = pool->destroyed;
        pool->destroyed = false;
        while (pool->blocks)
            vgsim_pool_free(pool->blocks);
        for (struct vgsim_slab *chunk = pool->chunks; chunk; chunk = chunk->next)
            while (chunk->pending)
                settle(chunk, 0, 0, chunk->pending->context);
        trim(pool, 0);
        if (pool->is_default)
            continue;
        if (!dropped)
            vgsim_books_object(device, VGSIM_COUNTED_pools, -1);
        drop(pool);
    }
}

/* --- pools ------------------------------------------------------------------------------------ */

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

CUresult vgsim_pool_default_of(CUmemoryPool *out, CUdevice device)
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
    CALL(INIT, vgsim_pool_default_of(pool_out, dev));
}

CUresult vgsim_pool_current_of(CUmemoryPool *out, CUdevice device)
{
    CUresult result = vgsim_pool_default_of(out, device);
    if (result == CUDA_SUCCESS)
        *out = vgsim_device_changed(device)->pool;
    return result;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    CALL(INIT, vgsim_pool_current_of(pool, dev));
}

bool vgsim_is_pool(CUmemoryPool pool)
{
    return vgsim_object_is(pool, POOL) && !pool->destroyed;
}

CUresult vgsim_pool_make_current(CUdevice device, CUmemoryPool pool)
{
    if (!vgsim_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!vgsim_is_pool(pool) || pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    vgsim_device_changed(device)->pool = pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    CALL(INIT, vgsim_pool_make_current(dev, pool));
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
    vgsim_books_object(pool->device, VGSIM_COUNTED_pools, 1);
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    CALL(INIT, create(pool, poolProps));
}

/* What is in use, or freed by work that is pending, stays until that is over (CUDA Driver API,
 * cuMemPoolDestroy). */
static CUresult destroy(CUmemoryPool pool)
{
    if (!vgsim_is_pool(pool) || pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    pool->destroyed = true;
    trim(pool, 0);
    struct vgsim_device *device = vgsim_device_changed(pool->device);
    if (device->pool == pool)
        device->pool = default_pool(pool->device);
    vgsim_books_object(pool->device, VGSIM_COUNTED_pools, -1);
    drop_if_over(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    CALL(INIT, destroy(pool));
}

static CUresult trim_to(CUmemoryPool pool, size_t keep)
{
    if (!vgsim_is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    trim(pool, keep);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    CALL(INIT | UNSAFE, trim_to(pool, minBytesToKeep));
}

/* --- memory ----------------------------------------------------------------------------------- */

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
        /* The last resorts: what lies idle in this device's pools, and a chunk no longer than
         * needed. */
        for (struct CUmemPoolHandle_st *other = all_pools; other; other = other->next_pool)
            if (other->device == pool->device)
                trim(other, 0);
        vgsim_round_up(block->span, VGSIM_PAGE, &bytes);
        block->slab = open_chunk(pool, bytes);
    }
    return block->slab && vgsim_slab_take(block->slab, block->span, &block->address);
}

/* While the stream captures, the allocation is a node, and the pool's properties are the node's
 * (CUDA Driver API, cuMemAllocAsync). */
static CUresult alloc_node(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, pool->device}};
    return vgsim_capture_alloc(stream, &props, bytes, out);
}

static CUresult alloc(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    CUresult result = vgsim_stream_check(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || bytes == 0 || !vgsim_is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    if ((uintptr_t)stream > 2 && stream->capture)
        return alloc_node(out, bytes, pool, stream);
    struct vgsim_block block = {.kind = VGSIM_KIND_pool,
                                .bytes = bytes,
                                .device = pool->device,
                                .context = vgsim_stream_context(stream),
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
    vgsim_work_add(vgsim_stream_line(stream));
    *out = block.address;
    return CUDA_SUCCESS;
}

static CUresult alloc_current(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    CUmemoryPool pool;
    CUresult result = vgsim_stream_check(stream);
    if (result == CUDA_SUCCESS)
        result = vgsim_pool_current_of(&pool, vgsim_stream_context(stream)->device);
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

/* Memory of cuMemAlloc and cuMemAllocManaged may be freed this way too; while the stream captures
 * only what an allocation node gave (CUDA Driver API, cuMemFreeAsync). */
static CUresult free_ordered(CUdeviceptr pointer, CUstream stream)
{
    CUresult result = vgsim_stream_check(stream);
    struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (result != CUDA_SUCCESS)
        return result;
    if ((uintptr_t)stream > 2 && stream->capture)
        return vgsim_capture_free(stream, pointer);
    if (!block || block->address != (uintptr_t)pointer)
        return CUDA_ERROR_INVALID_VALUE;
    struct vgsim_line *line = vgsim_stream_line(stream);
    switch (block->kind) {
    case VGSIM_KIND_pool:
        vgsim_work_add(line);
        pend(block->slab, line);
        vgsim_pool_free(block);
        return CUDA_SUCCESS;
    case VGSIM_KIND_graph:
        vgsim_work_add(line);
        return vgsim_graph_memory_free(pointer);
    case VGSIM_KIND_device:
    case VGSIM_KIND_managed:
        vgsim_work_add(line);
        vgsim_memory_release(block);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    CALL(CONTEXT, free_ordered(dptr, hStream));
}
